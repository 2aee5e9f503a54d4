#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# stock.sh FLAVOR: unpacks a stock Debian kernel and the headers that modules for it are built with into the user's cache, unless they are
# there. Prints the kernel's path and the folder of the headers. Flavors: cloud and rt (6.12; rt is PREEMPT_RT), old (6.1); and for other
# processors, with CC, riscv64 and arm64 (6.12), headers only, with - for the kernel, which foreign.sh boots.
set -euo pipefail

# shellcheck source=kernel/package.sh
. "$(dirname "$0")/../../package.sh"
flavor=${1:-}
here=$(cd "$(dirname "$0")" && pwd)
case $flavor in
    riscv64 | arm64) series='' name='' ;;
    cloud | rt) series=6.12 name=$flavor-amd64 ;;
    old) series=6.1 name=cloud-amd64 ;;
    *) fail "\"$flavor\" is no flavor; accepted are cloud, rt, old, riscv64, arm64" ;;
esac
# Apart from what other scripts unpack, and other flavors at the same time.
place=$cache/modules/$flavor
cache=$place.packages
package_log=$place.log

# The newest release of which there are headers and a kernel: the signed kernel is published after the headers.
newest_release() {
    local release
    for release in $(apt-cache pkgnames linux-headers-$series. | sed -nE "s/^linux-headers-([0-9.]+[^-]*(-[0-9]+)?-$name)\$/\1/p" | sort -rV); do
        if [[ $(apt-cache policy "linux-image-$release") == *'  Candidate: '[0-9]* ]]; then
            echo "$release"
            return
        fi
    done
    return 1
}

# Of a release, RELEASE-FLAVOR-amd64: what its headers include. PREEMPT_RT has a separate tree.
common() {
    local base=${1%"-$name"}
    case $flavor in rt) echo "linux-headers-$base-common-rt" ;; *) echo "linux-headers-$base-common" ;; esac
}

# What its headers compile with; named by the series alone in 6.1.
kbuild() {
    case $flavor in old) echo linux-kbuild-6.1 ;; *) echo "linux-kbuild-${1%"-$name"}" ;; esac
}

add() {
    unpack "$1" "$2" && cp -a "$cache/$1/." "$place.part" && rm -rf "${cache:?}/$1"
}

# By the package lists as they are.
fetch_newest() {
    local release
    rm -rf "$place.part" "$cache"
    mkdir -p "$place.part" "$cache"
    release=$(newest_release) || return 1
    # The headers' Makefile names the place where the package would be installed.
    add "linux-headers-$release" './usr/*' && add "$(common "$release")" './usr/*' && add "$(kbuild "$release")" './usr/*' &&
        add "linux-image-$release" './boot/vmlinuz-*' &&
        sed -i "s#include /usr/src#include $place/usr/src#" "$place.part/usr/src/linux-headers-$release/Makefile"
}

# The lists may be old or absent: they are renewed once.
fetch_all() {
    : >"$package_log"
    if ! fetch_newest; then
        timeout -s KILL 300 apt-get update -o DPkg::Lock::Timeout=200 >>"$package_log" 2>&1 </dev/null || true
        fetch_newest || fail "could not fetch Linux $series, $name, and its headers: $(tail -n 3 "$package_log" | tr '\n' ' ')"
    fi
    rm -rf "$place" "$cache"
    mv "$place.part" "$place"
}

# Its headers are those of the kernel of foreign.sh. The build tools must run on this machine, so those of cloud are taken, which have the
# same source.
link_foreign() {
    local headers common kbuild cloud tools
    headers=$("$here/../../qemu/foreign.sh" "$flavor" headers)
    cloud=$("$here/stock.sh" cloud)
    tools=$(echo "$(dirname "${cloud#* }")"/../lib/linux-kbuild-*)
    [ -d "$tools" ] || fail "no build tools: $tools"
    common=$(basename "$headers")
    common=${common%-"$flavor"}-common
    kbuild=$(basename "$(dirname "$(readlink "$headers/scripts")")")
    rm -rf "$place.part"
    mkdir -p "$place.part/usr/src" "$place.part/usr/lib"
    cp -a "$headers" "$headers/../../../../$common/usr/src/$common" "$place.part/usr/src"
    ln -s "$tools" "$place.part/usr/lib/$kbuild"
    sed -i "s#include /usr/src#include $place/usr/src#" "$place.part/usr/src/$(basename "$headers")/Makefile"
    rm -rf "$place"
    mv "$place.part" "$place"
}

mkdir -p "$(dirname "$place")"
exec 9>"$place.lock"
flock 9
case $flavor in
    riscv64 | arm64) [ -d "$place" ] || link_foreign ;;
    *) [ -d "$place/boot" ] || fetch_all ;;
esac
kernel=$(find "$place/boot" -name 'vmlinuz-*' 2>/dev/null || echo -)
echo "$kernel $(find "$place/usr/src" -maxdepth 1 -name "linux-headers-*-${name:-$flavor}")"
