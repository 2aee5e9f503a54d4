#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# test.sh MEMTINT [full]: builds the kernel and the debugging one, and boots both in all machines of qemu/test.sh at the same time: an
# emulated machine has one thread. Unless with "full", parts for which the number of nodes matters little run on one machine (DIVIDED).
# The debugging kernel is slower by a multiple: it runs what most can go wrong in (PARTS), on one machine, and `make debug-test`
# everything. Its lines come after the others. Status 1 when a test of either has failed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
memtint=$1
if [ "${2:-}" != full ]; then export DIVIDED=1; fi
said=$(mktemp)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -f "$said"' EXIT

for variant in plain debug; do
    "$here/build.sh" $variant >/dev/null || { echo "not ok - the $variant kernel is built"; exit 1; }
done
PARTS=${PARTS:-failures,storms,fuzz,exhaustion,stress,balance} MACHINES=smp STRESS_SECONDS=20 \
    "$here/qemu/test.sh" "$memtint" debug >"$said" &
debug=$! status=0
"$here/qemu/test.sh" "$memtint" || status=1
wait $debug || status=1
cat "$said"
exit $status
