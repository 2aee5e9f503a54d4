#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: GPL-2.0-only
#
# What the guest of qemu/test.sh runs. Each line "ok - NAME" or "not ok - NAME # reason" is a test; "# ..." is for people.
# On the kernel's command line: FLOOR=kernel where the series is built in, FLOOR=early where it has mapping and rules from there as
# well, FLOOR=none for a kernel that knows no colors; STRESS_SECONDS, how long all sorts of use go on at once; PARTS, names with
# commas between them, when not all parts are to run: scenarios, exhaustion, stress, balance (who has the page frames, before and
# afterwards), and the names of the suites.
floor=/sys/kernel/debug/memtint
map=/tmp/map
root=/sys/fs/cgroup

# runs PART: whether it is to run.
runs() {
    case ,${PARTS:-$1}, in *,$1,*) true ;; *) false ;; esac
}

# Of a word that names no part nothing would run.
known_parts() {
    local part
    for part in $(echo "$PARTS" | tr ',' ' '); do
        case $part in scenarios | exhaustion | stress | balance) continue ;; esac
        [ -e "/suite/$part.sh" ] || answer "PARTS" "$part is no part"
    done
}

# answer NAME REASON: a test that has failed when there is a reason, which is told in one line.
answer() {
    if [ -z "$2" ]; then echo "ok - $1"; else echo "not ok - $1 # $2" | awk '{ printf "%s%s", comma, $0; comma = "; " } END { print "" }'; fi
}

# expect NAME FOUND EXPECTED
expect() {
    if [ "$2" = "$3" ]; then answer "$1"; else answer "$1" "found '$2', expected '$3'"; fi
}

# said NAME COMMAND...: its own lines, with a name in front. Who says nothing, or ends otherwise than they tell, has failed, too.
said() {
    local name=$1 result
    shift
    "$@" >/tmp/said 2>&1
    result=$?
    sed -E "s/^(ok|not ok) - /\1 - $name: /; s/^# /# $name: /" /tmp/said
    { [ $result = 0 ] && grep -q '^ok - ' /tmp/said; } || { [ $result = 1 ] && grep -q '^not ok - ' /tmp/said; } ||
        answer "$name" "$1 ended with $result: $(tail -n 1 /tmp/said)"
}

# held_in NAME CLASSES SCENARIO...
held_in() {
    local name=$1 classes=$2
    shift 2
    said "$name" held $map "$classes" "$@"
}

# held_with POLICY NAME CLASSES SCENARIO...: the same with this policy.
held_with() {
    local policy=$1
    shift
    (colored "$policy" held_in "$@")
    [ $? != 125 ] || answer "$1" "$policy is refused"
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
    local tries=0 unnamed="" last wanted=""
    [ -z "$2" ] || wanted=$(in_account unnamed $2)
    while [ $tries -lt 10 ]; do
        tries=$((tries + 1)) last=$unnamed
        sync
        echo 3 >/proc/sys/vm/drop_caches
        sleep 1
        expect "balance: buddyinfo is what the free frames make, $1" "$(balance >/tmp/$1; echo $?; grep '^#' /tmp/$1)" 0 >/tmp/$1.merged
        unnamed=$(in_account unnamed $1)
        [ "$unnamed" = "$last" ] && [ "$unnamed" = "${wanted:-$unnamed}" ] && grep -q '^ok' /tmp/$1.merged && break
    done
    cat /tmp/$1.merged
    cat /proc/buddyinfo >/tmp/$1.blocks
}

# in_account NAME ACCOUNT
in_account() {
    awk -v "name=$1" '$1 == name { print $2 }' "/tmp/$2"
}

