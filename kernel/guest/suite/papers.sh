# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# The interfaces of the papers: the mmap() color call (Hybrid coloring, TintMalloc), and CAMC's automatic mode with its switch.
# Errors by number: 1 EPERM, 2 ENOENT, 19 ENODEV, 22 EINVAL.

# passes NAME COMMAND...: a test that has nothing to say unless it fails.
passes() {
    local name=$1
    shift
    ("$@") >/tmp/papers.out 2>&1 && answer "$name" || answer "$name" "ended with $?: $(tail -n 1 /tmp/papers.out)"
}

# start FILE UID CPU PROGRAM...: starts a program, waits until it has used its memory; it tells where.
start() {
    local file=$1 uid=$2 cpu=$3
    shift 3
    papers - as "$uid" "$cpu" "$@" "$file" >>/tmp/papers.err 2>&1 &
    wait_for "$file"
}

wait_for() {
    local left=100
    while [ ! -s "$1" ] && [ $left -gt 0 ]; do
        sleep 0.2
        left=$((left - 1))
    done
}

# The bank classes of all private pages of what was started with a file: it has more than 205.
classes_of() {
    papers $map classes "$(cat "$1")" 205
}

end_all() {
    local file
    for file in /tmp/started/*; do
        [ -e "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null
    done
    rm -f /tmp/started/*
    # What did not come so far as to tell.
    killall -9 task papers 2>/dev/null
    wait
    # What has ended gives its colors back a moment later.
    soon used 0
}

# Policies in use of all classes of the pool, together and largest.
use_sum() { awk '$1 == "class" { sum += $4 } END { print sum + 0 }' $floor/auto_use; }

# used NUMBER: so often classes are used.
used() {
    [ "$(use_sum)" = "$1" ]
}
use_most() { awk '$1 == "class" && $4 > most { most = $4 } END { print most + 0 }' $floor/auto_use; }

rules() {
    printf "$1" >/tmp/rules
    dd if=/tmp/rules of=$floor/auto bs=16k 2>/dev/null
}

color_calls() {
    local with_sets
    expect "papers: color calls are off at first" "$(cat $floor/compat)" off
    passes "papers: off, a color call fails as ever" papers - refused 22
    echo privileged >$floor/compat
    said "papers: calls" papers $map calls
    passes "papers: not for everybody" papers - refused 1 1000
    echo all >$floor/compat
    passes "papers: for everybody" papers - refused 0 1000
    passes "papers: colors given by a file are a limit" colored "strict 0-1" papers - refused 1
    start /tmp/started/color 1000 -1 /bin/papers - color 3 /bin/papers - stay
    expect "papers: what is executed keeps the color" "$(classes_of /tmp/started/color)" 3
    end_all
    with_sets=/tmp/map.sets
    mapping_with_sets >$with_sets
    echo none >$floor/map
    passes "papers: no mapping" papers - refused 19
    dd if=$with_sets of=$floor/map bs=64k 2>/dev/null
    expect "papers: mapping with set colors" "$(awk '$1 == "set_colors" { print $2 }' $floor/colors)" 4
    said "papers: calls" papers $with_sets llc
    echo none >$floor/map
    dd if=$map of=$floor/map bs=64k 2>/dev/null
    echo off >$floor/compat
    passes "papers: off again" papers - refused 22
    expect "papers: no policy is left" "$(left policies)" 0
}

refused_rules() {
    rules 'rule 1000 /tmp/rt/*\n' || answer "papers: rules" "refused: $(cat $floor/auto_fault)"
    rules 'rule 1000 /tmp/rt/* 1 strict\nrule 1000 tmp\n' && answer "papers: wrong rules are refused" "accepted" ||
        answer "papers: wrong rules are refused"
    expect "papers: the fault names its line" "$(sed 's/:.*//' $floor/auto_fault)" "line 2"
    expect "papers: the old rules are in use" "$(cat $floor/auto)" "rule 1000 /tmp/rt/*"
    rules "pool 0-$((nodes * per_node))\nrule * /a\n" && answer "papers: a pool has classes that exist" "accepted" ||
        answer "papers: a pool has classes that exist"
    echo none 2>/dev/null >$floor/map && answer "papers: the mapping is in use while there are rules" "unloaded" ||
        answer "papers: the mapping is in use while there are rules"
}

