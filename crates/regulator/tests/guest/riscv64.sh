#!/bin/sh
# shellcheck shell=dash
# Runs in the guest of riscv64.rs: regulates a load with each backend, by events of the emulated counters and by page faults.
seconds=$(cat /bin/seconds)
# The kernel counts no load in groups before a controller is enabled.
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
# Interrupts take long here; the kernel would suspend them.
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
for backend in threads bpf; do
    for words in "1000 10000" "200 2000"; do
        # Budget and period, skid, time.
        # shellcheck disable=SC2086
        set -- $words
        echo "begin dtlb-misses $backend $1"
        regulate dtlb-misses $backend 1 "$1" "$2" 120 "$seconds"
    done
    echo "begin page-faults $backend 100"
    regulate page-faults $backend 1 100 10000 0 2
done