# grown NAME BEFORE AFTER MOST: so many pages of that name may have come or gone.
grown() {
    local more=$(($(in_account $1 $3) - $(in_account $1 $2)))
    [ ${more#-} -le "$4" ] && echo within || echo "$more pages"
}

# balances BEFORE AFTER: every frame that is no longer free has a name. Up to one page a CPU comes and goes from one account to
# the next, without growing. Pages of processes and of files are as many as the kernel counts, but for some that wait on each CPU
# to come onto a list of the LRU, or off it (31 at a time).
balances() {
    local quarantine=0
    ! grep -q ' kasan_' /proc/kallsyms || quarantine=$(awk '$1 == "MemTotal:" { print int($2 / 4 / 32) }' /proc/meminfo)
    echo "# balance, in pages: $(awk 'NR == FNR { before[$1] = $2; next } $2 != before[$1] {
        printf "%s%s %+d", comma, $1, $2 - before[$1]; comma = ", " }' /tmp/$1 /tmp/$2)"
    sed "s/^/# buddyinfo, $1: /" /tmp/$1.blocks
    sed "s/^/# buddyinfo, $2: /" /tmp/$2.blocks
    # Caches that grow with use do so once; KASAN keeps what was freed, up to a 32nd of memory.
    expect "balance: slab has not grown without end" "$(grown slab $1 $2 $((4096 + quarantine)))" within
    expect "balance: no page is lost" "$(grown unnamed $1 $2 "$(nproc)")" within
    expect "balance: no page of a process is lost" "$(grown uncounted_anonymous $1 $2 "$(nproc)")" within
    expect "balance: no page of the swap cache is lost" "$(grown uncounted_swap_cache $1 $2 "$(nproc)")" within
    expect "balance: no page of a file is lost" "$(grown uncounted_files $1 $2 $((31 * $(nproc))))" within
}

# mapping_with_sets [BITS]: the same mapping with a cache that is indexed by so many plain bits, or two: 4 set colors.
mapping_with_sets() {
    awk -v bits="${1:-2}" '/^(region|end)/ && seen { bit = 4096; for (i = 0; i < bits; i++) { printf "set 0x%x\n", bit; bit += bit } }
        { print } /^region/ { seen = 1 }' $map
}

scenarios="anonymous heap stack data churn threads copy-on-write fork-storm exec swap compaction huge ksm migrate mremap private-file own-file"

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
    held_in uncolored all $scenarios text
    held $map "$(classes_of_nodes 0 2)" anonymous >/tmp/out
    expect "a violation is seen" "$(sed -n 's/[0-9][0-9]* of [0-9]* private pages/pages/p' /tmp/out)" "not ok - anonymous # pages are out of color"
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
    (colored "strict 0-1" sh -c "echo given; echo none >$floor/map && echo unloaded") >/tmp/out 2>/dev/null
    expect "mapping: not unloaded while in use" "$(cat /tmp/out)" given
    (colored "strict 0-1" sh -c "echo given; dd if=$map of=$floor/map bs=64k && echo reloaded") >/tmp/out 2>/dev/null
    expect "mapping: not reloaded while in use" "$(cat /tmp/out)" given
    expect "mapping: still in use" "$(cat $floor/map)" "$(cat $map)"
}

# grows_or_not NAME COUNTER FILE MORE COMMAND...: whether a counter of a file is larger after a command.
grows_or_not() {
    local name=$1 counter=$2 file=$3 more=$4 before
    shift 4
    before=$(awk -v counter="$counter" '$1 == counter { print $2 }' "$file")
    "$@"
    expect "$name" "$(awk -v counter="$counter" -v before="$before" '$1 == counter { print ($2 > before) }' "$file")" "$more"
}

# with_huge_pages SETTING MADE: the scenarios with that setting for everybody. MADE is 1 where it makes huge pages without being
# asked, also for those of whose colors there are some; to who has a quarter of the colors they are refused then.
with_huge_pages() {
    local name="huge pages $1" four node
    four=$(classes_of_nodes 2 4)
    node=$(classes_of_nodes 0 $per_node | cut -d , -f 1)
    echo "$1" >$huge_pages
    expect "$name" "$(sed 's/.*\[\(.*\)\].*/\1/' $huge_pages)" "$1"
    grows_or_not "$name, uncolored: made" thp_fault_alloc /proc/vmstat "$2" \
        held_in "$name, uncolored" all anonymous copy-on-write
    grows_or_not "$name, four of $per_node: refused" refused $floor/stat "$2" \
        held_with "strict $four" "$name, four of $per_node" "$four" anonymous heap stack data churn threads copy-on-write fork-storm \
        exec swap mremap
    held_with "strict $four" "$name, four of $per_node" "$four" huge compaction ksm migrate private-file
    grows_or_not "$name, all of a node: made" thp_fault_alloc /proc/vmstat "$2" \
        held_with "strict $node" "$name, all of a node" "$node" anonymous heap stack copy-on-write exec swap huge
}

# Huge pages for who asks, as they are at first, are a part of the scenarios.
huge_pages_or_none() {
    local huge_pages=/sys/kernel/mm/transparent_hugepage/enabled before
    before=$(sed 's/.*\[\(.*\)\].*/\1/' $huge_pages)
    with_huge_pages always 1
    with_huge_pages never 0
    echo "$before" >$huge_pages
}

