#!/usr/bin/env bash
# Does `make test` run the kernel's suites when something that they depend on has changed, and a smoke boot otherwise?
#
# kernel/check.sh works on a copy of the sources, with stubs in place of the build, the suites and the smoke boot.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

export CHECK_ROOT=$scratch/tree CHECK_BUILD=$scratch/bin/build CHECK_SUITES=$scratch/bin/suites CHECK_SMOKE=$scratch/bin/smoke
stub build <<'S'
[ ! -e "${0%/*}/broken" ] || exit 1
echo "/cache/built-plain-$(cat "${0%/*}/key")"
S
stub suites <<'S'
echo "suites $*"
[ ! -e "${0%/*}/edit" ] || echo >>"$CHECK_ROOT/kernel/build.sh"
[ ! -e "${0%/*}/fails" ]
S
stub smoke <<'S'
echo "smoke $*"
[ ! -e "${0%/*}/fails" ]
S
stub qemu-system-x86_64 <<'S'
echo "QEMU $(cat "${0%/*}/key")"
S
echo 1 >"$scratch/bin/key"
unset PARTS MACHINES STRESS_SECONDS

mkdir "$CHECK_ROOT"
(cd "$root" && find kernel platforms crates Cargo.lock -type f ! -path '*/target/*' -print0 | tar -c --null -T - -f -) | tar -x -f - -C "$CHECK_ROOT"

# check NAME EXPECTED [MODE]: what it runs, with its status.
check() {
    local found status=0
    found=$("$root/kernel/check.sh" memtint ${3:+"$3"} 2>"$scratch/errors") || status=$?
    expect "$1" "$found, status $status" "$2"
}

check "a fresh machine: everything" "suites memtint, status 0"
contains "a fresh machine: the reason" "$(cat "$scratch/errors")" "they have not passed here yet"
check "nothing has changed: smoke boot" "smoke memtint, status 0"
contains "nothing has changed: the reason" "$(cat "$scratch/errors")" "smoke boot: the suites have passed"
check "everything, when asked" "suites memtint full, status 0" full
check "another mode is refused" ", status 2" fast

for file in kernel/patches/0003-mm-memtint-load-a-mapping-through-debugfs.patch kernel/guest/suite/run.sh crates/live/helper/src/main.rs \
    crates/cli/src/run.rs crates/registry/src/lib.rs platforms/cfl-1ch2r.toml; do
    echo >>"$CHECK_ROOT/$file"
    check "changed: $file" "suites memtint, status 0"
    contains "changed: $file: the reason" "$(cat "$scratch/errors")" "changed since they last passed: $file"
    check "passed: $file" "smoke memtint, status 0"
done
touch "$CHECK_ROOT/crates/cli/src/new.rs" "$CHECK_ROOT/kernel/guest/suite/new.sh"
check "new files" "suites memtint, status 0"
contains "new files: the reason" "$(cat "$scratch/errors")" "crates/cli/src/new.rs, kernel/guest/suite/new.sh"
rm "$CHECK_ROOT/crates/cli/src/new.rs" "$CHECK_ROOT/kernel/guest/suite/new.sh"
check "back to what has passed before" "smoke memtint, status 0"
for file in kernel/README.md kernel/modules/memguard/cpu.c kernel/qemu/foreign.sh crates/sim/src/lib.rs crates/cli/src/sim.rs crates/cli/src/bench/report.rs platforms/nehalem-w3530.toml crates/map/tests/it/laws.rs; do
    echo >>"$CHECK_ROOT/$file"
done
check "what no guest runs has changed" "smoke memtint, status 0"
printf '\n[[package]]\nname = "memtint-new"\nversion = "0.1.0"\n' >>"$CHECK_ROOT/Cargo.lock"
check "a new crate that no guest runs" "smoke memtint, status 0"
printf '\n[[package]]\nname = "new"\nversion = "0.1.0"\nsource = "registry"\n' >>"$CHECK_ROOT/Cargo.lock"
check "a new package from elsewhere" "suites memtint, status 0"
contains "a new package from elsewhere: the reason" "$(cat "$scratch/errors")" "packages of Cargo.lock"
echo 2 >"$scratch/bin/key"
check "another kernel or emulator" "suites memtint, status 0"

echo >>"$CHECK_ROOT/kernel/build.sh"
touch "$scratch/bin/fails"
check "suites that fail" "suites memtint, status 1"
rm "$scratch/bin/fails"
check "suites that failed are run again" "suites memtint, status 0"
touch "$scratch/bin/fails"
check "a smoke boot that fails" "smoke memtint, status 1"
rm "$scratch/bin/fails"

echo >>"$CHECK_ROOT/kernel/build.sh"
PARTS=run check "shortened suites" "suites memtint, status 0"
MACHINES=smp check "shortened suites leave no stamp" "suites memtint, status 0"
touch "$scratch/bin/edit"
check "a file that changes meanwhile" "suites memtint, status 0"
rm "$scratch/bin/edit"
check "a file that changed meanwhile leaves no stamp" "suites memtint, status 0"
touch "$scratch/bin/broken"
check "a kernel that is not built" "not ok - the plain kernel is built, status 1"
rm "$scratch/bin/broken"

# Every crate that the sources name is one of those that are hashed.
named=$(cd "$root" && cat crates/cli/src/{choice,detect,inspect,palette,platform,run}.rs crates/{units,map,system,inspect,detect,live}/src/*.rs |
    grep -oE '\bmemtint_[a-z]+::' | sort -u | sed 's/memtint_\(.*\)::/\1/' | while read -r crate; do
        if [ "$crate" != testing ] && ! grep -rqF "crates/$crate/" "$XDG_CACHE_HOME/memtint/stamps"; then echo "$crate"; fi
    done)
expect "the hash covers every crate that the guest's verbs use" "$named" ""
echo end
exit $failed
