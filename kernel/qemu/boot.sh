#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# boot.sh KERNEL INITRAMFS [WORD...]: boots a machine of NODES (2) NUMA nodes, each with NODE_CPUS (1) and NODE_MEMORY (1G),
# and waits for its end, at most SECONDS_MAX (115). Words are added to the kernel's command line. What the guest's script
# prints goes to stdout, the console to stderr. With COUNT=1, and one CPU, the guest's clocks count instructions and nothing
# else. Status: 0 the guest has switched itself off, 137 it was late.
set -euo pipefail

kernel=$1 initramfs=$2
shift 2
nodes=${NODES:-2} node_cpus=${NODE_CPUS:-1} node_memory=${NODE_MEMORY:-1G}

machine=()
for ((node = 0; node < nodes; node++)); do
    machine+=(-object "memory-backend-ram,id=memory$node,size=$node_memory")
    machine+=(-numa "node,nodeid=$node,memdev=memory$node,cpus=$((node * node_cpus))-$((node * node_cpus + node_cpus - 1))")
done
memory=$((nodes * $(numfmt --from=iec "$node_memory")))
# One instruction is one nanosecond; a machine that waits goes on to the next event at once.
if [ -n "${COUNT:-}" ]; then machine+=(-icount "shift=0,sleep=off" -rtc "base=2000-01-01,clock=vm"); fi
# Emulated, on purpose: hardware acceleration inside a virtual machine hangs on some hosts, and is not to be had on others.
# In one thread: with a thread for each CPU, QEMU 7.2 now and then runs code that the kernel has just rewritten ("int3").
# Without the check that the timer ticks in time: on a busy host it does not, and the kernel gives up.
exec timeout -s KILL "${SECONDS_MAX:-115}" qemu-system-x86_64 -accel tcg,thread=single -cpu max -smp "$((nodes * node_cpus)),sockets=$nodes" \
    -m "$((memory >> 20))M" "${machine[@]}" -nodefaults -no-user-config -no-reboot -display none -monitor none \
    -serial file:/dev/stderr -serial stdio -kernel "$kernel" -initrd "$initramfs" \
    -append "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off no_timer_check $*" </dev/null
