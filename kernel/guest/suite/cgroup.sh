# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Colors of cgroups: files memory.colors.*.
echo +memory >$root/cgroup.subtree_control
all_classes=$((nodes * per_node))

# field GROUP FILE WORD: the rest of the line that starts with a word.
field() {
    sed -n "s/^$3 //p" "$root/$1/memory.colors.$2"
}

# refused NAME GROUP FILE TEXT
refused() {
    give "$2" "$3" "$4" && answer "cgroup: $1" "'$4' was accepted" || answer "cgroup: $1"
}

# refused_with NAME GROUP FILE TEXT ERROR: refused with that error, and neither what was asked for nor what the group has changes.
refused_with() {
    local before error
    before=$(state_of "$2")
    error=$( (echo "$4" >"$root/$2/memory.colors.$3") 2>&1 | sed 's/.*: //')
    expect "cgroup: $1: refused" "$error" "$5"
    expect "cgroup: $1: nothing has changed" "$(state_of "$2")" "$before"
}

state_of() {
    (cd "$root/$1" && cat memory.colors.bank memory.colors.set memory.colors.node memory.colors.effective)
}

# lies NAME GROUP CLASSES SETS NODES: all of a program's new memory is there, though it runs on $cpu (any). Without a name: how
# much is elsewhere.
lies() {
    local found
    found=$(papers - as 0 "${cpu:--1}" /bin/cgroup enter $root/$2 cgroup lies $with_sets "$3" "$4" "$5")
    if [ -n "$1" ]; then expect "cgroup: $1" "$found" "bank 0 set 0 node 0"; else echo "$found"; fi
}

# group NAME [CLASSES [MODE]]
group() {
    mkdir "$root/$1" || return
    if [ -n "$2" ]; then give "$1" bank "$2" || answer "cgroup: $1 is given $2" refused; fi
    if [ -n "$3" ]; then give "$1" mode "$3" || answer "cgroup: $1 is made $3" refused; fi
}

# held_within GROUP NAME CLASSES SCENARIO...
held_within() {
    local group=$root/$1 name="cgroup: $2" classes=$3
    shift 3
    said "$name" cgroup enter "$group" held $map "$classes" "$@"
}

# Removed groups, and the policies of programs that have ended, take a moment.
gone() {
    [ "$(left policies)" = 0 ]
}

