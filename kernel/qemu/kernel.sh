#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Prints the path of a stock Debian kernel, 6.12 where the package sources have it, else the newest from 6.8 on. It is
# unpacked, not installed, into the user's cache; what is there already is taken, and nothing is asked of the network.
set -euo pipefail

series=6.12
oldest=6.8
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtint/kernel
log=$cache/log

fail() {
    echo "kernel.sh: $*" >&2
    exit 1
}

# The newest kernel in the cache, or nothing.
cached() {
    find "$cache" -mindepth 3 -maxdepth 3 -path '*/boot/vmlinuz-*' 2>/dev/null | sort -V | tail -n 1
}

# The newest image that the package lists name, of the series if there is one.
newest() {
    local images
    images=$(apt-cache pkgnames linux-image- | grep -E '^linux-image-[0-9]+\.[0-9.]+[^-]*-cloud-amd64$' | sort -V) || return 1
    grep -F "linux-image-$series." <<<"$images" | tail -n 1 | grep . && return
    # Behind the mark in version order is what is new enough.
    { echo "$images"; echo "linux-image-$oldest"; } | sort -V | sed "1,/^linux-image-$oldest\$/d" | tail -n 1 | grep .
}

fetch() {
    local package=$1 place=$cache/$1
    rm -rf "$place.part"
    mkdir -p "$place.part/deb"
    (cd "$place.part/deb" && timeout -s KILL 300 apt-get download -o APT::Sandbox::User=root "$package") >>"$log" 2>&1 </dev/null &&
        dpkg-deb --fsys-tarfile "$place.part/deb"/*.deb | tar -x -C "$place.part" --wildcards './boot/*' 2>>"$log" &&
        rm -rf "$place.part/deb" "$place" && mv "$place.part" "$place"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

kernel=$(cached)
if [ -z "$kernel" ]; then
    for program in apt-get apt-cache dpkg-deb; do
        command -v $program >/dev/null || fail "no kernel in $cache, and without $program none can be fetched"
    done
    : >"$log"
    package=$(newest) || package=
    if [ -z "$package" ] || ! fetch "$package"; then
        # The package lists may be old or absent.
        timeout -s KILL 300 apt-get update -o DPkg::Lock::Timeout=200 >>"$log" 2>&1 </dev/null || true
        package=$(newest) || fail "the package sources have no kernel from $oldest on (linux-image-*-cloud-amd64)"
        fetch "$package" || fail "could not fetch $package: $(tail -n 3 "$log" | tr '\n' ' ')"
    fi
    kernel=$(cached)
fi
[ -n "$kernel" ] || fail "$package has no kernel in it"
echo "$kernel"
