# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154,SC2046 # test.sh sets what is not set here; words are split on purpose
#
# A program with a strict policy that wants pages of other colors. Each attempt ends in color, or the kernel does not do it.
# Where it can succeed today, it is a limit, named here and in kernel/README.md. Now and then it is given what an earlier attempt
# has left, in color by chance: what has gone for good must be taken off this list by hand.
limits="file-of-another hugetlb aio-ring"

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
            case $word in
                out) answer "hostile: $attempt (a limit: it is given other colors)" ;;
                held | refused) answer "hostile: $attempt (a limit, $word this time)" ;;
                *) answer "hostile: $attempt" "$word, $detail" ;;
            esac
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
expect "hostile: attempts that are refused" "$(echo $(awk '$2 == "refused" { print $1 }' /tmp/hostile.attempts))" "unprivileged inherited-file"
# By these the observer is seen to see.
expect "hostile: the file and the huge page are out of color" \
    "$(echo $(awk '$2 == "out" && ($1 == "hugetlb" || $1 == "file-of-another") { print $1 }' /tmp/hostile.attempts))" \
    "file-of-another hugetlb"
expect "hostile: nobody is killed for it" "$(awk '$1 == "killed" { print $2 }' $floor/stat)" "$killed"
sed 's/^/# hostile: /' /tmp/hostile.said