own_colors() {
    local number=0 found="" class
    while [ $number -lt 6 ]; do
        start /tmp/started/$number 1000 -1 /tmp/rt/task - stay
        found="$found$(classes_of /tmp/started/$number)
"
        number=$((number + 1))
    done
    expect "papers: all private pages of a program in one class" "$(echo -n "$found" | grep -cvE '^[0-9]+$')" 0
    expect "papers: each program its own class" "$(echo -n "$found" | sort -u | wc -l)" 6
    expect "papers: in use, as told" "$(use_sum) $(use_most)" "6 1"
    for class in $found; do
        grep -q "^class $class policies 1$" $floor/auto_use || answer "papers: class $class in use" "not told"
    done
    start /tmp/started/root 0 -1 /tmp/rt/task - roam
    expect "papers: another user's is not colored" "$(classes_of /tmp/started/root | awk '{ print (NF > 4) }')" 1
    start /tmp/started/path 1000 -1 /bin/papers - roam
    expect "papers: another path's is not colored" "$(classes_of /tmp/started/path | awk '{ print (NF > 4) }')" 1
    expect "papers: neither is counted" "$(use_sum)" 6
    end_all
    expect "papers: colors are free again" "$(use_sum) $(left policies)" "0 0"
}

families() {
    local parent child
    rules 'rule 1000 /tmp/rt/*\n' || answer "papers: rules of families" "$(cat $floor/auto_fault)"
    start /tmp/started/fork 1000 -1 /tmp/rt/task - fork
    wait_for /tmp/started/fork.child
    parent=$(classes_of /tmp/started/fork)
    expect "papers: a forked child has its parent's class" "$(classes_of /tmp/started/fork.child)" "$parent"
    expect "papers: and is no new user of it" "$(use_sum)" 1
    end_all
    papers - as 1000 -1 /tmp/rt/task - spawn /tmp/started/spawn /tmp/rt/task - stay /tmp/started/spawned 2>>/tmp/papers.err &
    wait_for /tmp/started/spawn
    wait_for /tmp/started/spawned
    parent=$(classes_of /tmp/started/spawn)
    child=$(classes_of /tmp/started/spawned)
    expect "papers: an executed child has a class of its own" \
        "$(echo "$parent;$child" | grep -cE '^[0-9]+;[0-9]+$') $([ "$parent" != "$child" ] && echo differs) $(use_sum)" "1 differs 2"
    end_all
    papers - as 1000 -1 /tmp/rt/task - spawn /tmp/started/spawn /bin/papers - roam /tmp/started/spawned 2>>/tmp/papers.err &
    wait_for /tmp/started/spawn
    wait_for /tmp/started/spawned
    expect "papers: a child without a rule leaves the class" \
        "$(classes_of /tmp/started/spawned | awk '{ print (NF > 4) }') $(use_sum)" "1 1"
    end_all
    # Neither a program nor a script with an interpreter.
    printf '\001\002' >/tmp/rt/bad
    chmod 755 /tmp/rt/bad
    papers - as 1000 -1 /tmp/rt/task - fails /tmp/rt/bad /tmp/started/fails 2>>/tmp/papers.err &
    wait_for /tmp/started/fails
    expect "papers: a failed exec changes nothing" "$(classes_of /tmp/started/fails | grep -cE '^[0-9]+$') $(use_sum)" "1 1"
    end_all
}

