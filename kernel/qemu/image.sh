#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# image.sh OUT BUILT MEMTINT: makes the root file system in which the tests of guest/ run: its script and suites, its
# observers, the modules irqpages and holdlock for the kernel in the folder BUILT (of build.sh), and the program MEMTINT.
set -euo pipefail

out=$1 built=$2 memtint=$3
here=$(cd "$(dirname "$0")" && pwd)
guest=$here/../guest
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$out.$$"' EXIT

mkdir "$scratch/bin"
make -s -C "$guest" BUILD="$scratch/bin" >&2
for module in irqpages holdlock; do
    "$here/../module.sh" "$built" "$guest/$module" "$scratch/$module"
done
"$here/initramfs.sh" "$scratch/image" "$guest/test.sh" "$scratch"/bin/* "$scratch"/*/*.ko "$guest"/suite/*.sh "$memtint"
# Another checkout may have the same kernel, and be using its image, or making one.
mv "$scratch/image" "$out.$$"
mv "$out.$$" "$out"
