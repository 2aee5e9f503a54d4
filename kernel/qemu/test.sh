#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# test.sh MEMTINT [debug]: boots the kernel of build.sh with four CPUs, and with four NUMA nodes, and runs in it the kernel's
# own tests (KUnit, while it boots) and guest/test.sh with the observers of guest/ and the program MEMTINT. Prints a line
# "ok" or "not ok" for each test and a last line that counts them; status 1 when a test failed or is missing, when the kernel
# could not be built or complained on its console, or when the machine did not switch itself off.
# MACHINES ("smp numa early") says which are booted, PARTS which parts of the guest's tests are run (all), STRESS_SECONDS (180) for
# how long everything at once is tried on each machine. Without PARTS, DIVIDED=1 has parts for which the number of nodes matters little
# run on one of the two machines only. The third machine, early, is booted after smp: it has the mapping that smp has printed from its
# command line, and an area of contiguous memory.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
kernel=$here/..
memtint=$1 variant=${2:-plain}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What a kernel says when something is wrong with itself. A killed process or a failed allocation is none of it, nor is a CPU
# that the host has not let run for a while: what hangs is found by the time that it takes.
complaints='BUG[: ]|WARNING:|Oops|Kernel panic|general protection|KASAN:|UBSAN:|INFO: (possible|lockdep|trying to register)|inconsistent lock state|possible (circular|recursive)|suspicious RCU|[Bb]ad page|pagealloc: |nobody cared'

good=0 bad=0
answer() {
    echo "$1"
    case $1 in ok*) good=$((good + 1)) ;; *) bad=$((bad + 1)) ;; esac
}

finish() {
    echo "kernel $variant: $good ok, $bad not ok"
    [ $bad = 0 ] && [ $good -gt 0 ]
    exit
}

built=$({ "$kernel/build.sh" "$variant" 2>&1 >&3 | tee "$scratch/build" >&2; } 3>&1) || {
    answer "not ok - the $variant kernel is built # $(tail -n 1 "$scratch/build")"
    finish
}
"$here/image.sh" "$scratch/image" "$built" "$memtint" >"$scratch/made" 2>&1 || {
    cat "$scratch/made" >&2
    answer "not ok - what runs in the guest is built # $(tail -n 1 "$scratch/made")"
    finish
}

# The module that regulates is tested on stock kernels; here, that it compiles.
if "$kernel/modules/memguard/build.sh" "$built/build" "$scratch/memguard" >"$scratch/made" 2>&1; then
    answer "ok - the module memguard compiles for the $variant kernel"
else
    answer "not ok - the module memguard compiles for the $variant kernel # $(tail -n 1 "$scratch/made")"
fi

# Whatever was built in: a kernel without the series has no tests of its own.
if grep -q '^CONFIG_MEMTINT=y' "$built/config"; then floor=kernel; else floor=none; fi

# The results of KUnit: its lines on the console, without the clock.
kunit() {
    sed 's/^\[ *[0-9.]*\] //; s/\r$//' "$1" | grep -E '^ *(not )?ok [0-9]+ ' || true
}

# judge NAME CONSOLE SAID STATUS
judge() {
    local name=$1 console=$2 said=$3 status=$4 line count=0 shown=$1
    if [ "$variant" != plain ]; then shown="$variant $name"; fi
    while IFS= read -r line; do
        count=$((count + 1))
        # Only a machine that has a mapping from the beginning has no use for some.
        case $line in
            *'# SKIP'*)
                if [ "$name" = early ]; then continue; fi
                line=$(sed 's/^ *ok /not ok /' <<<"$line")
                ;;
        esac
        answer "$(sed -E "s/^ *(not ok|ok) [0-9]+ /\1 - $shown: kunit /" <<<"$line")"
    done < <(kunit "$console")
    if [ $floor = kernel ] && [ $count = 0 ]; then answer "not ok - $shown: the kernel's own tests did not run"; fi
    while IFS= read -r line; do
        answer "${line/ - / - $shown: }"
    done < <(grep -E '^(not )?ok - ' "$said" || true)
    if ! grep -qx 'guest ended with 0' "$said"; then
        answer "not ok - $shown: the guest did not come to its end: $(tail -n 1 "$said")"
    fi
    if [ "$status" != 0 ]; then answer "not ok - $shown: the machine ended with status $status"; fi
    if grep -qE "$complaints" "$console"; then
        answer "not ok - $shown: the kernel complains"
        grep -nE -A 12 "$complaints" "$console" | sed -n 1,60p >&2
    else
        answer "ok - $shown: the kernel has no complaint"
    fi
}

