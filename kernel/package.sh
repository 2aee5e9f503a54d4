# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# Sourced: Debian packages in the user's cache, unpacked and not installed. What is there already is taken, and nothing is
# then asked of the network.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtint/kernel
package_log=$cache/log

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# unpack PACKAGE PATTERN: what of the package matches, to $cache/PACKAGE.
unpack() {
    local package=$1 pattern=$2 place=$cache/$1
    rm -rf "$place.part"
    mkdir -p "$place.part/deb"
    (cd "$place.part/deb" && timeout -s KILL 300 apt-get download -o APT::Sandbox::User=root "$package") >>"$package_log" 2>&1 </dev/null &&
        dpkg-deb --fsys-tarfile "$place.part/deb"/*.deb | tar -x -C "$place.part" --wildcards "$pattern" 2>>"$package_log" &&
        rm -rf "$place.part/deb" "$place" && mv "$place.part" "$place"
}

# fetch CHOICE PATTERN: unpacks the package that the command CHOICE names; when it names none, or the package cannot be had,
# the package lists may be old or absent, and are renewed once.
fetch() {
    local choice=$1 pattern=$2 chosen program
    for program in apt-get apt-cache dpkg-deb; do
        command -v $program >/dev/null || fail "nothing in $cache, and without $program nothing can be fetched"
    done
    : >"$package_log"
    chosen=$($choice) || chosen=
    if [ -n "$chosen" ] && unpack "$chosen" "$pattern"; then return; fi
    timeout -s KILL 300 apt-get update -o DPkg::Lock::Timeout=200 >>"$package_log" 2>&1 </dev/null || true
    chosen=$($choice) || fail "the package sources have none that is named by: $choice"
    unpack "$chosen" "$pattern" || fail "could not fetch $chosen: $(tail -n 3 "$package_log" | tr '\n' ' ')"
}
