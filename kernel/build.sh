#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# build.sh [VARIANT]: builds Debian's Linux 6.12 with the series of patches/, and prints the folder that holds bzImage, vmlinux,
# config, log, and build, against which modules are built. Variants: plain; debug, with every check; palloc, with PALLOC's own
# algorithm for comparison; stock, the source as Debian has it, without patches. The folder's name is a hash of everything
# that goes in: what has been built is not built again, and goes when nobody has asked for it for two weeks. Progress goes to
# stderr; after a failure, the end of the log as well.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/package.sh"
. "$here/source.sh"
variant=${1:-plain}

fragments() {
    cat "$here/config/base.config"
    if [ ${#patches[@]} -gt 0 ]; then cat "$here/config/memtint.config"; fi
    case $variant in debug | palloc) cat "$here/config/$variant.config" ;; esac
}

apply() {
    begin_history "$1" "${patches[@]}" && git_in "$1" am "${patches[@]}" && rm -rf "$1/.git"
}

compile() {
    make -C "$1" O="$2" -j"$(nproc)" bzImage modules 2>&1 | tee -a "$log" |
        awk '++n % 400 == 0 { print "kernel: " n " files" > "/dev/stderr" }'
}

case $variant in plain | debug | palloc | stock) ;; *) fail "variant $variant is not known: debug, palloc, stock, or none" ;; esac
for program in gcc make flex bison bc xz git; do
    command -v $program >/dev/null || fail "$program is missing (make setup installs it)"
done
mkdir -p "$cache"
exec 9>"$cache/lock-$variant"
flock 9

found=$(source_archive)
read -r archive version <<<"$found"

shopt -s nullglob
patches=("$here"/patches/*.patch)
shopt -u nullglob
if [ "$variant" = stock ]; then patches=(); fi

key=$({
    echo "$variant $version"
    gcc --version | sed -n 1p
    fragments
    cat "${patches[@]}" "$here/build.sh" "$here/source.sh" </dev/null
} | sha256sum | cut -c 1-16)
place=$cache/built-$variant-$key
if [ -e "$place/bzImage" ]; then
    touch "$place/bzImage"
    echo "$place"
    exit 0
fi

# Whoever is given a folder has touched its kernel, with the lock held as it is now, and needs it for hours at most; who has an
# older build.sh has read it.
find "$cache" -mindepth 2 -maxdepth 2 -path "$cache/built-$variant-*/bzImage" -mtime +14 -atime +14 -printf '%h\0' | xargs -0 -r rm -rf

work=$cache/work-$variant
log=$cache/build-$variant.log
: >"$log"
rm -rf "$work"
mkdir -p "$work/tree" "$work/out" "$work/result"
say "unpacking $package $version"
logged "unpacking" tar -x -f "$archive" -C "$work/tree" --strip-components=1
if [ ${#patches[@]} -gt 0 ]; then
    say "applying ${#patches[@]} patches"
    logged "git am" apply "$work/tree"
fi
fragments >"$work/fragments"
export KBUILD_BUILD_TIMESTAMP='1970-01-01' KBUILD_BUILD_USER=memtint KBUILD_BUILD_HOST=memtint
logged "configuration" make -C "$work/tree" O="$work/out" KCONFIG_ALLCONFIG="$work/fragments" allnoconfig
logged "configuration" check_config "$work/out/.config" "$work/fragments"
say "compiling the $variant kernel, about 1100 files"
compile "$work/tree" "$work/out" || { tail -n 40 "$log" >&2; fail "the kernel does not build; all of it is in $log"; }
cp "$work/out/arch/x86/boot/bzImage" "$work/out/vmlinux" "$work/result"
cp "$work/out/.config" "$work/result/config"
logged "what modules need" make -C "$work/tree" O="$work/out" run-command \
    KBUILD_RUN_COMMAND="\$(srctree)/scripts/package/install-extmod-build $work/result/build"
mv "$log" "$work/result/log"
rm -rf "$place"
mv "$work/result" "$place"
rm -rf "$work"
say "built $(sed -n 's|^# Linux/[^ ]* \([^ ]*\) .*|\1|p' "$place/config") in $place"
echo "$place"