files() {
    local four two
    four=$(classes_of_nodes 2 4)
    two=$(classes_of_nodes 4 2)
    # shellcheck disable=SC2010 # names of kernel files
    expect "cgroup: the root has no files" "$(ls $root | grep colors)" ""
    group a
    expect "cgroup: no colors at first" "$(cat $root/a/memory.colors.effective)" none
    expect "cgroup: nothing asked at first" "$(cat $root/a/memory.colors.bank)$(cat $root/a/memory.colors.set)" ""
    refused "a class that is not there" a bank $all_classes
    refused "no list" a bank x
    refused "a node that is not there" a node 1023
    refused "no mode" a mode lenient
    give a bank "$four"
    expect "cgroup: asked" "$(cat $root/a/memory.colors.bank)" "$four"
    expect "cgroup: effective" "$(field a effective bank)" "$four"
    expect "cgroup: effective mode" "$(field a effective mode)" strict
    expect "cgroup: effective nodes" "$(field a effective node)" "$([ $nodes = 1 ] && echo 0 || echo 0-$((nodes - 1)))"
    (echo none >$floor/map) 2>/dev/null && answer "cgroup: mapping not reloaded while in use" "it was" ||
        answer "cgroup: mapping not reloaded while in use"
    held_within a "four of $per_node" "$four" $scenarios
    expect "cgroup: pages are counted" "$(($(field a stat colored) > 20000))" 1
    echo +memory >$root/a/cgroup.subtree_control
    group a/b
    expect "cgroup: a new child has the parent's" "$(field a/b effective bank)" "$four"
    held_within a/b "a child" "$four" anonymous stack copy-on-write
    give a/b bank "$two"
    held_within a/b "a narrower child" "$two" anonymous heap data threads exec fork-storm
    expect "cgroup: the parent counts the child's pages" "$(($(field a stat colored) - $(field a/b stat colored) > 20000))" 1
    refused "a class that the parent lacks" a/b bank 0
    expect "cgroup: a refused write changes nothing" "$(field a/b effective bank)" "$two"
    give a/b bank "0-$((per_node - 1))"
    expect "cgroup: a child has what the parent has" "$(field a/b effective bank)" "2-5"
    give a/b mode soft
    expect "cgroup: a child of a strict group is strict" "$(field a/b effective mode)" strict
    (colored "strict 0" true) || answer "cgroup: own colors" "refused outside of groups"
    cgroup enter $root/a/b sh -c "echo strict 0 >$floor/task" 2>/dev/null && answer "cgroup: own colors outside the group's" "accepted" ||
        answer "cgroup: own colors outside the group's"
    (colored "strict 0" cgroup enter $root/a/b held $map 2-5 anonymous stack >/tmp/out)
    expect "cgroup: own colors of before" "$(grep -v '^#' /tmp/out)" "$(printf 'ok - anonymous\nok - stack')"
    cgroup enter $root/a/b sh -c "echo strict 3-4 >$floor/task; exec held $map 3-4 anonymous stack" >/tmp/out
    expect "cgroup: own colors within the group's" "$(grep -v '^#' /tmp/out)" "$(printf 'ok - anonymous\nok - stack')"
    give a/b bank "$two"

    # A change of the parent.
    cgroup notified $root/a/b/memory.colors.events 20 >/tmp/notified &
    soon grep -q waiting /tmp/notified
    give a bank 4,8-11
    expect "cgroup: narrowed at once" "$(field a/b effective bank)" 4
    expect "cgroup: narrowed is an event" "$(field a/b events narrowed)" 1
    wait $! && answer "cgroup: the event is told" || answer "cgroup: the event is told" "nobody was told"
    give a bank 8-11
    expect "cgroup: a child whose colors are all gone has the parent's" "$(field a/b effective bank)" 8-11
    held_within a/b "narrowed child" 8-11 anonymous
    give a bank ""
    expect "cgroup: back" "$(field a/b effective bank)" "$two"
    expect "cgroup: the parent has none" "$(cat $root/a/memory.colors.effective)" none
    rmdir $root/a/b
    expect "cgroup: a removed child's pages stay counted" "$(($(field a stat colored) > 40000))" 1
    rmdir $root/a
}

