#!/bin/sh
# shellcheck shell=dash
# Runs in the guest of emulated.rs: regulates a load in each case of /bin/cases, a line with what the example `regulate` takes.
# The kernel counts no load in groups before a controller is enabled.
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
# Interrupts take long here; the kernel would suspend them.
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
insmod /bin/memtint_guard.ko || exit 1
while read -r event backend cpu budget period skid seconds; do
    echo "begin $event $backend $budget"
    regulate "$event" "$backend" "$cpu" "$budget" "$period" "$skid" "$seconds"
done </bin/cases
