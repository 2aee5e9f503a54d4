#!/bin/bash
# Runs in an emulated machine with systemd and the package (systemd.test.sh): do the units do what docs/howto/systemd.md describes?
# Prints "ok" and "not ok" lines.
set -uo pipefail

# expect NAME FOUND EXPECTED
expect() {
    if [ "$2" = "$3" ]; then echo "ok - $1"; else echo "not ok - $1 # found '$2', expected '$3'" | tr '\n' ' '; echo; fi
}

# await COMMAND...: until it succeeds, for two minutes at most; an emulated machine is slow.
await() {
    local end=$((SECONDS + 120))
    while [ $SECONDS -lt $end ]; do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    echo "# waited for: $*"
    return 1
}

# of UNIT PROPERTY: its value.
of() {
    systemctl show -P "$2" "$1"
}

is() {
    [ "$(of "$1" "$2")" = "$3" ]
}

# said UNIT PATTERN: whether the unit's journal since its last start has it.
said() {
    journalctl --sync
    journalctl -o cat "_SYSTEMD_INVOCATION_ID=$(of "$1" InvocationID)" | grep -qE -- "$2"
}

program() {
    journalctl --sync
    journalctl -o cat "_SYSTEMD_INVOCATION_ID=$(of "$1" InvocationID)" | sed -nE 's/^notify: process ([0-9]+) .*/\1/p'
}

field() {
    sed -nE "s/^$2:\s*(\S+).*/\1/p" "/proc/$1/status"
}

# begin UNIT: starts it, as far as the program that has not sent READY=1.
begin() {
    rm -f /run/ready
    systemctl start --no-block "$1"
    await said "$1" '^notify: process'
}

# ready UNIT: begins, and has the program send READY=1.
ready() {
    begin "$1"
    touch /run/ready
    await is "$1" ActiveState active
}

# left UNIT: processes in the cgroup of an instance of memtint-run.
left() {
    local group="/sys/fs/cgroup/system.slice/system-memtint\\x2drun.slice/$1"
    if [ -d "$group" ]; then find "$group" -name cgroup.procs -exec cat {} +; fi
}

# diagnose UNIT: for the log of a test that has failed.
diagnose() {
    systemctl status --no-pager --lines 30 "$1" 2>&1 | sed 's/^/# /'
}

memtint platform detect --functions-of skl-e3-1220v5-4x4g >/etc/memtint/platform.toml
cat >/etc/memtint/system.toml <<'T'
platform = "./platform.toml"

[[task]]
name = "control"
command = ["/usr/local/bin/notify", "/run/ready", "1000"]
banks = "0-3"

[[task]]
name = "watched-one"
command = ["/usr/local/bin/notify", "/run/ready", "100"]
banks = "4-7"

[[task]]
name = "quiet"
command = ["sleep", "1000"]
banks = "8-11"

[[task]]
name = "regulated"
command = ["sleep", "1000"]
banks = "12-15"
cores = "1"
bandwidth = { budget = "64 KiB", period = "1 ms" }
T
expect "systemd is here" "$(cat /proc/1/comm)" systemd
expect "systemd has no objection to the units" "$(systemd-analyze verify --man=no /usr/lib/systemd/system/memtint-*.service 2>&1 | grep memtint-)" ""

unit=memtint-run@control.service
compaction=/proc/sys/vm/compaction_proactiveness
before=$(cat $compaction)
begin $unit
expect "before READY=1 of the program, the service is starting" "$(of $unit ActiveState)" activating
touch /run/ready
await is $unit ActiveState active
expect "after it, the service is active" "$(of $unit ActiveState) $(of $unit StatusText)" "active colored"
main=$(of $unit MainPID) colored=$(program $unit)
expect "the main process is memtint" "$(cat "/proc/$main/comm") $(field "$colored" PPid)" "memtint $main"
memtint inspect --system /etc/memtint/system.toml --task control "$colored" >/run/inspected 2>&1
expect "all pages of the program are in its colors" "$?" 0
sed 's/^/# /' /run/inspected
expect "proactive compaction is off" "$before $(cat $compaction)" "20 0"
[ "$(cat $compaction)" = 0 ] || diagnose $unit
systemctl stop $unit
expect "SIGTERM of systemctl stop ends the program" "$(of $unit Result) $(of $unit ExecMainStatus) $(of $unit ActiveState)" "success 0 inactive"
expect "and leaves no process" "$(left $unit)" ""
expect "and proactive compaction is on again" "$(cat $compaction)" 20

