#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# build.sh [VARIANT]: builds Debian's Linux 6.12 with the series of patches/, and prints the folder that holds bzImage, vmlinux,
# config, log, and build, against which modules are built. Variants: plain; debug, with every check; palloc, with PALLOC's own
# algorithm for comparison; stock, the source as Debian has it, without patches. The folder's name is a hash of everything
# that goes in: what has been built is not built again. Progress goes to stderr; after a failure, the end of the log as well.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
. "$here/package.sh"
variant=${1:-plain}
package=linux-source-6.12
tarball=usr/src/$package.tar.xz

say() {
    echo "kernel: $*" >&2
}

# Runs a command with its words in the log; fails with the end of the log.
logged() {
    local what=$1 status=0
    shift
    "$@" >>"$log" 2>&1 </dev/null || status=$?
    [ $status = 0 ] && return
    tail -n 40 "$log" >&2
    fail "$what failed with status $status; all of it is in $log"
}

# The newest source in the cache, else the one that is installed: its tar file and its version, or nothing.
source_package() {
    local cached
    cached=$(find "$cache" -mindepth 4 -maxdepth 4 -path "*/$package=*/$tarball" 2>/dev/null | sort -V | tail -n 1)
    if [ -n "$cached" ]; then
        cached=${cached%"/$tarball"}
        echo "$cached/$tarball" "${cached##*=}"
    elif [ -e "/$tarball" ]; then
        echo "/$tarball" "$(dpkg-query -W -f '${Version}' $package)"
    fi
}

# The newest version that the package lists name, as apt-get wants it.
newest_source() {
    apt-cache madison $package | awk '{ print $3; exit }' | sed "s/^/$package=/" | grep .
}

fragments() {
    cat "$here/config/base.config"
    if [ ${#patches[@]} -gt 0 ]; then cat "$here/config/memtint.config"; fi
    case $variant in debug | palloc) cat "$here/config/$variant.config" ;; esac
}

# A symbol that the configuration does not have, or that misses what it depends on, is dropped without a word.
check_config() {
    local line name wrong=0
    while IFS= read -r line; do
        name=${line%%=*}
        case $line in
            CONFIG_*=n) ! grep -q "^$name=" "$1" || { say "$name is not off"; wrong=1; } ;;
            CONFIG_*) grep -qxF "$line" "$1" || { say "$line is not in the configuration"; wrong=1; } ;;
        esac
    done <"$2"
    return $wrong
}

# The files that the patches change get a history, so that `git am` has what it needs, and nothing else does.
apply() {
    local git=(git -C "$1" -c user.name=memtint -c user.email=memtint@localhost -c commit.gpgsign=false -c core.hooksPath=/dev/null)
    "${git[@]}" init --quiet &&
        sed -n 's|^--- a/||p' "${patches[@]}" | sort -u | (cd "$1" && xargs -d '\n' ls -d 2>/dev/null || true) |
        "${git[@]}" add --force --pathspec-from-file=- &&
        "${git[@]}" commit --quiet --allow-empty -m pristine &&
        "${git[@]}" am "${patches[@]}" &&
        rm -rf "$1/.git"
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

found=$(source_package)
if [ -z "$found" ]; then
    # Who builds the other variant, or fetches the stock kernel, may be at it as well.
    exec 8>"$cache/lock"
    flock 8
    found=$(source_package)
    if [ -z "$found" ]; then
        say "fetching $package"
        fetch newest_source "./$tarball"
        found=$(source_package)
    fi
    exec 8>&-
fi
read -r archive version <<<"$found"

shopt -s nullglob
patches=("$here"/patches/*.patch)
shopt -u nullglob
if [ "$variant" = stock ]; then patches=(); fi

key=$({
    echo "$variant $version"
    gcc --version | head -n 1
    fragments
    cat "${patches[@]}" "$here/build.sh" </dev/null
} | sha256sum | cut -c 1-16)
place=$cache/built-$variant-$key
if [ -e "$place/bzImage" ]; then
    echo "$place"
    exit 0
fi

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