# Sets and nodes: what is asked for is what the group has, and where memory of its programs is; what is wrong changes nothing.
sets_and_nodes() {
    local with_sets=/tmp/map.sets four node=0 cpu banks out_of_range="Numerical result out of range" invalid="Invalid argument"
    mapping_with_sets >$with_sets
    gone
    echo none >$floor/map
    dd if=$with_sets of=$floor/map bs=64k 2>/dev/null
    group none
    group a
    expect "cgroup: sets: without colors, elsewhere" \
        "$(lies "" none all 1 all | awk '{ print ($4 > 1000) }')" 1
    give a set 1
    expect "cgroup: sets: effective" "$(field a effective set) $(field a effective bank)" "1 0-$((all_classes - 1))"
    lies "sets: memory is in one" a all 1 all
    give a set 0,3
    expect "cgroup: sets: another effective" "$(cat $root/a/memory.colors.set) $(field a effective set)" "0,3 0,3"
    lies "sets: memory is in two others" a all 0,3 all
    refused_with "sets: one that is not there" a set 4 "$out_of_range"
    refused_with "sets: one more than there are" a set 0-4 "$out_of_range"
    refused_with "sets: no list" a set x "$invalid"
    refused_with "sets: a list that runs backwards" a set 3-0 "$invalid"
    echo +memory >$root/a/cgroup.subtree_control
    group a/b
    expect "cgroup: sets: a new child has the parent's" "$(field a/b effective set)" 0,3
    refused_with "sets: one that the parent lacks" a/b set 1-2 "$invalid"
    give a/b set 1-3
    expect "cgroup: sets: a child has what the parent has" "$(field a/b effective set)" 3
    lies "sets: memory of a child" a/b all 3 all
    rmdir $root/a/b
    echo -memory >$root/a/cgroup.subtree_control
    four=$(classes_of_nodes 2 4)
    give a bank "$four"
    lies "sets: memory is in sets and classes" a "$four" 0,3 all
    give a set ""
    expect "cgroup: sets: none asked for" "$(cat $root/a/memory.colors.set)$(field a effective set)" 0-3
    expect "cgroup: sets: none asked for, memory is in all" \
        "$(lies "" a "$four" 0,3 all | awk '{ print $2, ($4 > 1000) }')" "0 1"
    give a bank ""

    while [ $node -lt "$nodes" ]; do
        banks=$((node * per_node))-$((node * per_node + per_node - 1))
        # Of the next node, whose memory is nearer.
        cpu=$(((node + 1) % nodes * $(nproc) / nodes))
        give a node $node
        expect "cgroup: nodes: $node is effective" "$(cat $root/a/memory.colors.node) $(field a effective node) $(field a effective bank)" \
            "$node $node $banks"
        lies "nodes: memory is on $node" a "$banks" all $node
        [ "$nodes" = 1 ] || expect "cgroup: nodes: without colors, not only on $node" \
            "$(lies "" none all all $node | awk '{ print ($6 > 0) }')" 1
        node=$((node + 1))
    done
    cpu=
    refused_with "nodes: one that is not there" a node "$nodes" "$invalid"
    refused_with "nodes: one beyond all" a node 1024 "$out_of_range"
    refused_with "nodes: no list" a node x "$invalid"
    if [ "$nodes" -gt 1 ]; then
        give a node "0,$((nodes - 1))"
        expect "cgroup: nodes: two are effective" "$(field a effective node)" "0,$((nodes - 1))"
        lies "nodes: memory is on two" a all all "0,$((nodes - 1))"
        refused_with "nodes: classes of another node" a bank $per_node "$invalid"
        give a bank 3
        expect "cgroup: nodes: classes of the node" "$(field a effective node) $(field a effective bank)" "0 3"
        refused_with "nodes: not that of the classes" a node 1 "$invalid"
        lies "nodes: memory is in a class of the node" a 3 all 0
    fi
    rmdir $root/a $root/none
    gone
    echo none >$floor/map || answer "cgroup: the mapping with sets is unloaded" refused
    dd if=$map of=$floor/map bs=64k 2>/dev/null
}

# all_in CLASSES SETS PAGES COMMAND...: what a program started so says of so much of its new memory.
all_in() {
    local classes=$1 sets=$2 pages=$3
    shift 3
    "$@" cgroup lies $with_sets "$classes" "$sets" all "$pages" 2>&1
}

# As many colors as there can be: four times those of PALLOC, which has 256. A task has one of them, the last one, or a few; so has
# a group.
many_colors() {
    local with_sets=/tmp/map.sets bits=0 sets last
    while [ $((all_classes << bits)) -lt 1024 ]; do bits=$((bits + 1)); done
    sets=$((1 << bits)) last=$((all_classes - 1))
    mapping_with_sets $bits >$with_sets
    gone
    echo none >$floor/map
    dd if=$with_sets of=$floor/map bs=64k 2>/dev/null
    expect "cgroup: many colors" "$(awk '/^(bank_classes|set_colors) / { print $2 }' $floor/colors | tr '\n' ' ')" "$all_classes $sets "
    expect "cgroup: many colors: without any of them, elsewhere" "$(all_in 3 5 1000 | awk '{ print ($2 > 500), ($4 > 500) }')" "1 1"
    # A color has 256 pages on the smallest machine, of which some are in use.
    expect "cgroup: many colors: one" "$(all_in 3 5 64 colored 'strict 3 5')" "bank 0 set 0 node 0"
    expect "cgroup: many colors: the last one" "$(all_in $last $((sets - 1)) 64 colored "strict $last $((sets - 1))")" \
        "bank 0 set 0 node 0"
    expect "cgroup: many colors: six" "$(all_in 1,$last "2,7,$((sets - 3))" 600 colored "strict 1,$last 2,7,$((sets - 3))")" \
        "bank 0 set 0 node 0"
    # The next one is another: of the classes and sets beside it.
    expect "cgroup: many colors: six others" "$(all_in 1,$last "2,7,$((sets - 3))" 600 colored "strict 2,$((last - 1)) 3,8,$((sets - 2))")" \
        "bank 600 set 600 node 0"
    index_is_right "with many colors"
    group a 2,6,10
    give a set 4,9,11 || answer "cgroup: many colors: sets of a group" refused
    expect "cgroup: many colors: a group's are effective" "$(field a effective bank) $(field a effective set)" "2,6,10 4,9,11"
    expect "cgroup: many colors: nine of a group" "$(all_in 2,6,10 4,9,11 1000 command cgroup enter $root/a)" "bank 0 set 0 node 0"
    give a exclusive 1 || answer "cgroup: many colors: exclusive" refused
    expect "cgroup: many colors: exclusive: settled" "$(head -n 1 $floor/settled)" "moving 0"
    index_is_right "while some of many colors are exclusive"
    expect "cgroup: many colors: exclusive ones of a group" "$(all_in 2,6,10 4,9,11 1000 command cgroup enter $root/a)" "bank 0 set 0 node 0"
    rmdir $root/a
    gone
    echo none >$floor/map || answer "cgroup: many colors: the mapping is unloaded" refused
    dd if=$map of=$floor/map bs=64k 2>/dev/null
    expect "cgroup: many colors: the mapping of before" "$(cat $floor/map)" "$(cat $map)"
}

