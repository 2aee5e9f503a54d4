#!/usr/bin/env bash
# Do the scripts that fetch kernels work with an empty cache, and package lists of one version, of many and of none?
#
# apt-get, apt-cache and dpkg-deb are replaced: lists come from files, and a package is a tar file with what the scripts take
# from it. A list of many outgrows a pipe (64 KiB): a script that stops reading early fails there, and only there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

list=$scratch/list renewed=$scratch/renewed asked=$scratch/asked
export list renewed asked
# `apt-cache madison PACKAGE`, and `apt-cache pkgnames PREFIX`. Writing to a closed pipe ends it, as it ends the real one.
stub apt-cache <<'S'
echo "apt-cache $*" >>"$asked"
exec cat "$list"
S
# `apt-get download PACKAGE`, and `apt-get update`, which brings the list that is to come.
stub apt-get <<'S'
echo "apt-get $*" >>"$asked"
case $1 in
    update) [ ! -e "$renewed" ] || cp "$renewed" "$list" ;;
    download)
        package=${*: -1}
        [ "$package" != broken ] || exit 100
        mkdir -p root/usr/src root/boot
        echo source >root/usr/src/linux-source-6.12.tar.xz
        echo image >"root/boot/vmlinuz-${package#linux-image-}"
        tar -c -f "$package.deb" -C root ./usr ./boot
        rm -r root
        ;;
esac
S
stub dpkg-deb <<'S'
exec cat "$2"
S

# begin LIST-COMMAND...: an empty cache, and the output of the command as the package list.
begin() {
    rm -rf "$XDG_CACHE_HOME" "$renewed"
    : >"$asked"
    "$@" >"$list"
}

# madison VERSION...: as apt-cache prints them, the newest first.
madison() {
    local version
    for version in "$@"; do printf 'linux-source-6.12 | %s | http://deb.example bookworm/main amd64 Packages\n' "$version"; done
}

# 4000 lines of versions, of which the first is the newest.
many() {
    madison 6.12.200-1
    seq 4000 -1 1 | sed 's/.*/linux-source-6.12 | 6.12.100-& | http:\/\/deb.example bookworm\/main amd64 Packages/'
}

# What the kernel's build asks for: the archive and its version.
source_of() {
    (
        set -euo pipefail
        . "$root/kernel/package.sh"
        . "$root/kernel/source.sh"
        if [ -e "/$tarball" ]; then tarball=none; fi
        mkdir -p "$cache"
        source_archive
    ) 2>"$scratch/errors" | sed "s|^$scratch/||" || true
}

# Where the source package is installed, source.sh takes it and fetches nothing.
if [ -e /usr/src/linux-source-6.12.tar.xz ]; then
    echo "# linux-source-6.12 is installed here: its fetching is not tested"
else
    begin madison 6.12.117-1
    expect "source, one version" "$(source_of)" "cache/memtint/kernel/linux-source-6.12=6.12.117-1/usr/src/linux-source-6.12.tar.xz 6.12.117-1"
    expect "source, the second time from the cache" "$(: >"$asked"; source_of | cut -d ' ' -f 2; cat "$asked")" 6.12.117-1
    begin many
    expect "source, many versions: the list outgrows a pipe" "$(($(wc -c <"$list") > 65536 * 2))" 1
    expect "source, many versions" "$(source_of)" "cache/memtint/kernel/linux-source-6.12=6.12.200-1/usr/src/linux-source-6.12.tar.xz 6.12.200-1"
    begin :
    expect "source, no version" "$(source_of)" ""
    contains "source, no version: the message" "$(cat "$scratch/errors")" "the package sources have none that is named by: newest_source"
    expect "source, no version: the lists were renewed once" "$(grep -c '^apt-get update' "$asked")" 1
    begin :
    madison 6.12.9-1 >"$renewed"
    expect "source, old lists are renewed" "$(source_of | cut -d ' ' -f 2)" 6.12.9-1
fi

# names NAME...: as apt-cache prints package names.
names() {
    printf '%s\n' "$@"
}

# Thousands of images of other series and flavors, with the wanted one in the middle.
many_names() {
    seq 1 3000 | sed 's/.*/linux-image-6.1.0-&-cloud-amd64/'
    names linux-image-6.12.117+deb12-cloud-amd64 linux-image-6.12.90+deb12-cloud-amd64 linux-image-6.14.1+deb12-cloud-amd64
    seq 1 3000 | sed 's/.*/linux-image-5.10.&-cloud-amd64/; p; s/cloud-amd64/rt-amd64-unsigned/'
}

# What the test of a stock kernel asks for.
image_of() {
    "$root/kernel/qemu/kernel.sh" 2>"$scratch/errors" | sed "s|^$scratch/||" || true
}

kept=cache/memtint/kernel
begin names linux-image-6.12.5-cloud-amd64
expect "image, one version" "$(image_of)" "$kept/linux-image-6.12.5-cloud-amd64/boot/vmlinuz-6.12.5-cloud-amd64"
begin many_names
expect "image, many versions: the list outgrows a pipe" "$(($(wc -c <"$list") > 65536 * 2))" 1
expect "image, many versions: the newest of the series" "$(image_of)" "$kept/linux-image-6.12.117+deb12-cloud-amd64/boot/vmlinuz-6.12.117+deb12-cloud-amd64"
begin names linux-image-6.7.9-cloud-amd64 linux-image-6.9.10-cloud-amd64 linux-image-6.10.2-cloud-amd64 linux-image-5.10.1-cloud-amd64
expect "image, none of the series: the newest that is new enough" "$(image_of)" "$kept/linux-image-6.10.2-cloud-amd64/boot/vmlinuz-6.10.2-cloud-amd64"
begin names linux-image-6.7.9-cloud-amd64
expect "image, none new enough" "$(image_of)" ""
contains "image, none new enough: the message" "$(cat "$scratch/errors")" "the package sources have none that is named by: newest_image"
begin :
expect "image, no version" "$(image_of)" ""
contains "image, no version: the message" "$(cat "$scratch/errors")" "the package sources have none that is named by: newest_image"
rm "$scratch/bin/dpkg-deb"
if ! command -v dpkg-deb >/dev/null; then
    begin names linux-image-6.12.5-cloud-amd64
    contains "image, not a Debian system: the message" "$(image_of; cat "$scratch/errors")" "without dpkg-deb nothing can be fetched"
fi
echo end
exit $failed
