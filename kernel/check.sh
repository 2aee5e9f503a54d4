#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# check.sh MEMTINT [full]: runs the suites of test.sh when something that they depend on has changed since they last passed, else
# the smoke boot of smoke.sh, and prints which of them and why. With "full", always the suites, and all of them on each machine. Exit
# status: that of the script it runs.
#
# The suites depend on all files below kernel/ but texts for people, modules/ and foreign.sh, on the kernel (the folder that build.sh prints
# is named by the hash of what it is built from), on the program memtint as the guest uses it (detect, palette, inspect, run: the sources in `program` below), on
# the platform files that the guest names, and on the programs that run or surround the guest. When the suites pass, the hash of
# each of these goes into a file of ${XDG_CACHE_HOME:-~/.cache}/memtint/stamps, which is named by the hash of them all.
# Suites that are shortened (PARTS, MACHINES, STRESS_SECONDS) leave no stamp.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# The test of this script replaces what it runs.
build=${CHECK_BUILD:-$here/build.sh} suites=${CHECK_SUITES:-$here/test.sh} smoke=${CHECK_SMOKE:-$here/smoke.sh}
root=${CHECK_ROOT:-$here/..}
memtint=$1 full=${2:-}
stamps=${XDG_CACHE_HOME:-$HOME/.cache}/memtint/stamps

say() {
    echo "kernel: $*" >&2
}

# Packages from elsewhere. Those of the workspace are hashed as files, and one that no guest runs counts as little here as there.
packages() {
    awk -v RS= '/\nsource = /' Cargo.lock
}

# Crates that the four verbs run. Of crates/cli, everything but the verbs that no guest runs: a new file counts.
program() {
    find crates/{units,embed,input,map,system,registry,inspect,detect,live,backend} -type f \
        ! -path '*/tests/*' ! -path '*/target/*' ! -path '*/benches/*' ! -path crates/live/helper/Cargo.lock
    find crates/cli/src -type f -regextype posix-extended \
        ! -regex 'crates/cli/src/(analyze|bench|decode|doctor|draw|dram|guard|init|manual|probe|refresh|reproduce|sim|system|trace)(\.rs|/.*)'
}

platforms() {
    find platforms -name '*.toml' -printf '%f\n' | sed 's/\.toml$//' | { grep -rohFf - kernel/guest || true; } | sort -u | sed 's|.*|platforms/&.toml|'
}

# first_line COMMAND...: of all that it prints.
first_line() {
    "$@" 2>&1 | sed -n 1p || true
}

# manifest: a line "HASH  NAME" for everything that the suites depend on.
manifest() {
    cd "$root"
    { find kernel -type f ! -name '*.md' ! -path 'kernel/modules/*' ! -path kernel/qemu/foreign.sh; program; platforms; } | LC_ALL=C sort | xargs -d '\n' sha256sum
    {
        echo "the kernel $(basename "$built")"
        echo "packages of Cargo.lock: $(packages | sha256sum | cut -c 1-16)"
        echo "the compiler: $(first_line rustc --version)"
        echo "the emulator: $(first_line qemu-system-x86_64 --version)"
        echo "the guest's shell: $(first_line busybox)"
    } | while IFS= read -r line; do
        printf '%s  %s\n' "$(sha256sum <<<"$line" | cut -c 1-64)" "$line"
    done
}

# changed MANIFEST: what is not as in the newest stamp, briefly; nothing without a stamp.
changed() {
    local newest
    newest=$(find "$stamps" -name 'kernel-*' -type f -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d ' ' -f 2-)
    [ -n "$newest" ] || return 0
    LC_ALL=C comm -3 <(LC_ALL=C sort "$newest") <(LC_ALL=C sort "$1") | sed 's/^\t*[0-9a-f]*  //' | LC_ALL=C sort -u |
        awk 'NR <= 3 { list = list (NR > 1 ? ", " : "") $0 } END { if (NR) print list (NR > 3 ? " and " NR - 3 " more" : "") }'
}

case $full in '' | full) ;; *) echo "check.sh: \"$full\" is no mode; accepted are full, or none" >&2; exit 2 ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
built=$("$build") || { echo "not ok - the plain kernel is built"; exit 1; }
(manifest) >"$scratch/manifest"
stamp=$stamps/kernel-$(sha256sum <"$scratch/manifest" | cut -c 1-16)

if [ -z "$full" ] && [ -e "$stamp" ]; then
    say "smoke boot: the suites have passed with this kernel, these tests and this program ($(date -r "$stamp" '+%F %R')); make test-full runs them"
    exec "$smoke" "$memtint"
fi
if [ -n "$full" ]; then
    say "all suites, as asked"
else
    differs=$(changed "$scratch/manifest")
    say "all suites: ${differs:+changed since they last passed: }${differs:-they have not passed here yet}"
fi
"$suites" "$memtint" ${full:+"$full"}
if [ -n "${PARTS:-}${MACHINES:-}${STRESS_SECONDS:-}" ]; then
    say "no stamp: the suites were shortened by PARTS, MACHINES or STRESS_SECONDS"
    exit
fi
# Somebody may have edited a file meanwhile: what ran is not known then.
(manifest) >"$scratch/after"
if cmp -s "$scratch/manifest" "$scratch/after"; then
    mkdir -p "$stamps"
    cp "$scratch/manifest" "$stamp.$$"
    mv "$stamp.$$" "$stamp"
else
    say "no stamp: files have changed while the suites ran"
fi