colors_hold() {
    local list
    list=$(classes_of_nodes 2 4)
    held_with "strict $list" "four of $per_node" "$list" $scenarios
    list=$(classes_of_nodes 9 1)
    held_with "strict $list" "one of $per_node" "$list" anonymous heap stack data copy-on-write exec swap
    held_with "soft $list" "soft" "$list" anonymous heap stack
    held_in "uncolored beside" all anonymous heap stack data fork-storm huge
    # The other observer: what memtint's users look at.
    list=$(classes_of_nodes 4 2)
    mkfifo /tmp/wait
    (colored "strict $list" sh -c 'echo $$ >/tmp/pid; x=$(seq 20000); read -r _ </tmp/wait'; : <>/tmp/wait) &
    # It is open as soon as the other one reads, or has come to an end without.
    exec 4>/tmp/wait
    expect "inspect: the same verdict" "$(memtint inspect "$(cat /tmp/pid)" --platform /tmp/here.toml --banks "$list" \
        --format json | tr -d ' ,"' | grep '^verdict')" "verdict:held"
    exec 4>&-
    wait
}

# exhausts CLASSES: all of one class of each node, a 16th of memory, and as much again as can be swapped out, but no more.
exhausts() {
    local most
    most=$(awk '$1 == "MemTotal:" { kib += $2 / 16 } $1 == "SwapTotal:" { kib += $2 } END { print int(kib / 1024) }' /proc/meminfo)
    (colored "strict $1" held $map "$1" exhausted) >/tmp/out 2>&1
    expect "exhausted: killed" $? 137
    echo "# exhausted: after $(grep -c '^# filled' /tmp/out) MiB of $most"
    expect "exhausted: no more than there is in its color" "$(($(grep -c '^# filled' /tmp/out) <= most))" 1
}

# All of a color is used up: the process is killed, and nobody else, with memory left in other colors. The kernel's own OOM killer
# has no part in it.
out_of_color() {
    local list free
    list=$(classes_of_nodes 12 1)
    grows_or_not "exhausted: counted" killed $floor/stat 1 \
        grows_or_not "exhausted: not by the OOM killer" oom_kill /proc/vmstat 0 exhausts "$list"
    free=$(awk '$1 == "MemFree:" { print ($2 > 200000) ? "yes" : "no: " $2 }' /proc/meminfo)
    expect "exhausted: memory of other colors is left" "$free" yes
    held_with "strict $list" "after exhaustion" "$list" anonymous stack
}

# soon COMMAND...: once it succeeds, for five minutes at most: the host may be busy.
soon() {
    local tries=0
    until "$@" 2>/dev/null; do
        [ $((tries += 1)) -lt 3000 ] || return
        sleep 0.1
    done
}

# left COUNTER: "policies", or the pages "cached" for them, that are there still; what nobody has goes a moment later.
left() {
    soon grep -qx "$1 0" $floor/stat
    sed -n "s/^$1 //p" $floor/stat
}

# give GROUP FILE TEXT: writes to memory.colors.FILE of a cgroup, and says whether that was accepted.
give() {
    echo "$3" 2>/dev/null >"$root/$1/memory.colors.$2"
}

# emptied GROUP: removed, once those whom others have put there are in the root.
emptied() {
    rmdir "$root/$1" && return
    for task in $(cat "$root/$1/cgroup.procs"); do
        echo "$task" >$root/cgroup.procs
    done
    false
}

# storm_of_groups SECONDS: groups come, change and go while programs run in them and move between them. What has failed is in
# /tmp/storm.failed.
storm_of_groups() {
    local worker moved result end=$(($(date +%s) + $1))
    rm -f /tmp/storm.failed
    for worker in 0 1 2 3; do
        (
            while [ "$(date +%s)" -lt $end ]; do
                mkdir $root/s$worker
                give s$worker bank "$((2 * worker))-$((2 * worker + 5))"
                cgroup enter $root/s$worker held $map "$((2 * worker))-$((2 * worker + 5))" anonymous fork-storm copy-on-write \
                    >/tmp/storm.$worker 2>&1 || { echo "held ended with $?"; cat /tmp/storm.$worker; } >>/tmp/storm.failed
                cgroup enter $root/s$worker held $map all churn fork-storm >/tmp/storm.moved.$worker 2>&1 &
                moved=$!
                give s$worker bank "$((2 * worker + 1))"
                for task in $(cat $root/s$worker/cgroup.procs); do
                    echo "$task" 2>/dev/null >$root/s$(((worker + 1) % 4))/cgroup.procs
                done
                give s$worker bank ""
                wait $moved
                result=$?
                # With one class it may run out of color.
                case $result in
                    0 | 137) ;;
                    *) { echo "who is moved ended with $result"; cat /tmp/storm.moved.$worker; } >>/tmp/storm.failed ;;
                esac
                soon emptied s$worker || echo "s$worker is not removed" >>/tmp/storm.failed
            done
        ) 2>/dev/null &
    done
    wait
}