# With DIVIDED, these run on one machine; about as long on each.
declare -A alone=([smp]="blocks cached fuzz hostile interrupts locked run" [numa]="scenarios cgroup papers pressure watermarks")

# parts_of NAME: those that the machine runs, with commas between them; nothing for all.
parts_of() {
    local others
    if [ -n "${PARTS:-}" ] || [ -z "${DIVIDED:-}" ]; then
        echo "${PARTS:-}"
        return
    fi
    case $1 in smp) others=${alone[numa]} ;; numa) others=${alone[smp]} ;; *) return ;; esac
    { printf '%s\n' scenarios exhaustion stress balance; basename -a -s .sh "$kernel"/guest/suite/*.sh; } |
        grep -vxF "${others// /$'\n'}" | paste -sd ,
}

declare -A machine began
# start NAME [WORD...]: boots the machine, in the background; the words come last on the kernel's command line. kvfree_rcu()
# keeps no pages: they would be missing in the account of page frames.
start() {
    local name=$1 stress=${STRESS_SECONDS:-180} parts
    parts=$(parts_of "$1")
    shift
    echo "kernel: booting the $variant kernel: $name" >&2
    began[$name]=$SECONDS
    SECONDS_MAX=${SECONDS_MAX:-$((stress + limit))} "$here/boot.sh" "$built/bzImage" "$scratch/image" loglevel=7 brd.rd_size=98304 \
        rcutree.rcu_min_cached_objs=0 rcupdate.rcu_cpu_stall_suppress=1 "FLOOR=$floor" "STRESS_SECONDS=$stress" ${parts:+"PARTS=$parts"} "${words[@]}" "$@" \
        >"$scratch/$name.said" 2>"$scratch/$name.console" &
    machine[$name]=$!
}

# end NAME: waits for its end, and judges it.
end() {
    local name=$1 status=0 before=$bad
    wait "${machine[$name]}" || status=$?
    unset "machine[$name]"
    echo "kernel: the $variant kernel: $name ended after $((SECONDS - began[$name])) s$(sed -n 's/^# took:/,/p' "$scratch/$name.said" | tr -d '\n')" >&2
    judge "$name" "$scratch/$name.console" "$scratch/$name.said" $status
    if [ $bad -gt "$before" ]; then
        { echo "--- what the guest said:"; grep -v '^ok - ' "$scratch/$name.said" | tail -n 80; } >&2
        { echo "--- the end of the console:"; tail -n 40 "$scratch/$name.console"; } >&2
    fi
}
# An emulated machine has one thread: the second one runs at the same time.
trap 'kill "${machine[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# KASAN has an eighth of each node. Free pages are poisoned where that is asked for at boot only.
node_memory=512M words=() limit=3600
if [ "$variant" = debug ]; then node_memory=640M words=(page_poison=1) limit=7200; fi
wants_early=
for name in ${MACHINES:-smp numa early}; do
    case $name in
        smp) NODES=1 NODE_CPUS=4 NODE_MEMORY=1G start smp ;;
        numa) NODES=4 NODE_CPUS=1 NODE_MEMORY=$node_memory start numa ;;
        early) wants_early=1 ;;
        *) answer "not ok - $name is no machine: smp, numa, early" ;;
    esac
done

# Once more with the mapping that the first machine has printed, and a rule for process 1, on the kernel's command line; and with
# an area for the contiguous memory allocator.
start_early() {
    local mapping
    mapping=$(sed -nE 's/^# (memtint-map 1|granule .*|region .*|offset .*|bank .*|set .*|end)$/\1/p' "$scratch/smp.said" | tr '\n' ';')
    NODES=1 NODE_CPUS=4 NODE_MEMORY=1G start early "memtint.map=\"$mapping\"" 'memtint.auto="pool 5;rule 0 /init"' cma=256M FLOOR=early
}

if [ -n "${machine[smp]:-}" ]; then
    end smp
    if [ -n "$wants_early" ] && [ $floor = kernel ]; then start_early; fi
elif [ -n "$wants_early" ]; then
    answer "not ok - early is booted after smp, with its mapping"
fi
for name in numa early; do
    if [ -n "${machine[$name]:-}" ]; then end $name; fi
done
finish