moving() {
    group a 2-5
    group b 6-7
    said cgroup cgroup move $map $root/a 2-5 $root/b 6-7 20
    # Pages that stay behind keep neither the group's colors nor the mapping in use.
    cgroup enter $root/a sh -c 'dd if=/dev/zero of=/tmp/left bs=1M count=4 2>/dev/null'
    rmdir $root/a $root/b
    gone && answer "cgroup: removed with pages left" || answer "cgroup: removed with pages left" "$(cat $floor/stat)"
    rm /tmp/left
}

# comes NAME SCENARIO CLASSES GROUP EXPECTED: what becomes of memory from before the colors of a group. Of what it says, numbers
# are left out.
comes() {
    command moving $map "$3" "$2" "$root/$4" >/tmp/out 2>&1
    expect "cgroup: $1" "$(grep -E '^(not |)ok|^# in a child' /tmp/out | sed 's/[0-9][0-9]*/N/g' | tr '\n' ' ')" "$5 "
    grep '^not' /tmp/out | sed 's/^/# cgroup: /'
}

# A program has memory already when it comes into a group, or when its group gets other colors.
coming() {
    local four other
    four=$(classes_of_nodes 2 4)
    other=$(classes_of_nodes 8 4)
    group a "$four"
    group none
    comes "memory of who comes moves" joins "$four" a "ok - joins"
    comes "memory of who comes without its first thread moves" headless "$four" a "ok - headless"
    comes "memory of who comes into no colors stays" joins "$four" none "not ok - joins # N of N private pages are out of color"
    comes "a child made in the group has its colors" born "$four" a "ok - born"
    comes "a child made in a group without colors has none" born "$four" none \
        "# in a child: page N is out of color not ok - born # a child ended with N"
    comes "memory moves when the group gets other colors" rewritten "$other" a "ok - rewritten"
    rmdir $root/none
    give a bank "$four"
    comes "memory of a child that is being made is not merged out of color" merging-in-fork "$four" a \
        "ok - merging-in-fork"
    comes "memory of a child that is being made moves when the group gets other colors" rewritten-in-fork "$other" a \
        "ok - rewritten-in-fork"
    give a bank "$four"
    comes "memory of who fails to make a child moves when the group gets other colors" rewritten-in-failed-fork "$other" a \
        "ok - rewritten-in-failed-fork"
    give a bank "$four"
    comes "arguments of who is being executed move when the group gets other colors" rewritten-in-exec "$other" a "ok - executed"
    rmdir $root/a
}

# grown_to MIB: a process without colors that has so much memory and keeps it, in $grown; /tmp/grown says so. What it said the
# last time must not be taken for it.
grown_to() {
    rm -f /tmp/grown
    cgroup grow $1 stay >/tmp/grown 2>&1 &
    grown=$!
    while ! grep -q grown /tmp/grown 2>/dev/null && kill -0 $grown 2>/dev/null; do sleep 0.2; done
}

