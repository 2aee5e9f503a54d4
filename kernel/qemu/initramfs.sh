#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# initramfs.sh OUT SCRIPT FILE...: makes a root file system of busybox, the programs named with the libraries they need,
# all in /bin, and a shell script that the guest runs; files NAME.sh are scripts that it reads, in /suite.
set -euo pipefail

out=$1 script=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

busybox=$(command -v busybox) || { echo "initramfs.sh: busybox is missing (package busybox-static)" >&2; exit 1; }
if ldd "$busybox" >/dev/null 2>&1; then
    echo "initramfs.sh: $busybox needs libraries: package busybox-static is wanted" >&2
    exit 1
fi
mkdir -p "$root"/{bin,dev,etc,proc,root,run,suite,sys,tmp}
cp "$busybox" "$root/bin/busybox"
for file in "$@"; do
    if [[ $file == *.sh ]]; then
        cp "$file" "$root/suite"
        continue
    fi
    # Debug information would fill the guest's memory.
    strip --strip-debug -o "$root/bin/$(basename "$file")" "$file"
    { ldd "$file" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; }
done | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
cp "$here/init" "$root/init"
cp "$script" "$root/script"
# The root as well: whoever gives up privileges in the guest must find his files.
chmod 755 "$root" "$root/init" "$root/script"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$out"
