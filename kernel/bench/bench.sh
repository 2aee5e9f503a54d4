#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bench.sh MEMTINT [json]: counts the instructions of single page allocations and frees, in an emulated machine whose clock is
# the number of instructions: stock kernel, series without a mapping, with one, with colors, and PALLOC's own algorithm. Prints
# a table, and whether each target is met; or all of it as JSON. Status 1 when one is not met, or a measurement is missing.
# SEEDS ("1 2 3") are the orders in which pages are freed; each is a boot of each kernel. See README.md.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kernel=$here/..
memtint=$1 form=${2:-table}
seeds=${SEEDS:-1 2 3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measure KIND VARIANT: lines SEED KIND STATE ..., of each seed.
measure() {
    local kind=$1 built seed
    built=$("$kernel/build.sh" "$2")
    "$kernel/module.sh" "$built" "$here" "$scratch/$kind"
    "$kernel/qemu/initramfs.sh" "$scratch/$kind.image" "$here/guest.sh" "$scratch/bin/colors" "$scratch/$kind/pagebench.ko" "$memtint"
    for seed in $seeds; do
        echo "kernel: counting on the $kind kernel, seed $seed" >&2
        COUNT=1 NODES=1 NODE_CPUS=1 NODE_MEMORY=1G SECONDS_MAX=${SECONDS_MAX:-900} "$kernel/qemu/boot.sh" "$built/bzImage" \
            "$scratch/$kind.image" kunit.enable=0 nokaslr norandmaps "KIND=$kind" "SEED=$seed" \
            >"$scratch/said" 2>"$scratch/console" || true
        if [ "$(tail -n 1 "$scratch/said")" != "guest ended with 0" ]; then
            { cat "$scratch/said"; tail -n 40 "$scratch/console"; } >&2
            echo "bench.sh: the $kind kernel did not come to its end" >&2
            exit 1
        fi
        sed "\$d; s/^/$seed /" "$scratch/said" >>"$scratch/found"
    done
}

mkdir "$scratch/bin"
make -s -C "$kernel/guest" BUILD="$scratch/bin" "$scratch/bin/colors" >&2
measure stock stock
measure series plain
measure palloc palloc
{
    qemu-system-x86_64 --version | sed -n '1s/^/# emulator /p'
    gcc --version | sed -n '1s/^/# compiler /p'
    echo "# machine 1 CPU, 1 node, 1 GiB, -icount shift=0; seeds $seeds"
} >>"$scratch/found"
awk -v "form=$form" -f "$here/table.awk" "$scratch/found"
