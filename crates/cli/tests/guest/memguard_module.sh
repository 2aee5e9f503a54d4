#!/bin/sh
# shellcheck shell=dash
# Runs in the guest of memguard_module.rs: the module regulates loads of page faults. Lines are "CASE WORD VALUE".
device=/dev/memtint-guard
say() { echo "$1 $2 $3"; }

# request PERIOD_NS SHARING GROUP...: print a configuration.
request() {
    printf 'memtint-guard 1\nperiod %s\nevent %s 1 2 0 0\nskid 0\nstep 10\nsharing %s\n' "$1" "${whose:-all}" "$2"
    shift 2
    for group in "$@"; do echo "group $group"; done
    echo end
}
begin() {
    request "$@" >/tmp/request
    exec 3<>$device
    cat /tmp/request >&3
}
end() { exec 3>&-; }
# tell CASE: print the numbers of each core.
tell() {
    local case=$1 line
    grep '^core ' $device | while read -r line; do say "$case" core "$line"; done
}
# load CPU MS: cause page faults on a CPU; print their number.
load() { echo | memtint guard load faults "$1" "$2" | sed -n 's/^caused //p'; }

uname -r >/tmp/release
say guest kernel "$(cat /tmp/release)"
# Interrupts take long on an emulated CPU; the kernel would suspend overflows.
echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
say guest absent "$(memtint guard --backend kernel --event page-faults --core 1=10ev 2>&1 | tr '\n' ' ')"
insmod /bin/memtint_guard.ko
say guest insmod $?

# Budgets far below what the load would use, by scheduling policy. A deadline task may be bound to a CPU only in a cpuset partition.
for policy in other fifo; do
    begin 20000000 none "20 hard 5 1"
    if [ $policy = fifo ]; then prefix="chrt -f 99"; else prefix=; fi
    say $policy caused "$(echo | $prefix memtint guard load faults 1 1500 | sed -n 's/^caused //p')"
    tell $policy
    end
done
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/partition
echo 1 >/sys/fs/cgroup/partition/cpuset.cpus
echo root >/sys/fs/cgroup/partition/cpuset.cpus.partition
say deadline partition "$(cat /sys/fs/cgroup/partition/cpuset.cpus.partition)"
begin 20000000 none "20 hard 5 1"
say deadline caused "$(
    echo 0 >/sys/fs/cgroup/partition/cgroup.procs
    echo | chrt -d --sched-runtime 15000000 --sched-deadline 20000000 --sched-period 20000000 0 memtint guard load faults 1 1500 |
        sed -n 's/^caused //p'
)"
tell deadline
end
rmdir /sys/fs/cgroup/partition 2>/dev/null

# One event of each period: the fair server would have 50 ms of each second.
begin 10000000 none "1 hard 1 1"
say one caused "$(load 1 2500)"
tell one

# A second one that writes is refused; one that reads is not.
say second status "$( (exec 4<>$device) 2>&1 | tr '\n' ' ')"
say second running "$(grep running $device)"
end
say ended running "$(grep running $device)"
say ended caused "$(load 1 300)"

# A change of the reservation.
begin 20000000 none "10 hard 5 1"
change() { if echo "$*" >&3; then echo accepted; else echo refused; fi 2>/dev/null; }
say reserve changed "$(change reserve 0 40 hard)"
say reserve soft "$(change reserve 0 40 soft)"
say reserve absent "$(change reserve 1 40 hard)"
load 1 100 >/dev/null
echo forget >&3
load 1 1000 >/dev/null
tell reserve
end

# Idle CPUs give what they do not use, and get it back.
begin 20000000 none "50 soft 10 0" "50 soft 10 1"
say soft caused "$(load 1 1000)"
tell soft
load 0 1000 >/tmp/caused &
load 1 1000 >/dev/null
wait
tell both
end

# Sharing: an idle CPU does not keep the other throttled.
begin 20000000 spare "10 hard 10 0" "10 hard 10 1"
say spare caused "$(load 1 1000)"
tell spare
end