# out_of NAME GROUP MIB: a small process stays, a large one goes.
out_of() {
    rm -f /tmp/small
    cgroup enter $root/$2 cgroup grow 4 stay >/tmp/small &
    small=$!
    while ! grep -q grown /tmp/small 2>/dev/null && kill -0 $small 2>/dev/null; do sleep 0.1; done
    cgroup enter $root/$2 cgroup grow $3 >/tmp/large 2>&1
    expect "cgroup: $1: the large one is killed" $? 137
}

# members GROUP: how many processes it has; who has started them, and waits for them, is in none.
members() {
    grep -c . $root/$1/cgroup.procs
}

exhaustion() {
    local class mib
    class=$(classes_of_nodes 12 1)
    # All memory of a class, and half as much again.
    mib=$(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16 * 3 / 2) }' /proc/meminfo)
    group a "$class"
    group b "$(classes_of_nodes 13 1)"
    [ ! -e $root/a/memory.swap.max ] || echo 0 | tee $root/a/memory.swap.max $root/b/memory.swap.max >/dev/null
    cgroup enter $root/b cgroup grow 4 stay >/tmp/beside &
    beside=$!
    out_of "out of color" a $mib
    expect "cgroup: out of color: the small one stays" "$(members a)" 1
    expect "cgroup: out of color: memory is left" "$(awk '$1 == "MemFree:" { print ($2 > 200000) }' /proc/meminfo)" 1
    expect "cgroup: out of color: counted once" "$(field a events killed)" 1
    expect "cgroup: out of color: an OOM kill of the group" "$(sed -n 's/^oom_kill //p' $root/a/memory.events)" 1
    expect "cgroup: out of color: exhausted" "$(($(field a events exhausted) > 0))" 1
    echo 1 >$root/a/cgroup.kill
    wait $small
    echo 1 >$root/a/memory.oom.group
    out_of "whole group" a $mib
    wait $small
    expect "cgroup: whole group: the small one is killed" $? 137
    expect "cgroup: other groups have lost nothing" "$(field b events killed) $(members b)" "0 1"
    echo 1 >$root/b/cgroup.kill
    wait $beside
    give b mode soft
    cgroup enter $root/b cgroup grow $mib >/tmp/large 2>&1
    expect "cgroup: soft: lives" $? 0
    expect "cgroup: soft: what lies elsewhere is counted" "$(($(field b events fallback) > mib * 256 / 4))" 1
    expect "cgroup: soft: nobody is killed" "$(field b events killed)" 0
    expect "cgroup: soft: events are those of stat" "$(field b events fallback)" "$(field b stat fallback)"
    rmdir $root/a $root/b
}

# verdict PID CLASSES: what memtint's users see.
verdict() {
    memtint inspect $1 --platform /tmp/here.toml --banks "$2" --format json | tr -d ' ,"' | sed -n 's/^verdict://p'
}

# What a soft group was given elsewhere, for want of others, moves when it becomes strict and there is room.
hardened() {
    local class filler member
    class=$(classes_of_nodes 12 1)
    group a "$class" soft
    group b "$class" soft
    rm -f /tmp/filler /tmp/member
    cgroup enter $root/a cgroup grow "$(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16 * 3 / 2) }' /proc/meminfo)" stay >/tmp/filler &
    filler=$!
    soon grep -q grown /tmp/filler
    cgroup enter $root/b cgroup grow 8 stay >/tmp/member &
    member=$!
    soon grep -q grown /tmp/member
    expect "cgroup: soft: pages lie elsewhere" "$(verdict "$(cat $root/b/cgroup.procs)" "$class")" violated
    echo 1 >$root/a/cgroup.kill
    wait $filler
    give b mode strict || answer "cgroup: soft made strict" refused
    expect "cgroup: soft made strict: settled" "$(head -n 1 $floor/settled)" "moving 0"
    expect "cgroup: soft made strict: all is in color" "$(verdict "$(cat $root/b/cgroup.procs)" "$class")" held
    echo 1 >$root/b/cgroup.kill
    wait $member
    soon rmdir $root/a $root/b
}

