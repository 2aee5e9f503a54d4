# SPDX-License-Identifier: GPL-2.0-only
#
# Colors of cgroups: files memory.colors.*.
root=/sys/fs/cgroup
echo +memory >$root/cgroup.subtree_control
all_classes=$((nodes * per_node))

# field GROUP FILE WORD: the rest of the line that starts with a word.
field() {
    sed -n "s/^$3 //p" "$root/$1/memory.colors.$2"
}

# give GROUP FILE TEXT: writes, and says whether that was accepted.
give() {
    echo "$3" 2>/dev/null >"$root/$1/memory.colors.$2"
}

# refused NAME GROUP FILE TEXT
refused() {
    give "$2" "$3" "$4" && answer "cgroup: $1" "'$4' was accepted" || answer "cgroup: $1"
}

# group NAME [CLASSES [MODE]]
group() {
    mkdir "$root/$1" || return
    if [ -n "$2" ]; then give "$1" bank "$2" || answer "cgroup: $1 is given $2" refused; fi
    if [ -n "$3" ]; then give "$1" mode "$3" || answer "cgroup: $1 is made $3" refused; fi
}

# held_within GROUP NAME CLASSES SCENARIO...
held_within() {
    local group=$root/$1 name="cgroup: $2" classes=$3 result
    shift 3
    cgroup enter "$group" held $map "$classes" "$@" >/tmp/held.cgroup 2>&1
    result=$?
    sed -E "s/^(ok|not ok) - /\1 - $name: /" /tmp/held.cgroup
    [ $result -lt 2 ] || answer "$name" "held ended with $result"
}

# Removed groups, and the policies of programs that have ended, take a moment.
gone() {
    local tries=0
    while [ "$(awk '$1 == "policies" { print $2 }' $floor/stat)" != 0 ]; do
        [ $((tries += 1)) -lt 100 ] || return 1
        sleep 0.1
    done
}

files() {
    local four two
    four=$(classes_of_nodes 2 4)
    two=$(classes_of_nodes 4 2)
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
    expect "cgroup: own colors of before" "$(grep -c '^ok' /tmp/out)" 2
    cgroup enter $root/a/b sh -c "echo strict 3 >$floor/task; exec held $map 3 anonymous stack" >/tmp/out
    expect "cgroup: own colors within the group's" "$(grep -c '^ok' /tmp/out)" 2
    give a/b bank "$two"

    # A change of the parent.
    cgroup notified $root/a/b/memory.colors.events 20 >/tmp/notified &
    while ! grep -q waiting /tmp/notified; do sleep 0.1; done
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

moving() {
    group a 2-5
    group b 6-7
    cgroup move $map $root/a 2-5 $root/b 6-7 >/tmp/out 2>&1
    sed -E 's/^(ok|not ok) - /\1 - cgroup: /' /tmp/out
    # Pages that stay behind keep neither the group's colors nor the mapping in use.
    cgroup enter $root/a sh -c 'dd if=/dev/zero of=/tmp/left bs=1M count=4 2>/dev/null'
    rmdir $root/a $root/b
    gone && answer "cgroup: removed with pages left" || answer "cgroup: removed with pages left" "$(cat $floor/stat)"
    rm /tmp/left
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
    while ! grep -q grown /tmp/small 2>/dev/null; do sleep 0.1; done
    cgroup enter $root/$2 cgroup grow $3 >/tmp/large 2>&1
    expect "cgroup: $1: the large one is killed" $? 137
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
    kill -0 $small && answer "cgroup: out of color: the small one stays" || answer "cgroup: out of color: the small one stays" "it is gone"
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
    expect "cgroup: other groups have lost nothing" "$(field b events killed) $(kill -0 $beside && echo there)" "0 there"
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

delegation() {
    local list
    # The delegatee gets as far as the group.
    chmod 755 /
    list=$(classes_of_nodes 2 4)
    group mine "$list"
    group other
    chown 1000:1000 $root/mine $root/mine/cgroup.procs $root/mine/cgroup.threads $root/mine/cgroup.subtree_control
    cgroup hostile $root/mine $root/other $map "$list" >/tmp/out 2>&1
    expect "cgroup: delegated" $? 0
    sed -E 's/^(ok|not ok) - /\1 - cgroup: delegated: /' /tmp/out
    rmdir $root/mine/below $root/mine $root/other
}

# Groups come, change and go while programs run in them and move between them.
storm() {
    local worker end=$(($(date +%s) + ${STORM_SECONDS:-20}))
    rm -f /tmp/storm.failed
    for worker in 0 1 2 3; do
        (
            while [ "$(date +%s)" -lt $end ]; do
                mkdir $root/s$worker
                give s$worker bank "$((2 * worker))-$((2 * worker + 5))"
                cgroup enter $root/s$worker held $map "$((2 * worker))-$((2 * worker + 5))" anonymous fork-storm copy-on-write \
                    >/tmp/storm.$worker 2>&1 || cat /tmp/storm.$worker >>/tmp/storm.failed
                cgroup enter $root/s$worker held $map all churn fork-storm >/tmp/storm.$worker 2>&1 &
                give s$worker bank "$((2 * worker + 1))"
                for task in $(cat $root/s$worker/cgroup.procs); do
                    echo "$task" 2>/dev/null >$root/s$(((worker + 1) % 4))/cgroup.procs
                done
                give s$worker bank ""
                wait
                until rmdir $root/s$worker 2>/dev/null; do
                    for task in $(cat $root/s$worker/cgroup.procs); do
                        echo "$task" 2>/dev/null >$root/cgroup.procs
                    done
                done
            done
        ) 2>/dev/null &
    done
    wait
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

exclusive() {
    local list breaches free before after
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
moving
exhaustion
delegation
exclusive
isolated
storm
gone && answer "cgroup: no policy is left" || answer "cgroup: no policy is left" "$(cat $floor/stat)"
echo none >$floor/map && mkdir $root/a
refused "no colors without a mapping" a bank 0
rmdir $root/a
dd if=$map of=$floor/map bs=64k 2>/dev/null
expect "cgroup: the mapping is loaded again" $? 0
