#!/usr/bin/env bash
# debian.sh FOLDER: makes a clean root of Debian 12 with systemd, man and sqlite3 in the new folder FOLDER, as root. Its packages are fetched
# once, from the site of this machine's own, into the user's cache.
set -euo pipefail

root=${1:?debian.sh: no FOLDER is given}
release=bookworm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtint/debian
packages=systemd,systemd-sysv,dbus,man-db,sqlite3
kept=$cache/$release-$packages.tar

fail() {
    echo "debian.sh: $*" >&2
    exit 1
}

# Where this machine has Debian's packages from.
site() {
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(SITE)' 2>/dev/null | sed -n 's/^Debian|Debian|//p' | grep -m 1 .
}

[ "$(id -u)" = 0 ] || fail "needs root"
[ ! -e "$root" ] || fail "$root exists"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -e "$kept" ]; then
    command -v debootstrap >/dev/null || fail "debootstrap is missing"
    # Without package lists, apt names no site.
    site >/dev/null || timeout -s KILL 300 apt-get update -o DPkg::Lock::Timeout=200 >"$cache/log" 2>&1 </dev/null || true
    from=$(site) || fail "the package sources of this machine name no site of Debian"
    rm -rf "$cache/root" "$kept.part"
    timeout -s KILL 1200 debootstrap --variant=minbase --include=$packages $release "$cache/root" "$from" >"$cache/log" 2>&1 </dev/null ||
        fail "debootstrap has failed: $(tail -n 3 "$cache/log" | tr '\n' ' ')"
    rm -rf "$cache"/root/var/cache/apt/archives/*.deb "$cache"/root/var/lib/apt/lists/*
    tar -C "$cache/root" --numeric-owner -c -f "$kept.part" .
    mv "$kept.part" "$kept"
    rm -rf "$cache/root"
fi
mkdir -p "$root"
tar -C "$root" --numeric-owner -x -f "$kept"