delegation() {
    local list
    list=$(classes_of_nodes 2 4)
    group mine "$list"
    group other
    chown 1000:1000 $root/mine $root/mine/cgroup.procs $root/mine/cgroup.threads $root/mine/cgroup.subtree_control
    said "cgroup: delegated" cgroup hostile $root/mine $root/other $map "$list"
    rmdir $root/mine/below $root/mine $root/other
}

# What a group below asks for, and others have for themselves by now, keeps nobody above it from changing.
veto() {
    local some others
    some=$(classes_of_nodes 0 4)
    others=$(classes_of_nodes 4 4)
    group above "$some"
    echo +memory >$root/above/cgroup.subtree_control
    group above/below "$some,$others"
    expect "cgroup: more is asked for than there is above" "$(field above/below effective bank)" "$some"
    group beside "$others"
    give beside exclusive 1 || answer "cgroup: exclusive beside it" refused
    give above bank "" && answer "cgroup: no veto from below" || answer "cgroup: no veto from below" refused
    expect "cgroup: no veto from below: it has what is above" "$(cat $root/above/below/memory.colors.effective)" none
    expect "cgroup: no veto from below: an event" "$(field above/below events narrowed)" 1
    refused "its own write is refused" above/below set "*"
    rmdir $root/above/below $root/above $root/beside
}

# A removed group has its colors until the kernel comes to it, but they are in nobody's way.
removed() {
    local colors i busy=0
    colors=$(classes_of_nodes 0 4)
    for i in $(seq 40); do
        group removed$i "$colors"
        [ $((i % 2)) = 0 ] || give removed$i exclusive 1 || busy=$((busy + 1))
        rmdir $root/removed$i
    done
    expect "cgroup: removed: exclusive at once" $busy 0
}

storm() {
    storm_of_groups 20
    expect "cgroup: storm" "$(grep -v '^ok' /tmp/storm.failed 2>/dev/null | head -n 3)" ""
    expect "cgroup: storm: nothing is left" "$(ls -d $root/s[0-9] 2>/dev/null)" ""
}

# Fills memory by all sorts of use, without colors, and counts how many more frames of the classes are in use then, in /tmp/newly.
newly_used() {
    local mib
    rm -rf /tmp/many
    mkdir /tmp/many
    # Inodes and names, page cache, pipes that nobody reads.
    (cd /tmp/many && for i in $(seq 40); do mkdir $i && (cd $i && touch $(seq 200)); done)
    dd if=/dev/zero of=/tmp/many/file bs=1M count=64 2>/dev/null
    for i in $(seq 8); do
        # shellcheck disable=SC2216 # a reader that does not read
        { dd if=/dev/zero bs=64k count=1 2>/dev/null; sleep 1000; } | sleep 1000 >/dev/null &
    done
    held $map all fork-storm >/dev/null 2>&1
    mib=$(awk '$1 == "MemFree:" { print int($2 / 1024 * 3 / 4) }' /proc/meminfo)
    grown_to $mib
    cgroup newly $map "$1" /tmp/used >/tmp/newly
}

let_go() {
    kill $grown
    killall sleep
    wait 2>/dev/null
    rm -rf /tmp/many
}

# joined_by MIB: a member of the group that has so much, in $member. What others have is not in swap before.
joined_by() {
    swapoff /dev/ram0 && swapon /dev/ram0 || answer "cgroup: exclusive: the swap space is empty" "swapoff"
    rm -f /tmp/member
    cgroup enter $root/x cgroup grow $1 stay >/tmp/member 2>&1 &
    member=$!
    soon grep -q grown /tmp/member
}

# left_for_others: the MiB that they can have down to the watermarks.
left_for_others() {
    awk -v "least=$(cat /proc/sys/vm/min_free_kbytes)" 'NR == FNR { if ($1 == "free") reserved = 4 * $2; next }
        $1 == "MemFree:" { print int(($2 - reserved - least) / 1024) }' $floor/exclusive /proc/meminfo
}

# present WHERE: how many private pages the member has in_color or out_of_color. Those of its program, and of what it has written
# to, are of tmpfs, and may be in swap.
present() {
    memtint inspect --platform /tmp/here.toml --cgroup $root/x --banks "$list" --format json | tr -d '", ' |
        awk -F : -v "field=${1}_pages" '$1 == field { print $2; exit }'
}

