# shellcheck shell=bash
#
# Sourced by test.sh: runs the parts of the test suite, logs each, and detects processes that a part leaves behind.

# Parts that have failed, and why.
failed_parts=()
# How long processes may outlive the part that started them, in tenths of a second.
afterlife=${AFTERLIFE:-100}

# holders FILE: a line "PID COMMAND" for each process that has the file open.
holders() {
    local pid
    # By the file, not by its name, which may be another file's in another mount namespace.
    { find -L /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 -samefile "$1" 2>/dev/null || true; } | cut -d / -f 3 | sort -un | while read -r pid; do
        echo "$pid $({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null || true)"
    done
}

# part LOGS NAME COMMAND...: run the command, copy its output to LOGS/NAME.log and append its duration to LOGS/times. A part fails if
# its command fails, or if it leaves behind processes that hold its output open; these are killed.
part() {
    local log name=$2 began=$SECONDS status=0 clock follower left pid waited
    log=$(realpath "$1")/$name.log
    shift 2
    echo "== $name"
    : >"$log"
    # Follows a file instead of reading a pipe: a leftover process would keep the pipe open forever.
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
        # Some may have ended in the meantime.
        while read -r pid _; do kill -KILL "$pid" 2>/dev/null || true; done <<<"$left"
    fi
    printf '%-10s %3d:%02d\n' "$name" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) >>"$(dirname "$log")/times"
}
