# shellcheck shell=bash
#
# Sourced by test.sh: runs the parts of a test, each with a log of its own, and finds the processes that a part leaves behind.

# Parts that have failed, and why.
failed_parts=()
# How long processes may outlive the part that has started them, in tenths of a second.
afterlife=${AFTERLIFE:-100}

# holders FILE: a line "PID COMMAND" for each process that has the file open.
holders() {
    local pid
    { find /proc/[0-9]*/fd -lname "$1" 2>/dev/null || true; } | cut -d / -f 3 | sort -un | while read -r pid; do
        echo "$pid $({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null || true)"
    done
}

# part LOGS NAME COMMAND...: the command's output goes on, and into LOGS/NAME.log; the time that it took, into LOGS/times. It fails
# with the command, or when processes are left that hold its output open; they are ended.
part() {
    local log name=$2 began=$SECONDS status=0 clock follower left
    log=$(realpath "$1")/$name.log
    shift 2
    echo "== $name"
    : >"$log"
    # Through the file, not through a pipe: a pipe ends with the last process that has it open.
    sleep infinity >/dev/null 2>&1 &
    clock=$!
    tail -n +1 -s 0.2 -f --pid=$clock "$log" &
    follower=$!
    "$@" >>"$log" 2>&1 || status=$?
    for ((waited = 0; waited <= afterlife; waited++)); do
        left=$(holders "$log" | { grep -v "^$follower " || true; })
        [ -n "$left" ] || break
        sleep 0.1
    done
    kill $clock
    wait $clock $follower 2>/dev/null || true
    [ $status = 0 ] || failed_parts+=("$name (status $status)")
    if [ -n "$left" ]; then
        failed_parts+=("$name (left running: ${left//$'\n'/; })")
        # Whoever has ended by himself meanwhile need not be ended.
        cut -d ' ' -f 1 <<<"$left" | xargs kill -KILL 2>/dev/null || true
    fi
    printf '%-10s %3d:%02d\n' "$name" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) >>"$(dirname "$log")/times"
}