ready $unit
systemctl kill --kill-whom=main -s HUP $unit
await is $unit ActiveState failed
expect "a status of the program is that of the service" "$(of $unit Result) $(of $unit ExecMainStatus)" "exit-code 3"
ready $unit
systemctl kill --kill-whom=main -s USR1 $unit
await is $unit ActiveState failed
expect "a signal that ends the program is that of the service" "$(of $unit Result | sed s/core-dump/signal/) $(of $unit ExecMainStatus)" "signal 6"
ready $unit
kill -KILL "$(of $unit MainPID)"
await is $unit ActiveState failed
expect "nothing goes on when memtint is killed" "$(of $unit Result) $(left $unit)" "signal "
ready $unit
colored=$(program $unit)
systemctl kill --kill-whom=main -s USR2 $unit
await is $unit MainPID "$colored"
expect "a program can make itself the main process" "$(of $unit MainPID)" "$colored"
systemctl stop $unit
# systemd may not see its status, and then calls the service failed.
expect "and leaves no process when it is stopped" "$(is $unit ActiveState active && echo active)$(left $unit)" ""

# Drop-ins, as in docs/howto/systemd.md.
watched=memtint-run@watched-one.service quiet=memtint-run@quiet.service
mkdir -p /etc/systemd/system/$watched.d /etc/systemd/system/$quiet.d
cat >/etc/systemd/system/$watched.d/options.conf <<'T'
[Service]
Environment="MEMTINT_OPTIONS=--user games --soft"
WatchdogSec=20
T
printf '[Service]\nType=exec\n' >/etc/systemd/system/$quiet.d/options.conf
systemctl daemon-reload
ready $watched
colored=$(program $watched)
expect "options of a drop-in: another user" "$(of $watched ActiveState) $(field "$colored" Uid)" "active 5"
[ "$(of $watched ActiveState)" = active ] || diagnose $watched
expect "that user's program has no capabilities" "$(field "$colored" CapEff)" 0000000000000000
sleep 25
expect "the program keeps the watchdog alive" "$(of $watched ActiveState)" active
kill -STOP "$colored"
await is $watched ActiveState failed
expect "the watchdog ends a program that hangs" "$(of $watched Result) $(left $watched)" "watchdog "
systemctl start $quiet
expect "a drop-in with Type=exec, for a program that sends nothing" "$(of $quiet ActiveState)" active
systemctl stop $quiet
systemctl start memtint-run@nothing.service 2>/dev/null
expect "a task that the file does not have is a failure" "$(of memtint-run@nothing.service Result) $(of memtint-run@nothing.service ExecMainStatus)" "exit-code 125"
said memtint-run@nothing.service 'no task "?nothing' || diagnose memtint-run@nothing.service

# The regulator, with the event that an emulated processor counts.
guard=memtint-guard.service
mkdir -p /etc/systemd/system/$guard.d
cat >/etc/systemd/system/$guard.d/event.conf <<'T'
[Service]
ExecStart=
ExecStart=/usr/bin/memtint guard --system /etc/memtint/system.toml --event page-faults --event-bytes 64 --metrics 127.0.0.1:9464 --interval "60 s"
T
mkdir -p /etc/systemd/system/memtint-run@regulated.service.d
printf '[Service]\nType=exec\n' >/etc/systemd/system/memtint-run@regulated.service.d/type.conf
systemctl daemon-reload
systemctl start $guard 2>/dev/null
expect "the regulator is active after its self-test" "$(of $guard ActiveState)" active
[ "$(of $guard ActiveState)" = active ] || diagnose $guard
expect "its status can be asked for" "$(memtint guard status >/run/status 2>&1; echo $?)" 0
systemctl start memtint-run@regulated.service
expect "a task with a budget runs in its group" "$(of memtint-run@regulated.service ActiveState)" active
[ "$(of memtint-run@regulated.service ActiveState)" = active ] || diagnose memtint-run@regulated.service
systemctl stop memtint-run@regulated.service
systemctl stop $guard
expect "the regulator is stopped" "$(of $guard ActiveState) $(of $guard Result)" "inactive success"
[ "$(of $guard Result)" = success ] || diagnose $guard
systemd-analyze security --no-pager memtint-guard.service $unit 2>/dev/null | grep -E 'Overall exposure' | sed 's/^/# /'
