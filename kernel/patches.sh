#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# patches.sh: applies the series to Debian's source one patch after another. Each has to apply as it is, to be clean to the
# kernel's own checkpatch.pl, and to leave a kernel that builds without a warning; the whole series does so without being
# configured, and with nothing but what it needs, as well. The cover letter's diffstat is to be that of the series. Prints a
# line "ok" or "not ok" for each of these and a last line that counts them; status 1 when one is not ok. Takes most of an hour;
# with FROM=N the patches before the Nth are only applied.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/package.sh"
. "$here/source.sh"
for program in gcc make flex bison bc xz git perl; do
    command -v $program >/dev/null || fail "$program is missing (make setup installs it)"
done
mkdir -p "$cache"
exec 9>"$cache/lock-patches"
flock 9

patches=("$here"/patches/*.patch)
[[ ${FROM:-1} =~ ^[1-9][0-9]*$ && ${FROM:-1} -le ${#patches[@]} ]] || fail "FROM is '$FROM', and the patches are 1 to ${#patches[@]}"
found=$(source_archive)
read -r archive version <<<"$found"
work=$cache/work-patches
log=$cache/patches.log
: >"$log"
rm -rf "$work"
mkdir -p "$work/tree"
trap 'rm -rf "$work"' EXIT
say "unpacking $package $version"
logged "unpacking" tar -x -f "$archive" -C "$work/tree" --strip-components=1
logged "git" begin_history "$work/tree" "${patches[@]}"

good=0 bad=0
# answer WHAT COMMAND...: one line. What the command says is in the log, and its end on stderr when it fails.
answer() {
    local what=$1 start
    shift
    start=$(wc -c <"$log")
    if "$@" >>"$log" 2>&1 </dev/null; then
        good=$((good + 1))
        echo "ok - $what"
    else
        bad=$((bad + 1))
        echo "not ok - $what"
        tail -c "+$((start + 1))" "$log" | tail -n 20 >&2
    fi
}

applies() {
    git_in "$work/tree" am "$1" || { git_in "$work/tree" am --abort; return 1; }
}

# It looks at SPDX headers itself: with GIT_DIR it does not find, it leaves out their checker beside it, which needs what is
# installed nowhere. mm/memtint/ has its maintainers.
clean() {
    (cd "$work/tree" && GIT_DIR=/nonexistent perl scripts/checkpatch.pl --quiet --ignore FILE_PATH_CHANGES "$1")
}

# builds FOLDER FRAGMENT...: the kernel with these fragments of a configuration; symbols of later patches are not there yet.
builds() {
    local out=$work/$1 said=$work/said
    shift
    mkdir -p "$out"
    (cd "$here/config" && cat "$@") >"$out/fragments"
    make -C "$work/tree" O="$out" KCONFIG_ALLCONFIG="$out/fragments" allnoconfig &&
        make -C "$work/tree" O="$out" -j"$(nproc)" vmlinux >"$said" 2>&1 || { cat "$said"; return 1; }
    cat "$said"
    ! grep -q 'warning:' "$said"
}

# The first patch has the symbol that all others depend on.
builds_with() {
    builds out base.config memtint.config palloc.config && grep -qx CONFIG_MEMTINT=y "$work/out/.config"
}

configured() {
    check_config "$work/out/.config" "$here/config/memtint.config" && check_config "$work/out/.config" "$here/config/palloc.config"
}

letter_fits() {
    local base
    base=$(git_in "$work/tree" rev-list --max-parents=0 HEAD)
    git_in "$work/tree" diff --stat=72 "$base" HEAD | diff <(sed -n '/^ .* | /p; / files changed, /p' "$here/patches/0000-cover-letter.txt") -
}

builds_least() {
    builds least least.config && check_config "$work/least/.config" "$here/config/least.config"
}

from=${FROM:-1} number=0
if [ "$from" = 1 ]; then
    say "compiling the kernel without patches"
    answer "without patches it builds" builds out base.config
fi
for patch in "${patches[@]}"; do
    name=$(basename "$patch" .patch)
    number=$((number + 1))
    if [ $number -lt "$from" ]; then
        logged "$name" applies "$patch"
        continue
    fi
    say "$name"
    answer "$name applies" applies "$patch"
    answer "$name is clean" clean "$patch"
    answer "$name builds" builds_with
done
answer "all of it is configured" configured
answer "the cover letter has its diffstat" letter_fits
answer "the series builds where it is not configured" builds out base.config
answer "the series builds with nothing but what it needs" builds_least
echo "kernel patches: $good ok, $bad not ok"
[ $bad = 0 ]
