#!/usr/bin/env bash
# test.sh [full]: runs everything that CI checks, part after part, also when one has failed: lint, a compilation with the oldest Rust, the
# tests of the workspace, live tests, tests of scripts, and the kernel's suites (with "full" in any case, else when something has changed
# that they depend on).
#
# The end of its output: the time of each part, skipped tests by reason, what has failed, the kernel's own last lines, and
# "N passed, N failed, N skipped". Status 1 when a part has failed, or more tests are skipped than scripts/skips.txt accepts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/tally.sh
. scripts/parts.sh

mode=${1:-}
case $mode in '' | full) ;; *) echo "test.sh: \"$mode\" is no mode; accepted are full, or none" >&2; exit 2 ;; esac

# Without it, the fuzzer of the runtime's protocol sends a tenth of the messages, regulation on emulated processors is tried for 5 seconds,
# and tests of minutes run only when something has changed that they depend on.
if [ "$mode" = full ]; then
    export MEMTINT_TEST_FULL=1 MEMTINT_FUZZ_MESSAGES=${MEMTINT_FUZZ_MESSAGES:-1000000} MEMTINT_REGULATED_SECONDS=${MEMTINT_REGULATED_SECONDS:-60}
fi
logs=$PWD/build/test
rm -rf "$logs"
mkdir -p "$logs"
export MEMTINT_SKIPS=$logs/skips
: >"$MEMTINT_SKIPS"

make=(make --no-print-directory)
part "$logs" setup scripts/setup.sh test
if [ ${#failed_parts[@]} -gt 0 ]; then exit 1; fi
part "$logs" lint "${make[@]}" lint
# Without rustup, or a way to what it downloads, the compiler that is here is the only one.
if "${make[@]}" oldest-rust >"$logs/oldest-rust.log" 2>&1; then
    part "$logs" oldest "${make[@]}" oldest
else
    echo "needs the oldest Rust that is supported" >>"$MEMTINT_SKIPS"
fi
part "$logs" workspace "${make[@]}" test-workspace
part "$logs" live "${make[@]}" test-live
part "$logs" scripts "${make[@]}" test-scripts
if [ "$mode" = full ]; then part "$logs" kernel "${make[@]}" -C kernel test; else part "$logs" kernel "${make[@]}" -C kernel check; fi

echo
echo "time of each part, in minutes and seconds"
sed 's/^/  /' "$logs/times"
skips "$MEMTINT_SKIPS" scripts/skips.txt || failed_parts+=("skipped tests")
for name in "${failed_parts[@]}"; do echo "failed: $name"; done
closing "$logs"
[ ${#failed_parts[@]} = 0 ]
