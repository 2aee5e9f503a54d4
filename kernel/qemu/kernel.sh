#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Prints the path of a stock Debian kernel, 6.12 where the package sources have it, else the newest from 6.8 on. It is
# unpacked, not installed, into the user's cache; what is there already is taken, and nothing is asked of the network.
set -euo pipefail

series=6.12
oldest=6.8
# shellcheck source=kernel/package.sh
. "$(dirname "$0")/../package.sh"

# The newest kernel in the cache, or nothing. What was not unpacked to the end is none.
cached() {
    find "$cache" -mindepth 3 -maxdepth 3 -path '*/boot/vmlinuz-*' ! -path '*.part/*' 2>/dev/null | sort -V | tail -n 1
}

# The newest image that the package lists name, of the series if there is one.
newest_image() {
    local images
    images=$(apt-cache pkgnames linux-image- | grep -E '^linux-image-[0-9]+\.[0-9.]+[^-]*-cloud-amd64$' | sort -V) || return 1
    grep -F "linux-image-$series." <<<"$images" | tail -n 1 | grep . && return
    # Behind the mark in version order is what is new enough.
    { echo "$images"; echo "linux-image-$oldest"; } | sort -V | sed "1,/^linux-image-$oldest\$/d" | tail -n 1 | grep .
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9

kernel=$(cached)
if [ -z "$kernel" ]; then
    fetch newest_image './boot/*'
    kernel=$(cached)
fi
[ -n "$kernel" ] || fail "the package fetched into $cache has no kernel in it"
echo "$kernel"