pools() {
    local number=0 found="" class
    # Two classes of node 0 for five programs there.
    rules "pool 4,9\nrule 1000 /tmp/rt/*\n" || answer "papers: a pool" "$(cat $floor/auto_fault)"
    while [ $number -lt 5 ]; do
        start /tmp/started/$number 1000 0 /tmp/rt/task - stay
        found="$found $(classes_of /tmp/started/$number)"
        number=$((number + 1))
    done
    expect "papers: more programs than colors share them evenly" "$found" " 4 9 4 9 4"
    kill -9 "$(cat /tmp/started/1)" "$(cat /tmp/started/3)"
    rm /tmp/started/1 /tmp/started/3
    soon used 3
    start /tmp/started/next 1000 0 /tmp/rt/task - stay
    expect "papers: the least used is next" "$(classes_of /tmp/started/next)" 9
    end_all
    # Somebody without a rule uses one of them.
    papers - as 0 -1 /bin/sh -c "echo 'strict 4' >$floor/task; exec papers - stay /tmp/started/file" 2>>/tmp/papers.err &
    wait_for /tmp/started/file
    start /tmp/started/next 1000 0 /tmp/rt/task - stay
    expect "papers: colors given by a file are in use" "$(classes_of /tmp/started/next)" 9
    end_all
    rules "rule 1000 /tmp/rt/* 3\n"
    start /tmp/started/three 1000 0 /tmp/rt/task - stay
    expect "papers: three colors" "$(classes_of /tmp/started/three)" "0 1 2"
    end_all
    # By a file, and then executed: the file wins.
    papers - as 0 -1 /bin/sh -c "echo 'strict 7' >$floor/task; exec papers - as 1000 -1 /tmp/rt/task - stay /tmp/started/file" \
        2>>/tmp/papers.err &
    wait_for /tmp/started/file
    expect "papers: colors given by a file win" "$(classes_of /tmp/started/file)" 7
    end_all
    rules "rule 1000 /tmp/rt/*\n"
    echo all >$floor/compat
    start /tmp/started/color 1000 -1 /bin/papers - color 5 /tmp/rt/task - stay
    expect "papers: colors of color calls win" "$(classes_of /tmp/started/color)" 5
    end_all
    echo off >$floor/compat
    number=0
    while [ $number -lt "$nodes" ]; do
        start /tmp/started/$number 1000 $((number * $(nproc) / nodes)) /tmp/rt/task - stay
        class=$(classes_of /tmp/started/$number)
        expect "papers: a class of node $number" "$((${class:--1} / per_node))" $number
        number=$((number + 1))
    done
    end_all
}

# The whole address space is in color, not the private pages alone: the text of a program on the disk that nobody has executed
# before, and what is read ahead of it.
texts() {
    mkdir -p /disk
    mount -t ext2 /dev/ram1 /disk
    mkdir /disk/rt
    for class in 7 $((per_node - 1)); do
        cp /bin/held /disk/rt/text
        sync
        echo 3 >/proc/sys/vm/drop_caches
        # Who looks at frames has to be privileged.
        rules "pool $class\nrule 0 /disk/rt/*\n" || answer "papers: rules for a program on the disk" "$(cat $floor/auto_fault)"
        said "papers: of a rule, class $class" /disk/rt/text $map $class text data stack
        # As it is when nobody is at it any more: all that is cached of the program.
        expect "papers: of a rule, class $class: settled" "$(head -n 1 $floor/settled)" "moving 0"
        expect "papers: of a rule, class $class: all that is cached of the program" \
            "$(cached count $map $class /disk/rt/text | awk '{ print ($1 > 100), $2 }')" "1 0"
        rm /disk/rt/text
    done
    rmdir /disk/rt
    umount /disk
}

# grows NAME QUARTERS CLASSES GROWN: a program that writes so many quarters of a class's memory, stays, and is $grower, has these
# classes then; and so many were given later, in all. What there is no room for is swapped out. It is that of user $of, or 1000.
grows() {
    rm -f /tmp/grown
    papers - as ${of:-1000} 0 /tmp/rt/grow grow $((class_mib * $2 / 4)) stay >/tmp/grown 2>&1 &
    grower=$!
    while ! grep -q grown /tmp/grown 2>/dev/null && kill -0 $grower 2>/dev/null; do sleep 0.2; done
    expect "papers: a used up color: $1" "$(papers $map classes $grower 205) $(grep '^grown' $floor/auto_use)" "$3 grown $4"
}

# A program whose color is used up gets another one that nobody has, as long as its rule says so.
growth() {
    local class_mib grower first
    class_mib=$(awk -v classes=$((nodes * per_node)) '$1 == "MemTotal:" { print int($2 / 1024 / classes) }' /proc/meminfo)
    cp /bin/cgroup /tmp/rt/grow
    rules "pool 2-5\nrule 1000 /tmp/rt/* 1-2\n" || answer "papers: rules of growth" "$(cat $floor/auto_fault)"
    grows "one more" 6 "2 3" 1
    first=$grower
    expect "papers: a used up color: told" "$(use_sum) $(use_most)" "2 1"
    start /tmp/started/next 1000 0 /tmp/rt/task - stay
    expect "papers: a used up color: the next program has another" "$(classes_of /tmp/started/next)" 4
    grows "none that others have" 5 5 1
    kill -9 "$(cat /tmp/started/next)" $grower
    rm /tmp/started/next
    soon used 2
    grows "not more than the rule says" 9 "4 5" 2
    kill -9 $first $grower
    end_all
    expect "papers: a used up color: all are free in the end" "$(use_sum) $(left policies)" "0 0"
}

