#!/usr/bin/env bash
# Two real programs, an awk that looks prices up and a sort: first side by side on this machine in disjoint bank classes,
# inspected from outside while they run; then recorded, and simulated alone, sharing the memory, and each in its part of it.
# Ends with a table and two pictures. As root, because the kernel shows frame numbers to no one else.
#
# MEMTINT_PLATFORM names a platform for this machine. Without it, memory comes from the machine and bank functions from a
# published Skylake desktop, marked as assumed: in a virtual machine that is as good as any.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

if [ "$(id -u)" -ne 0 ]; then
    say "demo: needs root, to read frame numbers (CAP_SYS_ADMIN)"
    exit 2
fi

# The profile of the tests: it compiles in half the time, with the runtime and the simulator optimized.
say "== building"
cargo build --quiet --bin memtint
memtint=${CARGO_TARGET_DIR:-target}/debug/memtint

out=build/demo
rm -rf "$out"
mkdir -p "$out/samples"
work=$(mktemp -d)
running=()
cleanup() {
    local pid
    for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

if [ -n "${MEMTINT_PLATFORM:-}" ]; then
    platform=$MEMTINT_PLATFORM
    case $platform in */* | *.toml) platform=$(realpath "$platform") ;; esac
else
    say "== platform: this machine's memory, bank functions assumed (memtint platform detect --functions-of)"
    "$memtint" platform detect --functions-of skl-e3-1220v5-4x4g >"$out/here.toml"
    platform=here.toml
fi

cat >"$out/plan.toml" <<PLAN
schema = 1
platform = "$platform"

[[task]]
name = "lookup"
banks = "0-3"
mode = "soft"

[[task]]
name = "sort"
banks = "4-7"
mode = "soft"
PLAN

say "== input: a million lines of text, a table of 30000 prices"
awk 'BEGIN { srand(1); for (i = 0; i < 1000000; i++) printf "%09d the quick brown fox %d\n", rand() * 1e9, i }' >"$work/lines"
# Looks up articles in random order: the table stays in the cache until another program displaces it.
cat >"$work/lookup.awk" <<'AWK'
BEGIN {
    for (i = 0; i < 30000; i++) price[i * 7919 % 400009] = i
    x = 1
    for (n = 0; n < lookups; n++) {
        x = x * 16807 % 2147483647
        sum += price[x % 30000 * 7919 % 400009]
    }
    print sum
}
AWK

lookup() { "$@" mawk -v lookups=4000000 -f "$work/lookup.awk"; }
sorting() { LC_ALL=C "$@" sort --parallel=2 --buffer-size=400M "$work/lines"; }

say "== without memtint, for comparison"
seconds() { date +%s.%N; }
t0=$(seconds)
lookup env >"$work/lookup.native"
t1=$(seconds)
sorting env >"$work/sort.native"
t2=$(seconds)

# The process named $2 among the descendants of $1.
program_below() {
    local directory name parent key value pid
    for directory in /proc/[0-9]*; do
        read -r name 2>/dev/null <"$directory/comm" || continue
        [ "$name" = "$2" ] || continue
        pid=${directory#/proc/}
        parent=$pid
        while [ "$parent" -gt 1 ]; do
            if [ "$parent" = "$1" ]; then
                echo "$pid"
                return
            fi
            value=1
            { while read -r key value _; do [ "$key" = PPid: ] && break; done <"/proc/$parent/status"; } 2>/dev/null || break
            parent=$value
        done
    done
}

say "== side by side, each in bank classes of its own"
start() { # task, function
    local began status=0
    began=$(seconds)
    "$2" "$memtint" run --system "$out/plan.toml" --task "$1" --report "$out/$1.report.json" -- >"$work/$1.colored" 2>"$out/$1.messages" || status=$?
    echo "$began $(seconds) $status" >"$work/$1.end"
}
start lookup lookup &
running+=($!)
start sort sorting &
running+=($!)

sample() { # task, comm, launcher, number
    local pid file=$out/samples/$1-$4.json
    pid=$(program_below "$3" "$2")
    [ -n "$pid" ] || return 0
    # Until memtint lets go of it, the program has not run an instruction, and its first pages are still being colored.
    grep -qs '^TracerPid:[[:space:]]*0$' "/proc/$pid/status" || return 0
    # Status 1 is a verdict, 2 a process that has ended meanwhile.
    "$memtint" --format json inspect "$pid" --system "$out/plan.toml" --task "$1" >"$file" 2>/dev/null || [ $? = 1 ] || rm -f "$file"
}
number=1000
while kill -0 "${running[0]}" 2>/dev/null || kill -0 "${running[1]}" 2>/dev/null; do
    sample lookup mawk "${running[0]}" $number
    sample sort sort "${running[1]}" $number
    number=$((number + 1))
    sleep 0.2
done
wait "${running[@]}" || true
running=()

for task in lookup sort; do
    read -r began ended status <"$work/$task.end"
    if [ "$status" != 0 ]; then
        say "demo: $task ended with status $status:"
        cat "$out/$task.messages" >&2
        exit 2
    fi
    same=no
    if cmp -s "$work/$task.native" "$work/$task.colored"; then same=yes; fi
    echo "$task $began $ended $same" >>"$work/runs"
done

status=0
python3 - "$out" "$work/runs" "$t0 $t1 $t2" <<'PYTHON' || status=$?
import glob, json, shutil, sys

out, runs, native = sys.argv[1:]
t0, t1, t2 = map(float, native.split())
native = {"lookup": t1 - t0, "sort": t2 - t1}
rows, held, largest_files = [], True, []
for line in open(runs):
    task, began, ended, same = line.split()
    files = sorted(glob.glob(f"{out}/samples/{task}-*.json"))
    samples = [(name, json.load(open(name))) for name in files]
    # The first moments, before the program has control, belong to the launcher.
    samples = [(name, report) for name, report in samples if report["private"]["pages"] > 0]
    if not samples:
        sys.exit(f"demo: {task} ended before it could be looked at")
    name, largest = max(samples, key=lambda sample: sample[1]["private"]["pages"])
    largest_files.append(name)
    share = lambda report: report["private"]["in_color_pages"] / report["private"]["pages"]
    violated = sum(report["verdict"] != "held" for _, report in samples)
    held = held and violated == 0 and same == "yes"
    down = lambda part: f"{int(part * 10000) / 100:.2f} %"
    rows.append([
        largest["processes"][0]["comm"], largest["selection"]["banks"], len(samples), largest["private"]["pages"],
        largest["private"]["out_of_color_pages"], down(share(largest)), down(min(share(report) for _, report in samples)),
        same, f"{native[task]:.1f} s", f"{float(ended) - float(began):.1f} s",
        "held" if violated == 0 else f"violated in {violated}",
    ])
heads = ["program", "bank classes", "samples", "private pages", "out of color", "in color", "worst sample", "same output",
         "alone, native", "side by side, colored", "verdict"]
for number, file in enumerate(largest_files):
    shutil.copy(file, f"{out}/largest-{number}.json")
# One column for each program: the table stays narrow.
width = max(map(len, heads))
print()
for head, *cells in zip(heads, *rows):
    print(f"{head:<{width}}  " + "  ".join(f"{str(cell):>16}" for cell in cells))
sys.exit(0 if held else 1)
PYTHON
[ -e "$out/largest-0.json" ] || exit 2

"$memtint" draw "$out"/largest-*.json >"$out/pages.svg"
for task in lookup sort; do
    if [ -s "$out/$task.messages" ]; then
        printf '%s said:\n' "$task"
        tail -n 5 "$out/$task.messages" | sed 's/^/  /'
    fi
done
if [ $status = 0 ]; then echo "verdict: held"; else echo "verdict: violated"; fi
printf 'picture: %s\n' "$out/pages.svg"

# Colors isolate rows and sets of a machine. How much that buys depends on the machine; here it is a simulated one, whose bank
# functions and cache are published.
simulated=skl-e3-1220v5-4x4g
say "== recorded: 60 million instructions from the middle of each (memtint trace record)"
record() { # task, instructions to skip, command
    local status=0
    "$memtint" --quiet trace record -o "$out/$1.trace" --skip "$2" --sample 60M -- "${@:3}" >/dev/null 2>"$work/$1.recorded" || status=$?
    if [ $status != 0 ]; then
        say "demo: recording $1 ended with status $status; the verdict above is of the run"
        cat "$work/$1.recorded" >&2
        exit 2
    fi
}
record lookup 100M mawk -v lookups=200000 -f "$work/lookup.awk"
LC_ALL=C record sort 300M sort --parallel=2 --buffer-size=400M "$work/lines"

cat >"$out/simulation.toml" <<SYSTEM
schema = 1
platform = "$simulated"

[[task]]
name = "lookup"
cores = "0"
banks = "0-7"
sets = "0-31"
workload = { kind = "trace", file = "lookup.trace" }

[[task]]
name = "sort"
cores = "1-2"
banks = "8-15"
sets = "32-127"
workload = { kind = "trace", file = "sort.trace" }

[simulation]
device = "ddr4-2400"
duration = "8 ms"
cores = { count = 4, mhz = 3000, window = 224 }
system = { allocator = "tinted", fault = "0 ns" }

[simulation.caches]
l1 = { size = "32 KiB", ways = 8 }
l2 = { size = "256 KiB", ways = 4 }
latency_cycles = [4, 12, 42, 60, 120]
SYSTEM
say "== simulated on $simulated (memtint sim --compare)"
printf '\nsimulated: what coloring buys these two, and costs them, in banks and cache sets of their own\n'
"$memtint" sim "$out/simulation.toml" --compare --svg "$out/gain.svg" || {
    say "demo: the simulation failed; the verdict above is of the run"
    exit 2
}

printf '\npicture: %s\n' "$out/gain.svg"
exit $status
