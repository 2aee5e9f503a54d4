#!/bin/sh
# shellcheck shell=dash
# Runs in the guest of riscv64.rs: regulates a load with each backend, by events of the emulated counters and by page faults.
seconds=$(cat /bin/seconds)
# The kernel counts no load in groups before a controller is enabled.
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
# Interrupts take long here; the kernel would suspend them.
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
insmod /bin/memtint_guard.ko || exit 1
# The self-test's load must reach one event more than the skid in each period, also where the host is slow. The counters are exact.
skid=20
for backend in threads bpf kernel; do
    # Threads that wake up for each quantum may need all of 2 ms here.
    case $backend in threads) short=5000 ;; *) short=2000 ;; esac
    for words in "1000 10000" "200 $short"; do
        # Budget and period.
        # shellcheck disable=SC2086
        set -- $words
        echo "begin dtlb-misses $backend $1"
        regulate dtlb-misses $backend 1 "$1" "$2" $skid "$seconds"
    done
    echo "begin page-faults $backend 100"
    regulate page-faults $backend 1 100 10000 0 2
done
