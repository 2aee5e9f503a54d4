#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What the guest of qemu/test.sh runs. Each line "ok - NAME" or "not ok - NAME # reason" is a test; "# ..." is for people.
# On the kernel's command line: FLOOR=kernel where the series is built in, FLOOR=none for a kernel that knows no colors;
# STRESS_SECONDS, how long all sorts of use go on at once; PARTS, names with commas between them, when not all parts are to
# run: scenarios, exhaustion, stress, balance (who has the page frames, before and afterwards), and the names of the suites.
floor=/sys/kernel/debug/memtint
map=/tmp/map

# runs PART: whether it is to run.
runs() {
    case ,${PARTS:-$1}, in *,$1,*) true ;; *) false ;; esac
}

# answer NAME REASON: a test that has failed when there is a reason.
answer() {
    if [ -z "$2" ]; then echo "ok - $1"; else echo "not ok - $1 # $2"; fi
}

# expect NAME FOUND EXPECTED
expect() {
    if [ "$2" = "$3" ]; then answer "$1"; else answer "$1" "found '$2', expected '$3'"; fi
}

# held_in NAME CLASSES SCENARIO...: its own lines, with a name in front. A program that ends otherwise is a failure, too.
held_in() {
    local name=$1 classes=$2 result
    shift 2
    held $map "$classes" "$@" >"/tmp/held.$name" 2>&1
    result=$?
    sed -E "s/^(ok|not ok) - /\1 - $name: /" "/tmp/held.$name"
    [ $result -lt 2 ] || answer "$name" "held ended with $result"
}

# colored POLICY COMMAND...: the policy is that of the writing process, and is kept over exec.
colored() {
    echo "$1" >$floor/task || return 125
    shift
    "$@"
}

# The same K classes of each node, from the Nth on, as a list.
classes_of_nodes() {
    local node=0 list=
    while [ $node -lt $nodes ]; do
        list=$list,$((node * per_node + $1))-$((node * per_node + $1 + $2 - 1))
        node=$((node + 1))
    done
    echo "${list#,}"
}

# account NAME [BEFORE]: who has the page frames, in /tmp/NAME, when the pages without a name are as many as a second before,
# and the free lists are what the free frames make: the stacks of tasks that have ended, and some other memory, are given back a
# while later. An account to compare with one from BEFORE waits until they are as many as then. After so many tries, it is taken as it is.
account() {
    local tries=0 unnamed= last wanted=
    [ -z "$2" ] || wanted=$(unnamed_in $2)
    while [ $tries -lt 10 ]; do
        tries=$((tries + 1)) last=$unnamed
        sync
        echo 3 >/proc/sys/vm/drop_caches
        sleep 1
        expect "balance: buddyinfo is what the free frames make, $1" "$(balance >/tmp/$1; grep '^#' /tmp/$1)" "" >/tmp/$1.merged
        unnamed=$(unnamed_in $1)
        [ "$unnamed" = "$last" ] && [ "$unnamed" = "${wanted:-$unnamed}" ] && grep -q '^ok' /tmp/$1.merged && break
    done
    cat /tmp/$1.merged
}

unnamed_in() {
    awk '$1 == "unnamed" { print $2 }' "/tmp/$1"
}

