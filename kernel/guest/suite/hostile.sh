# SPDX-License-Identifier: GPL-2.0-only
#
# A program with a strict policy that wants pages of other colors. Each attempt ends in color, or the kernel does not do it.
# Where it succeeds today, it is a limit, named here and in kernel/README.md; one that has gone must be taken off this list.
limits="inherited-file file-of-another hugetlb aio-ring"

list=$(classes_of_nodes 2 4)
# Some give up their privileges, and must find their files.
chmod 755 /root
# Room for the attempt on huge pages of a pool.
echo 4 >/proc/sys/vm/nr_hugepages
killed=$(awk '$1 == "killed" { print $2 }' $floor/stat)
hostile $map "$list" $floor "strict $list" >/tmp/hostile 2>/tmp/hostile.said
expect "hostile: came to its end" $? 0
echo 0 >/proc/sys/vm/nr_hugepages
rm -rf /root/set-uid /root/script /root/huge
grep -v '^#' /tmp/hostile >/tmp/hostile.attempts
while read -r attempt word detail; do
    case " $limits " in
        *" $attempt "*)
            [ "$word" = out ] && answer "hostile: $attempt (a limit: it is given other colors)" ||
                answer "hostile: $attempt" "$word, $detail: no longer a limit"
            ;;
        *)
            case $word in
                held | refused) answer "hostile: $attempt ($word)" ;;
                *) answer "hostile: $attempt" "$word, $detail" ;;
            esac
            ;;
    esac
done </tmp/hostile.attempts
# Refused by name, and nothing else was: these must have been tried in earnest.
expect "hostile: attempts that are refused" "$(echo $(awk '$2 == "refused" { print $1 }' /tmp/hostile.attempts))" unprivileged
expect "hostile: nobody is killed for it" "$(awk '$1 == "killed" { print $2 }' $floor/stat)" "$killed"
sed 's/^/# hostile: /' /tmp/hostile.said
