# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# More memory than one class has, beside a bystander who has much of the rest: the task's own pages are swapped out, and those
# that the bystander has in that class, but none of its others, save what kswapd takes, which knows no colors. With either LRU.

# swapped PID: its own pages that are in swap, to the page, which VmSwap is not: CPUs hold changes of that back. The text of
# programs can be there as well: the root file system is swapped out like other memory.
swapped() {
    awk '/^[0-9a-f]+-/ { private = $6 !~ /^\// } private && $1 == "Swap:" { sum += $2 } END { print sum / 4 }' /proc/$1/smaps
}
# Pages that kswapd has taken from anybody.
taken() {
    awk '$1 == "pgsteal_kswapd" { print $2 }' /proc/vmstat
}

# under_pressure NAME: with the LRU of that name.
under_pressure() {
    local lru=$1
    class=$(classes_of_nodes 12 1)
    bystander_mib=$(awk '$1 == "MemFree:" { mib = int($2 / 2048); print mib < 600 ? mib : 600 }' /proc/meminfo)
    # What earlier suites have left there would take the room.
    swapoff /dev/ram0 && swapon /dev/ram0 || answer "pressure: $lru: the swap space is empty" "swapoff"
    rm -f /tmp/bystander
    pressure $map all $bystander_mib "$class" >/tmp/bystander 2>&1 &
    bystander=$!
    while kill -0 $bystander 2>/dev/null && ! grep -q '^coveted' /tmp/bystander; do sleep 1; done
    expect "pressure: $lru: the bystander has its memory" "$(grep -E '^(not )?ok' /tmp/bystander)" "ok - $bystander_mib MiB"

    swapped_before=$(swapped $bystander) taken_before=$(taken)
    # A class has a 16th of memory; the swap space has room for what is beyond it, and for the bystander's share.
    class_mib=$(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16) }' /proc/meminfo)
    for mib in $((class_mib * 6 / 10)) $((class_mib + 30)); do
        (colored "strict $class" pressure $map "$class" $mib) >/tmp/out 2>&1
        expect "pressure: $lru: $mib of $class_mib MiB" "$(grep -E '^(not )?ok' /tmp/out)" "ok - $mib MiB"
        sed -n "s/^# /# pressure: $lru: /p" /tmp/out
    done
    awk -v lru="$lru" '$1 == "SwapFree:" { print "# pressure: " lru ": " int($2 / 4) " pages of swap are free" }' /proc/meminfo
    coveted=$(awk '$1 == "coveted" { print $2 }' /tmp/bystander)
    lost=$(($(swapped $bystander) - swapped_before)) taken=$(($(taken) - taken_before))
    echo "# pressure: $lru: $lost pages of the bystander were swapped out, of $coveted in that class; kswapd took $taken"
    [ $lost -le $((coveted + taken)) ] && answer "pressure: $lru: the bystander keeps its pages of other classes" ||
        answer "pressure: $lru: the bystander keeps its pages of other classes" "$lost were swapped out, $coveted in that class, $taken by kswapd"
    # By SIGTERM, here: nothing has ended it before.
    kill $bystander 2>/dev/null
    wait $bystander 2>/dev/null
    expect "pressure: $lru: the bystander lives" $? 143
}

# Once they are counted, the bystander's pages are to stay where they are: kcompactd brings others of them into the class.
proactive=/proc/sys/vm/compaction_proactiveness
proactive_was=$(cat $proactive)
echo 0 >$proactive
generations=/sys/kernel/mm/lru_gen/enabled
was=$(cat $generations)
echo n >$generations
expect "pressure: two lists are in use" "$(($(cat $generations) & 1))" 0
under_pressure "two lists"
echo y >$generations
expect "pressure: generations are in use" "$(($(cat $generations) & 1))" 1
under_pressure generations
echo "$was" >$generations
echo "$proactive_was" >$proactive