# balances BEFORE AFTER: every frame that is no longer free has a name. Up to one page a CPU comes and goes from one account to
# the next, without growing.
balances() {
    local lost=$(($(unnamed_in $2) - $(unnamed_in $1)))
    echo "# balance, in pages: $(awk 'NR == FNR { before[$1] = $2; next } $2 != before[$1] {
        printf "%s%s %+d", comma, $1, $2 - before[$1]; comma = ", " }' /tmp/$1 /tmp/$2)"
    [ ${lost#-} -le "$(nproc)" ] && answer "balance: no page is lost" || answer "balance: no page is lost" "$lost have no name"
}

scenarios="anonymous heap stack data churn threads copy-on-write fork-storm exec swap compaction huge ksm migrate mremap private-file"

prepare() {
    # Functions of a Coffee Lake with two ranks, on the memory that this machine has: 16 classes on each node.
    memtint platform detect --functions-of cfl-1ch2r >/tmp/here.toml &&
        memtint palette /tmp/here.toml --kernel >$map || exit 1
    nodes=$(ls -d /sys/devices/system/node/node[0-9]* | wc -l)
    per_node=16
    sed 's/^/# /' $map
    # Written once, the disk has all the memory that it will ever have, and none is missing at the end.
    dd if=/dev/zero of=/dev/ram0 bs=1M 2>/dev/null
    mkswap /dev/ram0 >/dev/null && swapon /dev/ram0 || exit 1
    dd if=/dev/zero of=/dev/ram1 bs=1M count=24 2>/dev/null
    mke2fs -b 4096 /dev/ram1 24576 >/dev/null || exit 1
    held_in observer all observer
}

# A kernel without colors: does everything else work, and is a violation seen?
stock() {
    held_in uncolored all $scenarios own-file
    held $map "$(classes_of_nodes 0 2)" anonymous >/tmp/out && answer "a violation is seen" "$(cat /tmp/out)" || answer "a violation is seen"
}

mappings() {
    expect "mapping: none at first" "$(cat $floor/map)" none
    sed 's/^granule .*/granule 5000/' $map >/tmp/wrong
    cat /tmp/wrong 2>/dev/null >$floor/map
    expect "mapping: a wrong one is refused" $? 1
    expect "mapping: the fault names its line" "$(sed 's/:.*//' $floor/fault)" "line 2"
    expect "mapping: a wrong one leaves none" "$(cat $floor/map)" none
    dd if=$map of=$floor/map bs=64k 2>/dev/null
    expect "mapping: a right one is loaded" $? 0
    expect "mapping: in use" "$(cat $floor/map)" "$(cat $map)"
    expect "mapping: as many classes as the observer counts" "$(awk '$1 == "bank_classes" { print $2 }' $floor/colors)" \
        "$(colors $map </dev/null | cut -d ' ' -f 1)"
    (colored "strict 0-1" sh -c "echo none >$floor/map") 2>/dev/null &&
        answer "mapping: not reloaded while in use" "it was" || answer "mapping: not reloaded while in use"
    expect "mapping: still in use" "$(cat $floor/map)" "$(cat $map)"
}

colors_hold() {
    local list
    list=$(classes_of_nodes 2 4)
    (colored "strict $list" held_in "four of $per_node" "$list" $scenarios)
    list=$(classes_of_nodes 9 1)
    (colored "strict $list" held_in "one of $per_node" "$list" anonymous heap stack data copy-on-write exec swap)
    (colored "soft $list" held_in "soft" "$list" anonymous heap stack)
    held_in "uncolored beside" all anonymous heap stack data fork-storm huge
    # The other observer: what memtint's users look at.
    list=$(classes_of_nodes 4 2)
    mkfifo /tmp/wait
    (colored "strict $list" sh -c 'echo $$ >/tmp/pid; x=$(seq 20000); read -r _ </tmp/wait') &
    sleep 3
    expect "inspect: the same verdict" "$(memtint inspect "$(cat /tmp/pid)" --platform /tmp/here.toml --banks "$list" \
        --format json | tr -d ' ,"' | grep '^verdict')" "verdict:held"
    echo go >/tmp/wait
    wait
}

# All of a color is used up: the process is killed, and nobody else, with memory left in other colors.
out_of_color() {
    local list free
    list=$(classes_of_nodes 12 1)
    (colored "strict $list" held $map "$list" exhausted) >/tmp/out 2>&1
    expect "exhausted: killed" $? 137
    free=$(awk '$1 == "MemFree:" { print ($2 > 200000) ? "yes" : "no: " $2 }' /proc/meminfo)
    expect "exhausted: memory of other colors is left" "$free" yes
    expect "exhausted: counted" "$(awk '$1 == "killed" { print ($2 > 0) }' $floor/stat)" 1
    (colored "strict $list" held_in "after exhaustion" "$list" anonymous stack)
}

# What nobody has goes a moment later.
policies_left() {
    local seconds=0
    while ! grep -qx 'policies 0' $floor/stat && [ $seconds -lt 30 ]; do
        sleep 1
        seconds=$((seconds + 1))
    done
    awk '$1 == "policies" { print $2 }' $floor/stat
}

# Everything at once: two policies that share no class, one that overlaps, and none.
stress() {
    local end=$(($(date +%s) + ${STRESS_SECONDS:-20})) number=0 list
    for first in 0 4 6 none; do
        number=$((number + 1))
        (
            list=all
            if [ $first != none ]; then
                list=$(classes_of_nodes $first 4)
                echo "strict $list" >$floor/task
            fi
            while [ "$(date +%s)" -lt $end ]; do
                held $map "$list" churn copy-on-write swap fork-storm compaction huge ksm mremap >/tmp/stress.$number 2>&1 ||
                    { cat /tmp/stress.$number >>/tmp/stress.failed; break; }
            done
        ) &
    done
    wait
    expect "stress" "$(grep -v '^ok' /tmp/stress.failed 2>/dev/null | head -n 3)" ""
}

# The index of colors and the buddy allocator say the same of each block of each zone, where the kernel can check it.
index_is_right() {
    [ -e $floor/check ] || return
    expect "index: $1" "$(grep -v '^pass' $floor/check)" ""
}

series() {
    local suite
    if runs balance; then account start; fi
    mappings
    index_is_right "with a mapping"
    if runs scenarios; then
        colors_hold
        index_is_right "after the scenarios"
    fi
    for suite in /suite/*.sh; do
        runs "$(basename "$suite" .sh)" || continue
        # Each with names and variables of its own.
        (. "$suite")
        index_is_right "after $(basename "$suite" .sh)"
    done
    if runs exhaustion; then
        out_of_color
        index_is_right "after exhaustion"
    fi
    if runs stress; then
        stress
        index_is_right "after stress"
    fi
    echo "# counters: $(tr '\n' ' ' <$floor/stat)"
    expect "no policy is left" "$(policies_left)" 0
    echo none >$floor/map || answer "mapping: unloaded" "refused"
    held_in "unloaded" all anonymous stack
    if runs balance; then
        account end start
        balances start end
    fi
    echo "# left: $(ps -o pid,args | awk 'NR > 1 && $2 !~ /^\[/ { printf "%s%s", comma, $0; comma = ", " }')"
}

# Mapping and rules have come with the kernel's command line.
early() {
    expect "the mapping is in use" "$(cat $floor/map)" "$(cat $map)"
    expect "process 1 in the class of its rule" "$(papers $map classes 1 10)" 5
    expect "process 1 is its user" "$(grep '^class 5' $floor/auto_use)" "class 5 policies 1"
    echo none >$floor/auto || answer "the rules are gone" "refused"
}

prepare
if [ "$FLOOR" = early ]; then
    early
elif [ "$FLOOR" = kernel ]; then
    if [ -d $floor ]; then series; else answer "series" "no $floor"; fi
else
    stock
fi