# A CPU that goes and comes is regulated again.
begin 20000000 none "20 hard 5 1"
echo 0 >/sys/devices/system/cpu/cpu1/online
say hotplug offline "$(sed -n 's/^core .* online \([01]\) .*/\1/p' $device)"
echo 1 >/sys/devices/system/cpu/cpu1/online
tries=0
while ! grep -q 'core .* online 1' $device && [ $tries -lt 100 ]; do
    sleep 0.05
    tries=$((tries + 1))
done
say hotplug caused "$(load 1 1000)"
tell hotplug
end

# CPUs that come and go while others begin and end: perf takes the lock of CPU hotplug to make and to release such counters.
toggle() {
    local round=0
    while [ $round -lt 30 ]; do
        echo 0 >/sys/devices/system/cpu/cpu1/online
        echo 1 >/sys/devices/system/cpu/cpu1/online
        round=$((round + 1))
    done
}
toggle &
round=0
while [ $round -lt 60 ]; do
    begin 1000000 none "1 hard 1 0"
    end
    round=$((round + 1))
done
wait
say storm rounds $round

# What the kernel does for a program: reading into pages that were not touched, one by one.
echo never >/sys/kernel/mm/transparent_hugepage/enabled
for whose in all user; do
    begin 100000000 none "1000000 hard 1000000 1"
    taskset 2 dd if=/dev/zero of=/dev/null bs=4M count=1 2>/dev/null
    # Until that period has ended.
    sleep 0.3
    tell "kernel-$whose"
    end
done
whose=all

# A process that is killed leaves nothing behind.
request 20000000 none "1 hard 1 1" >/tmp/request
sh -c "exec 3<>$device; cat /tmp/request >&3; echo >/tmp/ready; exec sleep 100" &
killed=$!
while ! [ -e /tmp/ready ]; do sleep 0.05; done
kill -9 $killed
wait $killed
say killed running "$(grep running $device)"

# Requests that are refused, with their reason.
refuse() {
    local case=$1
    exec 3<>$device
    cat >&3 2>/dev/null
    say "refuse-$case" status $?
    say "refuse-$case" reason "$(cat <&3 | sed -n 's/^refused //p')"
    exec 3>&-
}
request 99999 none "1 hard 1 1" | refuse period
request 1000000 all "1 hard 1 1" | refuse sharing
request 1000000 none "0 hard 1 1" | refuse budget
request 1000000 none "1 hard 1 1 1" | refuse twice
request 1000000 none "2147483647 hard 1 1" | refuse sum
request 1000000 none "1 hard 1 7" | refuse absent
request 1000000 none "1 hard 1 1" | sed 's/ 1 2 0 0/ 1 0 0 0/' | refuse clock
request 1000000 none "1 hard 1 1" | sed 's/ 1 2 0 0/ 4 1c2 0 0/' | refuse counter
request 1000000 none "1 hard 1 1" | sed '$d' | refuse torn
{ request 1000000 none "1 hard 1 1"; echo more; } | refuse more

# The same by the command line, which tests itself first.
memtint guard --backend kernel --event page-faults --core 1=20ev --period "20 ms" --seconds 3 --format json >/tmp/lines 2>/tmp/told &
guard=$!
while ! grep -q guard-started /tmp/lines && kill -0 $guard 2>/dev/null; do sleep 0.1; done
say guard caused "$(load 1 1500)"
wait $guard
say guard status $?
say guard started "$(grep guard-started /tmp/lines)"
say guard report "$(grep guard-ended /tmp/lines)"
say guard told "$(tr '\n' ' ' </tmp/told)"
memtint guard --backend kernel --event page-faults --group web=20ev 2>/tmp/told
say group status $?
say group told "$(tr '\n' ' ' </tmp/told)"
rmmod memtint_guard
say guest rmmod $?
dmesg | grep -E 'WARNING|BUG|Oops|stall|scheduling while' | sed 's/^/guest complaint /'
