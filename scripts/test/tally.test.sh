#!/usr/bin/env bash
# Does `make test` fail when more tests are skipped than accepted, and does its last line count all tests?
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$root/scripts/tally.sh"

printf '# comment\n\n1 needs two CPUs\n2 needs the program gdb\n' >"$scratch/accepted"

# skipped NAME STATUS TEXT LINE...
skipped() {
    local name=$1 expected=$2 text=$3 said status=0
    shift 3
    : >"$scratch/skips"
    [ $# = 0 ] || printf '%s\n' "$@" >"$scratch/skips"
    said=$(skips "$scratch/skips" "$scratch/accepted") || status=$?
    expect "$name: status" $status "$expected"
    contains "$name" "$said" "$text"
}

skipped "none skipped" 0 "  none"
skipped "as many as accepted" 0 "  2 needs the program gdb (accepted: 2)" "needs the program gdb" "needs two CPUs" "needs the program gdb"
skipped "fewer than accepted" 0 "fewer than accepted" "needs the program gdb"
skipped "more than accepted" 1 "more than accepted" "needs two CPUs" "needs two CPUs"
skipped "for another reason" 1 "  1 needs root (accepted: 0)" "needs root"

mkdir "$scratch/logs"
cat >"$scratch/logs/workspace.log" <<'L'
running 3 tests
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s
L
echo "scripts: 7 ok, 0 not ok" >"$scratch/logs/scripts.log"
printf 'ok - smp: something: 9 ok, 3 not ok\nkernel plain: 100 ok, 1 not ok\nkernel debug: 40 ok, 0 not ok\n' >"$scratch/logs/kernel.log"
printf 'needs root\nneeds root\n' >"$scratch/logs/skips"
expect "the last lines" "$(closing "$scratch/logs")" "$(printf 'kernel plain: 100 ok, 1 not ok\nkernel debug: 40 ok, 0 not ok\n162 passed, 3 failed, 3 skipped')"
rm "$scratch/logs/kernel.log"
expect "the last lines, without a kernel" "$(closing "$scratch/logs")" "22 passed, 2 failed, 3 skipped"

# The runner itself, on a copy, with stubs for its parts.
mkdir -p "$scratch/copy/scripts"
cp "$root"/scripts/{test.sh,tally.sh,parts.sh} "$scratch/accepted" "$scratch/copy/scripts"
mv "$scratch/copy/scripts/accepted" "$scratch/copy/scripts/skips.txt"
printf '#!/bin/sh\nexit "${SETUP:-0}"\n' >"$scratch/copy/scripts/setup.sh"
chmod +x "$scratch/copy/scripts/setup.sh"
stub make <<'S'
echo "make $*"
case "$*" in
    *test-workspace) echo "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured" ;;
    *test-live)
        for program in $SKIPPED; do echo "needs the program $program" >>"$MEMTINT_SKIPS"; done
        [ -z "$RED" ] || { echo "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured"; exit 2; }
        echo "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured"
        ;;
    *kernel*) echo "kernel plain: 7 ok, 0 not ok" ;;
esac
S
# runner NAME STATUS TAIL [MODE]: its status, and the end of its output.
runner() {
    local said status=0
    said=$("$scratch/copy/scripts/test.sh" ${4:+"$4"} 2>&1) || status=$?
    printf '%s\n' "$said" >"$scratch/said"
    expect "$1: status" $status "$2"
    expect "$1" "$(tail -n "$(wc -l <<<"$3")" <<<"$said")" "$3"
}
export SKIPPED="" RED=""
runner "all green" 0 "$(printf 'kernel plain: 7 ok, 0 not ok\n23 passed, 0 failed, 0 skipped')"
contains "the time of each part" "$(tr -s ' \n' ' ' <"$scratch/said" | sed 's/ 0:[0-9][0-9]/ TIME/g')" "setup TIME lint TIME oldest TIME workspace TIME live TIME scripts TIME kernel TIME"
contains "the kernel's suites, if need be" "$(cat "$scratch/said")" "-C kernel check"
runner "all, when asked" 0 "23 passed, 0 failed, 0 skipped" full
contains "the kernel's suites, when asked" "$(cat "$scratch/said")" "-C kernel test"
RED=1 runner "a part fails, and the others are run" 1 "$(printf 'failed: live (status 2)\nkernel plain: 7 ok, 0 not ok\n22 passed, 1 failed, 0 skipped')"
SKIPPED="gdb gdb" runner "as many skipped as accepted" 0 "21 passed, 0 failed, 2 skipped"
SKIPPED="gdb gdb gdb" runner "too many skipped" 1 "$(printf 'failed: skipped tests\nkernel plain: 7 ok, 0 not ok\n20 passed, 0 failed, 3 skipped')"
SETUP=3 runner "without its programs nothing is run" 1 "== setup"
expect "another mode is refused" "$("$scratch/copy/scripts/test.sh" fast 2>&1 || echo "status $?")" "$(printf 'test.sh: "fast" is no mode; accepted are full, or none\nstatus 2')"

# Every skip in Rust goes through the one helper: a line of another form is not counted.
other=$(grep -rnE '(print|println|eprint|eprintln|write|writeln)!\(.*"skipped' "$root"/crates --include=*.rs | grep -v '^[^:]*crates/testing/' || true)
expect "every skipped test is counted" "$other" ""
echo end
exit $failed