# short_for_others: writes to more and more memory until some of it is swapped out. The page cache is reclaimed first.
# What was just written is passed over the first time, by any reclaim.
short_for_others() {
    local before more mib
    before=$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)
    for more in 50 80 110 140; do
        mib=$(($(left_for_others) + more))
        cgroup grow $mib && cgroup grow $mib && cgroup grow $mib || return
        if [ "$(awk '$1 == "pswpout" { print $2 }' /proc/vmstat)" -gt "$before" ]; then return; fi
    done
    return 1
}

# Others are given no page of these colors: to swap such pages out would gain them nothing. What a soft group has elsewhere is like
# anybody's.
spared() {
    local member mib elsewhere left colored
    joined_by 64
    colored=$(present in_color)
    expect "cgroup: exclusive: the group's pages are in color" $((colored >= 64 * 256)) 1
    short_for_others >/tmp/large 2>&1
    expect "cgroup: exclusive: memory is short for others" $? 0
    expect "cgroup: exclusive: the group's pages are spared" \
        "$(cat /tmp/member) $(members x) $(present in_color)" "grown 1 $colored"
    echo 1 >$root/x/cgroup.kill
    wait $member 2>/dev/null
    give x mode soft
    joined_by "$(awk '$1 == "MemTotal:" { print int($2 / 1024 / 8) + 16 }' /proc/meminfo)"
    colored=$(present in_color) elsewhere=$(present out_of_color)
    # Others' own pages cannot be swapped out: more and more is wanted, until the group's elsewhere are, or there is no memory.
    echo 0 >$root/z/memory.swap.max
    mib=$(left_for_others) left=$elsewhere
    while [ "$left" = $elsewhere ] && cgroup enter $root/z cgroup grow $mib >/tmp/large 2>&1; do
        left=$(present out_of_color) mib=$((mib + 8))
    done
    echo "# cgroup: exclusive, soft: of $elsewhere pages elsewhere, $left are left"
    expect "cgroup: exclusive, soft: others have memory" "$(cat /tmp/large)" grown
    expect "cgroup: exclusive, soft: pages elsewhere are not spared, those in color are" \
        "$(cat /tmp/member) $(members x) $((left < elsewhere)) $(present in_color)" "grown 1 1 $colored"
    echo 1 >$root/x/cgroup.kill
    wait $member 2>/dev/null
    give x mode strict
}

# Another controller that needs the memory controller keeps a group's state when its files go.
hidden() {
    echo "+memory +io" >$root/cgroup.subtree_control
    group hidden "$(classes_of_nodes 2 4)"
    give hidden exclusive 1 || answer "cgroup: hidden: exclusive" refused
    echo -memory >$root/cgroup.subtree_control
    # shellcheck disable=SC2010 # names of kernel files
    expect "cgroup: hidden: no files" "$(ls $root/hidden | grep colors)" ""
    gone && answer "cgroup: hidden: no colors" || answer "cgroup: hidden: no colors" "$(cat $floor/stat)"
    echo +memory >$root/cgroup.subtree_control
    expect "cgroup: hidden: none asked for afterwards" "$(cat $root/hidden/memory.colors.bank $root/hidden/memory.colors.effective)" "
none"
    expect "cgroup: hidden: not exclusive afterwards" "$(field hidden exclusive exclusive)" 0
    rmdir $root/hidden
    echo -io >$root/cgroup.subtree_control
}

