# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# The watermarks count for who has colors as for anybody, and free pages of exclusive colors do not count for others. Both are
# given a sixteenth of memory to keep free, which is looked at while a process takes all that it can get.
marks_all=$(classes_of_nodes 0 $per_node)
marks_kept=$(cat /proc/sys/vm/min_free_kbytes)
# A list of a CPU is filled with up to 2016 pages at once, and requests of interrupts may go below.
marks_few=2048

# watched_while COMMAND...: the fewest free pages meanwhile, in /tmp/marks.
watched_while() {
    local watcher result
    rm -f /tmp/marks
    watermarks >/tmp/marks 2>&1 &
    watcher=$!
    soon grep -q '^watching' /tmp/marks
    ("$@") >/tmp/out 2>&1
    result=$?
    kill $watcher
    wait $watcher
    sed 's/^/# watermarks: /' /tmp/marks
    echo "# watermarks: after $(grep -c '^# filled' /tmp/out) MiB"
    return $result
}

# The system's OOM killer is to choose this one.
takes_all() {
    sh -c 'echo 1000 >/proc/self/oom_score_adj; exec "$@"' sh held $map all exhausted
}

all_classes() {
    watched_while colored "strict $marks_all" held $map "$marks_all" exhausted
    expect "watermarks: strict in all classes: killed" $? 137
    expect "watermarks: strict in all classes: no zone below its min" \
        "$(awk -v few=$marks_few '$2 == "least" && $3 + $7 + few < $5' /tmp/marks)" ""
    # The largest zone of each node, at least: those below it keep some for who can have no other.
    expect "watermarks: strict in all classes: what is above is used" \
        "$(awk -v few=$marks_few '$2 == "least" && $1 != "all" && $5 > few && $3 < $5 * 5 / 4 + $7 { used++ } END { print used + 0 }' /tmp/marks)" "$nodes"
}

beside_exclusive() {
    local reserved
    echo +memory >$root/cgroup.subtree_control
    mkdir $root/marks
    give marks bank "$(classes_of_nodes 2 4)" && give marks exclusive 1 || answer "watermarks: exclusive" "refused"
    reserved=$(awk '$1 == "free" { print $2 }' $floor/exclusive)
    echo "# watermarks: $reserved pages are free in exclusive colors"
    watched_while takes_all
    expect "watermarks: beside exclusive colors: killed" $? 137
    expect "watermarks: beside exclusive colors: their free pages do not count" \
        "$(awk -v few=$marks_few -v reserved="$reserved" '$1 == "all" { print ($3 + $7 + few >= $5 + reserved) ? "yes" : "no: " $0 }' /tmp/marks)" yes
    expect "watermarks: beside exclusive colors: what is above is used" \
        "$(awk -v few=$marks_few -v reserved="$reserved" '$1 == "all" { print ($3 < ($5 + reserved) * 5 / 4 + $7 + few) ? "yes" : "no: " $0 }' /tmp/marks)" yes
    expect "watermarks: beside exclusive colors: nobody was given them" \
        "$(awk -v few=$marks_few -v reserved="$reserved" '$1 == "free" { print ($2 + few >= reserved) ? "yes" : "no: " $2 }' $floor/exclusive)" yes
    soon emptied marks || answer "watermarks: the group is gone" "it is not"
}

swapoff /dev/ram0 || answer "watermarks: no swap space" "swapoff"
awk '$1 == "MemTotal:" { print int($2 / 16) }' /proc/meminfo >/proc/sys/vm/min_free_kbytes
all_classes
beside_exclusive
echo "$marks_kept" >/proc/sys/vm/min_free_kbytes
swapon /dev/ram0 || answer "watermarks: the swap space is back" "swapon"
