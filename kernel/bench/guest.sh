#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the guest of bench.sh runs: the module in each state of the kernel's memory. A line for each measurement: state,
# workload, what pagebench found. On the kernel's command line: KIND=stock, series or palloc; SEED.
floor=/sys/kernel/debug/memtint
bench=/sys/kernel/debug/pagebench
group=/sys/fs/cgroup/group

tell() {
    echo "$1" >$bench/run || { echo "pagebench refuses: $1"; exit 1; }
}

# run STATE WORKLOAD COMMAND
run() {
    tell "$3 $SEED"
    sed "s/^/$1 $2 /" $bench/run
}

# Empties the lists of each CPU: the first thing done to take a piece of memory out of use. There is no other way on a stock
# kernel. The piece is one that pagebench has a page in, so that it stays.
drain() {
    local piece
    piece=$(awk '$7 == "pinned" { print $8 }' $bench/run)
    piece=$((piece / 0x$(cat /sys/devices/system/memory/block_size_bytes)))
    echo offline 2>/dev/null >/sys/devices/system/memory/memory$piece/state && echo "memory$piece went"
    return 0
}

# Nothing on the lists of the CPU, and then all that is needed comes from them.
both() {
    run "$1" burst "burst $2 1"
    run "$1" churn "churn $2 500"
}

# The two states that every task can be measured in: memory in large blocks, and any half of it in single pages.
fresh_and_fragmented() {
    local name=$1 policy=${2:-none} pages=${3:-8192}
    drain
    (colored "$policy" && both "$name-fresh" "$pages")
    tell "halve $SEED"
    drain
    (colored "$policy" && both "$name-fragmented" "$pages")
    tell release
}

# What the shell that calls it has from now on: no colors, those of a cgroup, or its own. The pages that are there are moved
# first: whoever moves them would run during the measurements.
colored() {
    case $1 in
        none) return ;;
        group) echo 0 >$group/cgroup.procs ;;
        *) echo "$1" >$floor/task ;;
    esac && cat $floor/settled >/dev/null
}

# The last pages of the colors, and none.
scarce() {
    (colored "$2" && tell "hold 4096 $SEED" && drain && both "$1-scarce" 2048)
    tell release
    (colored "$2" && run "$1-exhausted" fail "exhaust 100")
    echo "$1-exhausted left $(free_pages "$3")"
    tell release
}

# Free pages of the classes FIRST-LAST in the largest zone, as another reader of the mapping sees them.
free_pages() {
    awk '{ for (i = 0; i < $2; i++) print $1 + i }' $bench/free | colors /tmp/map |
        awk -v "first=${1%-*}" -v "last=${1#*-}" 'NR > 1 && $1 >= first && $1 <= last { n++ } END { print n + 0 }'
}

mapping() {
    memtint platform detect --functions-of cfl-1ch2r >/tmp/here.toml && memtint palette /tmp/here.toml --kernel >/tmp/map || exit 1
    dd if=/tmp/map of=$floor/map bs=64k 2>/dev/null || exit 1
}

# From now on the page allocator asks whose memory is accounted, whatever else is in it.
grouped() {
    echo +memory >${group%/*}/cgroup.subtree_control && mkdir $group || exit 1
}

insmod /bin/pagebench.ko || exit 1
case $KIND in
    stock)
        fresh_and_fragmented plain
        grouped
        fresh_and_fragmented grouped
        ;;
    series)
        fresh_and_fragmented off
        mapping
        fresh_and_fragmented uncolored
        fresh_and_fragmented four "strict 2-5"
        scarce four "strict 2-5" 2-5
        fresh_and_fragmented single "strict 9" 4096
        scarce single "strict 9" 9-9
        grouped
        echo 2-5 >$group/memory.colors.bank || exit 1
        fresh_and_fragmented group group
        fresh_and_fragmented beside
        echo 1 >$group/memory.colors.exclusive || exit 1
        fresh_and_fragmented reserved
        ;;
    palloc)
        mapping
        echo 1 >$floor/palloc
        fresh_and_fragmented palloc "strict 2-5"
        scarce palloc "strict 2-5" 2-5
        ;;
    *) exit 1 ;;
esac