exclusive() {
    local list free before after
    list=$(classes_of_nodes 12 2)
    group x "$list"
    group y 0
    refused "exclusive: neither 0 nor 1" x exclusive 2
    mkdir $root/z
    refused "exclusive: no colors of its own" z exclusive 1
    give y bank 12
    refused "exclusive: others have them" x exclusive 1
    give y bank 0
    grown_to 64
    before=$(cgroup movable $map "$list")
    give x exclusive 1 && answer "cgroup: exclusive" || answer "cgroup: exclusive" refused
    expect "cgroup: exclusive: settled" "$(head -n 1 $floor/settled)" "moving 0"
    after=$(cgroup movable $map "$list")
    echo "# cgroup: exclusive: of $before movable pages of others $after are left"
    expect "cgroup: exclusive: others' pages are moved out" "$((before > 1000)) $((after * 20 < before))" "1 1"
    kill $grown
    wait $grown 2>/dev/null
    echo "# cgroup: in use when reserved: $(cgroup used $map "$list" /tmp/used) frames"
    sed 's/^/# cgroup: /' $floor/exclusive
    expect "cgroup: exclusive: what cannot be avoided is said" "$(field x exclusive unavoidable_orders)" "6 7 8 9 10"
    refused "exclusive: another group" y bank 13
    (colored "strict 13" true) 2>/dev/null && answer "cgroup: exclusive: another task" accepted || answer "cgroup: exclusive: another task"
    refused "exclusive: not changed meanwhile" x bank 0
    newly_used "$list"
    expect "cgroup: exclusive: memory is filled" "$(cat /tmp/grown)" grown
    expect "cgroup: exclusive: used by others" "$(cat /tmp/newly) $(awk '/^breach/ { sum += $2 } END { print sum }' $root/x/memory.colors.events)" "0 0"
    index_is_right "while colors are exclusive"
    free=$(awk '$1 == "MemFree:" { print int($2 / 1024) }' /proc/meminfo)
    echo "# cgroup: $free MiB are free"
    held_within x "exclusive, memory full" "$list" anonymous heap stack copy-on-write fork-storm
    expect "cgroup: exclusive: nobody is killed" "$(field x events killed)" 0
    let_go
    spared
    command moving $map all compaction-beside >/tmp/moving.beside 2>&1
    expect "cgroup: exclusive: others are compacted" "$(grep -v '^#' /tmp/moving.beside)" "ok - compaction-beside"
    sed -n 's/^# /# cgroup: exclusive: /p' /tmp/moving.beside
    sed 's/^/# cgroup: /' $floor/exclusive
    give x exclusive 0
    index_is_right "exclusive no more"
    cgroup used $map "$list" /tmp/used >/dev/null
    newly_used "$list" 2>/dev/null
    expect "cgroup: exclusive no more: used by others" "$(($(cat /tmp/newly) > 1000))" 1
    let_go
    give x exclusive 1
    rmdir $root/x $root/y $root/z
}

# On a CPU that no worker visits, memory that a task has had does not wait for it for ever: the cache stays what it is at least.
isolated() {
    local cached
    # Pages of removed groups, which are counted as well.
    expect "cgroup: isolated: no page waits before" "$(left cached)" 0
    echo +cpuset >$root/cgroup.subtree_control
    group i
    echo 3 >$root/i/cpuset.cpus
    echo isolated >$root/i/cpuset.cpus.partition
    expect "cgroup: isolated" "$(cat $root/i/cpuset.cpus.partition)" isolated
    # The shell has the colors still when the program has ended.
    cgroup enter $root/i sh -c "echo strict $(classes_of_nodes 2 4) >$floor/task; held $map all churn; cat $floor/stat" >/tmp/out
    expect "cgroup: isolated: colors" "$(head -n 1 /tmp/out)" "ok - churn"
    cached=$(awk '$1 == "cached" { print $2 }' /tmp/out)
    [ "$cached" -gt 0 ] && [ "$cached" -le 512 ] && answer "cgroup: isolated: few pages wait" ||
        answer "cgroup: isolated: few pages wait" "$cached pages"
    rmdir $root/i
    echo -cpuset >$root/cgroup.subtree_control
}

files
sets_and_nodes
many_colors
moving
coming
exhaustion
hardened
delegation
veto
removed
exclusive
isolated
hidden
storm
expect "cgroup: no group is left" "$(cd $root && ls -d */ 2>/dev/null)" ""
gone && answer "cgroup: no policy is left" || answer "cgroup: no policy is left" "$(cat $floor/stat)"
echo none >$floor/map && mkdir $root/a
refused "no colors without a mapping" a bank 0
rmdir $root/a
dd if=$map of=$floor/map bs=64k 2>/dev/null
expect "cgroup: the mapping is loaded again" $? 0