# A user has said how many colors each program gets, and then a rule's number is none to grow to; but its range is.
growth_of_registered() {
    local class_mib grower of=1001
    class_mib=$(awk -v classes=$((nodes * per_node)) '$1 == "MemTotal:" { print int($2 / 1024 / classes) }' /proc/meminfo)
    echo all >$floor/compat
    rules "pool 0-7\nrule registered /tmp/rt/* 8\n" || answer "papers: a rule for the registered" "$(cat $floor/auto_fault)"
    passes "papers: registered with one color" papers - as 1001 -1 /bin/papers - switch on 1 0 0
    grows "registered with one, where the rule says eight" 6 0 0
    kill -9 $grower
    soon used 0
    rules "pool 0-7\nrule registered /tmp/rt/* 1-4\n" || answer "papers: a range for the registered" "$(cat $floor/auto_fault)"
    passes "papers: registered with one color anew" papers - as 1001 -1 /bin/papers - switch on 1 0 0
    grows "registered with one, where the rule says up to four" 5 "0 1" 1
    kill -9 $grower
    end_all
    echo off >$floor/compat
    expect "papers: a used up color of the registered: all are free in the end" "$(use_sum) $(left policies)" "0 0"
}

switched_on() {
    rules "rule registered /tmp/rt/*\n"
    passes "papers: switched on while calls are off" papers - as 1001 -1 /bin/papers - switch on 2 0 22
    echo privileged >$floor/compat
    passes "papers: switched on without privileges" papers - as 1001 -1 /bin/papers - switch on 2 0 1
    echo all >$floor/compat
    start /tmp/started/before 1001 0 /tmp/rt/task - roam
    expect "papers: not before it is on" "$(classes_of /tmp/started/before | awk '{ print (NF > 4) }')" 1
    passes "papers: no more colors than there are" papers - as 1001 -1 /bin/papers - switch on 1025 0 22
    passes "papers: on" papers - as 1001 -1 /bin/papers - switch on 2 0 0
    start /tmp/started/two 1001 0 /tmp/rt/task - stay
    expect "papers: as many colors as the call says" "$(classes_of /tmp/started/two)" "0 1"
    passes "papers: on, and a mapping is made" papers - as 1001 -1 /bin/papers - switch on 0 8192 0
    start /tmp/started/one 1001 0 /tmp/rt/task - stay
    expect "papers: as many colors as the rule says" "$(classes_of /tmp/started/one)" "2"
    start /tmp/started/other 1000 0 /tmp/rt/task - roam
    expect "papers: not for other users" "$(classes_of /tmp/started/other | awk '{ print (NF > 4) }')" 1
    passes "papers: off for the user" papers - as 1001 -1 /bin/papers - switch off 0 0 0
    passes "papers: off twice" papers - as 1001 -1 /bin/papers - switch off 0 0 2
    start /tmp/started/after 1001 0 /tmp/rt/task - roam
    expect "papers: not after it is off" "$(classes_of /tmp/started/after | awk '{ print (NF > 4) }')" 1
    end_all
    echo off >$floor/compat
}

storms() {
    rules "pool 0-1\nrule 1000 /tmp/rt/*\n"
    papers - as 1000 -1 /tmp/rt/task - storm 6 /tmp/rt/task >/tmp/papers.out 2>&1
    expect "papers: a storm of programs" "$? $(tail -n 1 /tmp/papers.out)" "0 "
    soon used 0
    expect "papers: all colors are free after it" "$(use_sum) $(left policies)" "0 0"
    expect "papers: every program had a color" "$(grep '^unserved' $floor/auto_use)" "unserved 0"
}

mkdir -p /tmp/rt /tmp/started
chmod 1777 /tmp/started
cp /bin/papers /tmp/rt/task
color_calls
refused_rules
own_colors
texts
families
pools
growth
growth_of_registered
switched_on
storms
rules 'none\n' || answer "papers: no rules" "refused"
rm -r /tmp/rt /tmp/started
sed -n '1,5s/^/# papers: /p' /tmp/papers.err
