#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# bench.sh: counts the instructions that the module takes for a period and for an overflow, on Debian's 6.12 in QEMU, whose clock counts
# instructions (-icount): one nanosecond is one instruction. The baseline is the same work without regulation. One CPU, software events.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
read -r kernel headers <<<"$("$here/stock.sh" cloud)"
module=$("$here/build.sh" "$headers" "$scratch/module")
cat >"$scratch/script" <<'GUEST'
#!/bin/sh
insmod /bin/memtint_guard.ko
now() { sed -n 's/^now at \([0-9]*\) nsecs/\1/p' /proc/timer_list; }
# What is done: hashes zeros, which causes page faults now and then.
work() { dd if=/dev/zero bs=64k count=800 2>/dev/null | sha256sum >/dev/null; }
cost() {
    local begin
    begin=$(now)
    work
    echo "$1 $(($(now) - begin))"
}
begin() {
    exec 3<>/dev/memtint-guard
    printf 'memtint-guard 1\nperiod %s\nevent all 1 %s 0 0\nskid 0\nstep 1\nsharing none\ngroup %s hard %s 0\nend\n' "$@" >&3
}
work
cost unregulated
cost unregulated
for period in 1000000 200000; do
    # Page faults, and a budget that is never used up.
    begin $period 2 1000000 1000000
    echo forget >&3
    cost "periods-$period"
    grep '^core' /dev/memtint-guard
    exec 3>&-
done
# Context switches, one for each grant.
begin 1000000 3 4000 1
cost grants
grep '^core' /dev/memtint-guard
exec 3>&-
GUEST
"$here/../../qemu/initramfs.sh" "$scratch/image" "$scratch/script" "$module"
echo "machine: $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1); $(qemu-system-x86_64 --version | head -n 1); ${kernel##*/}"
COUNT=1 NODES=1 NODE_CPUS=1 SECONDS_MAX=${SECONDS_MAX:-600} "$here/../../qemu/boot.sh" "$kernel" "$scratch/image" 2>"$scratch/console" |
    tee "$scratch/told" | awk '
    function number(name, at) { for (at = 1; at < NF; at++) if ($at == name) return $(at + 1) }
    $1 == "unregulated" { if (base) printf "unregulated: %.0f and %.0f instructions\n", base, $2; base = $2 }
    $1 ~ /^periods|^grants/ { name = $1; cost = $2 }
    $1 == "core" {
        periods = number("periods"); overflows = number("overflows")
        printf "%s: %d periods, %d overflows; all in all %.4f of unregulated; in the handlers %.0f instructions a period", name, periods,
            overflows, cost / base, number("timer_ns") / periods
        if (!overflows) { period = (cost - base) / periods; printf "; with its interrupt %.0f\n", period }
        else printf ", %.0f an overflow; with its interrupt %.0f\n", number("overflow_ns") / overflows, (cost - base - period * periods) / overflows
    }
    $1 == "guest" { print }' | tee "$scratch/table"
grep -q "guest ended with 0" "$scratch/table" || { cat "$scratch/told" "$scratch/console" >&2; exit 1; }