# again COMMAND...: for as long as stress goes on, once at least: on a busy host it may begin after the end. What has ended otherwise
# than with 0 is in /tmp/stress.failed, and ends this.
again() {
    number=$((number + 1))
    (
        rounds=0
        while [ $rounds = 0 ] || [ "$(date +%s)" -lt $end ]; do
            "$@" >/tmp/stress.$number 2>&1 ||
                { { echo "$* ended with $? in round $rounds"; grep -v '^ok' /tmp/stress.$number; } >>/tmp/stress.failed; break; }
            rounds=$((rounds + 1))
        done
        echo "# stress: $rounds times in $(($(date +%s) - end + ${STRESS_SECONDS:-20})) s $*" >/tmp/stress.done.$number
    ) &
}

# one_of FIRST CLASSES SCENARIO...: one of the scenarios, the next one each round.
one_of() {
    local first=$1 classes=$2
    shift 2
    shift $(((first + rounds) % $#))
    held $map "$classes" "$1"
}

# A group that gets colors for itself alone, and shares them with everybody again while a program runs in it.
alone() {
    local list=$1 group=$root/alone result=0
    mkdir $group
    give alone bank "$list" && give alone exclusive 1 || return 3
    cgroup enter $group held $map "$list" anonymous fork-storm copy-on-write || return
    cgroup enter $group held $map "$list" churn &
    give alone exclusive 0 || result=4
    wait $! || result=5
    rmdir $group || result=6
    return $result
}

# A task that has a group's colors, and then those of its parent, which change meanwhile.
narrowed() {
    local group=$root/wide result=0
    mkdir $group
    echo +memory >$group/cgroup.subtree_control
    mkdir $group/narrow
    give wide bank "$1" && give wide/narrow bank "$2" || return 3
    cgroup enter $group/narrow held $map "$2" anonymous stack fork-storm || return
    cgroup enter $group/narrow held $map "$1" churn copy-on-write &
    give wide/narrow bank "" && give wide bank "$2" && give wide bank "$1" || result=4
    wait $! || result=5
    rmdir $group/narrow $group || result=6
    return $result
}

# Programs that are given colors by rules, some of them killed, and rules that are replaced while they run.
by_rules() {
    local result=0
    printf "pool $1\nrule 1000 /tmp/ruled/*\n" >/tmp/ruled.now
    dd if=/tmp/ruled.now of=$floor/auto bs=16k || return
    papers - as 1000 -1 /tmp/ruled/task - storm 5 /tmp/ruled/task &
    sleep 2
    printf "pool $2\nrule 1000 /tmp/ruled/* 2\n" >/tmp/ruled.now
    dd if=/tmp/ruled.now of=$floor/auto bs=16k || result=4
    wait $! || result=5
    return $result
}

to_and_fro() {
    local result
    mkdir $root/to $root/fro
    give to bank "$1" && give fro bank "$2" || return 3
    cgroup move $map $root/to "$1" $root/fro "$2" 6
    result=$?
    rmdir $root/to $root/fro && return $result
}

# Everything at once, for so long: two policies that share no class, one that overlaps, and none; processes that are short or
# killed; groups that come and go, narrow each other, and have colors for themselves; tasks that change their colors or their
# group; programs that are given some by rules. The last two classes of each node are nobody else's.
stress() {
    local end=$(($(date +%s) + ${STRESS_SECONDS:-20})) number=0 list all="churn copy-on-write swap fork-storm compaction huge ksm mremap"
    rm -f /tmp/stress.*
    mkdir -p /tmp/ruled
    cp /bin/papers /tmp/ruled/task
    # Other users than root find it.
    chmod 755 /tmp/ruled
    echo +memory >$root/cgroup.subtree_control
    for first in 0 4 6; do
        list=$(classes_of_nodes $first 4)
        again colored "strict $list" one_of $first "$list" $all
    done
    again one_of 2 all $all
    again colored "strict $(classes_of_nodes 8 4)" storms $map "$(classes_of_nodes 8 4)" 10 1
    again storms $map all 10 2
    again moving $map "$(classes_of_nodes 2 6)" some-changes
    again to_and_fro "$(classes_of_nodes 1 4)" "$(classes_of_nodes 10 4)"
    again narrowed "$(classes_of_nodes 3 6)" "$(classes_of_nodes 5 3)"
    again alone "$(classes_of_nodes 14 2)"
    again by_rules "$(classes_of_nodes 12 2)" "$(classes_of_nodes 0 4)"
    (storm_of_groups "${STRESS_SECONDS:-20}") &
    wait
    expect "stress" "$(cat /tmp/stress.failed /tmp/storm.failed 2>/dev/null | grep -v '^ok' | head -n 5)" ""
    expect "stress: all of it was tried" "$(awk '$3 == 0' /tmp/stress.done.*; cat /tmp/stress.done.* | wc -l)" $number
    expect "stress: groups are gone" "$(cd $root && ls -d */ 2>/dev/null)" ""
    cat /tmp/stress.done.*
    echo none >$floor/auto || answer "stress: the rules are gone" "refused"
    rm -r /tmp/ruled /tmp/ruled.now
}

# The index of colors and the buddy allocator say the same of each block of each zone, where the kernel can check it. A file
# that cannot be read, or says nothing, is no verdict.
index_is_right() {
    [ -e $floor/check ] || return
    expect "index: $1" "$(awk '/^pass/ { passed = 1; next } { print } END { if (!passed) print "no zone passes" }' $floor/check 2>&1)" ""
}

# Each suite has names and variables of its own.
run_suite() {
    rm -f /tmp/suite.ended
    # shellcheck source=/dev/null
    (. "$1"; touch /tmp/suite.ended)
    [ -e /tmp/suite.ended ] || answer "$(basename "$1" .sh): comes to its end" "it did not"
}

# took PART: how long it was since the last one.
took() {
    local now
    now=$(date +%s)
    echo "# took: $1 $((now - since)) s"
    since=$now
}

series() {
    local suite since
    since=$(date +%s)
    known_parts
    if runs balance; then account start; fi
    mappings
    index_is_right "with a mapping"
    took start
    if runs scenarios; then
        colors_hold
        huge_pages_or_none
        index_is_right "after the scenarios"
        took scenarios
    fi
    for suite in /suite/*.sh; do
        runs "$(basename "$suite" .sh)" || continue
        run_suite "$suite"
        index_is_right "after $(basename "$suite" .sh)"
        took "$(basename "$suite" .sh)"
    done
    if runs exhaustion; then
        out_of_color
        index_is_right "after exhaustion"
        took exhaustion
    fi
    if runs stress; then
        stress
        index_is_right "after stress"
        took stress
    fi
    echo "# counters: $(tr '\n' ' ' <$floor/stat)"
    expect "no policy is left" "$(left policies)" 0
    expect "no page waits for a policy" "$(left cached)" 0
    echo none >$floor/map || answer "mapping: unloaded" "refused"
    held_in "unloaded" all anonymous stack
    if runs balance; then
        account end start
        balances start end
    fi
    took end
    echo "# left: $(ps -o pid,args | awk 'NR > 1 && $2 !~ /^\[/ { printf "%s%s", comma, $0; comma = ", " }')"
}

# Mapping and rules have come with the kernel's command line.
early() {
    expect "the mapping is in use" "$(cat $floor/map)" "$(cat $map)"
    expect "process 1 in the class of its rule" "$(papers $map classes 1 10)" 5
    expect "process 1 is its user" "$(grep '^class 5' $floor/auto_use)" "class 5 policies 1"
    echo none >$floor/auto || answer "the rules are gone" "refused"
    [ -d /sys/kernel/debug/cma/reserved ] || answer "cma: there is an area" none
    run_suite /suite/cma.sh
}

prepare
if [ "$FLOOR" = early ]; then
    early
elif [ "$FLOOR" = kernel ]; then
    if [ -d $floor ]; then series; else answer "series" "no $floor"; fi
else
    stock
fi

