#!/usr/bin/env bash
# Is the output of a part complete, and does a leftover process fail the part instead of blocking the suite?
set -euo pipefail
. "$(dirname "$0")/lib.sh"
export AFTERLIFE=2
. "$root/scripts/parts.sh"

mkdir "$scratch/logs"
# runs NAME COMMAND...: run a part, with its output in $said.
runs() {
    failed_parts=()
    part "$scratch/logs" "$@" >"$scratch/said"
    said=$(cat "$scratch/said")
}

runs much seq 100000
expect "all output is passed on" "$said" "$(echo "== much"; seq 100000)"
expect "all output is kept" "$(cat "$scratch/logs/much.log")" "$(seq 100000)"
expect "a good part has not failed" "${#failed_parts[@]}" 0

runs bad sh -c 'echo it fails >&2; exit 3'
expect "errors are passed on" "$said" "$(printf '== bad\nit fails')"
expect "a bad part has failed" "${failed_parts[*]}" "bad (status 3)"

runs short sh -c '(sleep 0.1; echo late) &'
expect "what ends soon is waited for" "$said" "$(printf '== short\nlate')"
expect "and is no failure" "${#failed_parts[@]}" 0

runs stuck sh -c 'sleep 7201 & echo "$!"'
left=$(tail -n 1 <<<"$said")
expect "what is left behind is named" "${failed_parts[*]}" "stuck (left running: $left sleep 7201 )"
sleep 0.1
expect "and ended" "$({ tr '\0' ' ' <"/proc/$left/cmdline"; } 2>/dev/null || true)" ""

expect "the time of each part is kept" "$(sed 's/ *[0-9]*:[0-9]*$//' "$scratch/logs/times" | tr '\n' ' ')" "much bad short stuck "
echo end
exit $failed
