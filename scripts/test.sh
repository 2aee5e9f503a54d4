#!/usr/bin/env bash
# test.sh [full]: runs everything that CI checks, part after part, also when one has failed: lint, the tests of the workspace, live
# tests, tests of scripts, and the kernel's suites (with "full" in any case, else when something has changed that they depend on).
#
# The end of its output: the time of each part, skipped tests by reason, what has failed, the kernel's own last lines, and
# "N passed, N failed, N skipped". Status 1 when a part has failed, or more tests are skipped than scripts/skips.txt accepts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tally.sh

mode=${1:-}
case $mode in '' | full) ;; *) echo "test.sh: \"$mode\" is no mode; accepted are full, or none" >&2; exit 2 ;; esac

# The fuzzer of the runtime's protocol sends a tenth of this otherwise.
if [ "$mode" = full ]; then export MEMTINT_FUZZ_MESSAGES=${MEMTINT_FUZZ_MESSAGES:-1000000}; fi
logs=$PWD/build/test
rm -rf "$logs"
mkdir -p "$logs"
export MEMTINT_SKIPS=$logs/skips
: >"$MEMTINT_SKIPS"
failed=()

# part NAME COMMAND...: its output goes on, and is kept for the tally.
part() {
    local name=$1 began=$SECONDS status=0
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$logs/$name.log" || status=$?
    [ $status = 0 ] || failed+=("$name (status $status)")
    printf '%-10s %3d:%02d\n' "$name" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) >>"$logs/times"
}

make=(make --no-print-directory)
part setup scripts/setup.sh test
if [ ${#failed[@]} -gt 0 ]; then exit 1; fi
part lint "${make[@]}" lint
part workspace "${make[@]}" test-workspace
part live "${make[@]}" test-live
part scripts "${make[@]}" test-scripts
if [ "$mode" = full ]; then part kernel "${make[@]}" -C kernel test; else part kernel "${make[@]}" -C kernel check; fi

echo
echo "time of each part, in minutes and seconds"
sed 's/^/  /' "$logs/times"
skips "$MEMTINT_SKIPS" scripts/skips.txt || failed+=("skipped tests")
for name in "${failed[@]}"; do echo "failed: $name"; done
closing "$logs"
[ ${#failed[@]} = 0 ]
