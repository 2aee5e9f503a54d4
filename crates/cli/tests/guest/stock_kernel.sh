#!/bin/busybox sh
# shellcheck shell=dash
# Runs in the guest of tests/it/stock_kernel.rs: programs in color on a stock kernel with two NUMA nodes and cgroups of
# version 2. Says what it saw as lines `CASE WORD VALUE`; the test judges.
export MEMTINT_PLATFORM=/tmp/platform.toml

# The classes of node 1 follow those of node 0: 0-15, 16-31.
memtint platform detect --functions-of skl-e3-1220v5-4x4g >$MEMTINT_PLATFORM || exit
# Pages used from the other node are moved there within a second, not a minute, unless memtint prevents it.
for word in scan_delay_ms scan_period_min_ms; do
    echo 100 >/sys/kernel/debug/sched/numa_balancing/$word
done

echo "guest kernel $(uname -r)"
echo "guest balancing $(cat /proc/sys/kernel/numa_balancing)"
echo "guest nodes $(cat /sys/devices/system/node/has_memory)"

# The process whose name this is, and not its helper.
pid_of() {
    for comm in /proc/[0-9]*/comm; do
        # Without processes of its own: starting one takes long here. A process may have ended meanwhile.
        if read -r word 2>/dev/null <"$comm" && [ "$word" = "$1" ]; then
            comm=${comm%/comm}
            echo "${comm#/proc/}"
            return
        fi
    done
}

# Private pages of a process by node, as the kernel counts them, memtint's pool left out.
pages_by_node() {
    grep -v '^4d' /proc/"$1"/numa_maps | grep anon= | tr ' ' '\n' | awk -F= '
        $1 == "N0" || $1 == "N1" { pages[$1] += $2 } END { print pages["N0"] + 0, pages["N1"] + 0 }'
}

queries() {
    cat <<'SQL'
create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 15000)
    insert into t select x, printf('%0100d', x * 7919 % 1000003) from c;
create index i on t(b);
select 'ready', count(*), sum(a), min(b), max(b) from t;
SQL
}

# wait_for WORD FILE: until a line begins with the word, or ten minutes: the clock of the guest goes on while the host is busy.
wait_for() {
    tries=0
    until grep -q "^$1" "$2" || [ $tries -ge 6000 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

# database CASE COLORS [OPTION...]: a database in color, looked at while it waits for the next query.
#
# It runs in the cgroup $cgroup, which is looked at as a whole; with $busy it works for a while before.
database() {
    name=$1 colors=$2
    shift 2
    rm -f /tmp/in /tmp/out
    mkfifo /tmp/in
    sh -c 'echo $$ >"$0"/cgroup.procs; exec "$@"' "$cgroup" \
        memtint run $colors "$@" --report /tmp/report.json -- sqlite3 :memory: </tmp/in >/tmp/out &
    front=$!
    exec 3>/tmp/in
    queries >&3
    wait_for ready /tmp/out
    if [ -n "$busy" ]; then
        for pass in 1 2 3 4 5 6; do echo "select 'busy', count(*) from t where b like '%$pass%1%';"; done >&3
        echo "select 'done';" >&3
        wait_for 'done' /tmp/out
    fi
    pid=$(pid_of sqlite3)
    if [ "$cgroup" = /sys/fs/cgroup ]; then observed=$pid; else observed=--cgroup=$cgroup; fi
    echo "$name inspect $(memtint inspect --format json $colors "$observed" | tr -d '\n')"
    echo "$name pages $(pages_by_node "$pid")"
    echo .quit >&3
    exec 3>&-
    wait $front
    echo "$name status $?"
    echo "$name output $(grep -v '^busy\|^done' /tmp/out)"
    echo "$name report $(tr -d '\n' </tmp/report.json)"
}

cgroup=/sys/fs/cgroup
busy=

echo "native output $(queries | sqlite3 :memory:)"
database banks "--banks 0-3"
database node0 "--node 0" --cores 1
database node1 "--node 1" --cores 0
database spanning "--banks 0-3,16-19"
busy=yes
database balanced "--banks 0-3" --cores 1
busy=
cgroup=/sys/fs/cgroup/task
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $cgroup
echo 48M >$cgroup/memory.max
database cgroup "--banks 20-23"
echo "cgroup killed $(sed -n 's/^oom_kill //p' $cgroup/memory.events)"
echo "cgroup peak $(cat $cgroup/memory.peak)"

# Half of the colors are on the node that the cgroup may not use, and then all.
cgroup=/sys/fs/cgroup/confined
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
mkdir $cgroup
echo 0 >$cgroup/cpuset.mems
database confined "--banks 0-3,16-19"
refusal=$(sh -c 'echo $$ >"$0"/cgroup.procs; exec "$@"' $cgroup memtint run --node 1 -- true 2>&1)
echo "outside status $?"
echo "outside refusal $(echo "$refusal" | tail -n 1)"

# Threads on both nodes.
seq 50000 | awk '{ print ($1 * 7919) % 1000003 }' >/tmp/numbers
echo "native sorted $(/bin/sort --parallel=2 -S 8M /tmp/numbers | md5sum)"
echo "threads sorted $(memtint run --banks 0-3,16-19 --report /tmp/report.json -- /bin/sort --parallel=2 -S 8M /tmp/numbers | md5sum)"
echo "threads report $(tr -d '\n' </tmp/report.json)"

# Page faults are regulated. The root has passed a controller on above, so that groups are counted.
regulated() {
    backend=$1 group=/sys/fs/cgroup/memtint-guard/web
    # The shell below empties it when it gets to run; what the regulator before has said would be taken for this one's word.
    rm -f /tmp/out
    memtint --format json guard --event page-faults --group web=50ev@1 --period "20 ms" --interval "1000 s" \
        --backend "$backend" >/tmp/out 2>/tmp/error &
    regulator=$!
    until grep -qs guard-started /tmp/out || ! kill -0 $regulator; do sleep 0.1; done
    echo | sh -c 'echo $$ >"$0"/cgroup.procs; exec memtint guard load faults 1 1000' $group >/tmp/load
    kill -TERM $regulator
    wait $regulator
    echo "guard-$backend status $?"
    echo "guard-$backend refusal $(tail -n 1 /tmp/error)"
    echo "guard-$backend started $(head -n 1 /tmp/out)"
    echo "guard-$backend caused $(sed -n 's/^caused //p' /tmp/load)"
    echo "guard-$backend report $(tail -n 1 /tmp/out)"
}

regulated bpf
regulated threads

echo "guest killed $(dmesg | grep -ci 'out of memory\|killing')"
