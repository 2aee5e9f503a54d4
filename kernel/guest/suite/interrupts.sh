# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Pages that interrupts and softirqs take while a task with colors runs are not that task's: they have any color and are not
# counted; and where colors are exclusive, they have none of these. irqpages.ko takes them, on each CPU, and says from whom. What
# nobody can have without exclusive colors is refused to them, and counted when somebody may not be refused.
irqpages=/sys/kernel/debug/irqpages
kept=1024
busybox --list | grep -qx taskset || answer "interrupts: taskset" "busybox has none"
insmod /bin/irqpages.ko || answer "interrupts: the module is loaded" "refused"

# on_each_cpu COMMAND...: in the background, once for each CPU and bound to it; the program to start is in $program.
on_each_cpu() {
    local cpu=0
    rm -f /tmp/irq.enough
    while [ $cpu -lt "$(nproc)" ]; do
        "$@" taskset -c $cpu ash -c "$program" &
        cpu=$((cpu + 1))
    done
}

enough() {
    touch /tmp/irq.enough
    wait
}

# As long as the others go on: a program that needs no page once it runs; and one that needs them all the time.
spins='while [ ! -e /tmp/irq.enough ]; do :; done'
allocates() {
    echo "while [ ! -e /tmp/irq.enough ]; do held $map $1 churn copy-on-write >/tmp/irq.\$\$ ||
        { echo \"held ended with \$?\" && cat /tmp/irq.\$\$; } >/tmp/irq.wrong; done"
}

# The pages that are kept now: a line CLASS CONTEXT CPU FRAME COMM each, in /tmp/irq.pages.
look() {
    cat $irqpages/pages >/tmp/irq.kept
    awk '{ print $3 }' /tmp/irq.kept | colors $map | awk 'NR > 1 { print $1 }' | paste -d ' ' - /tmp/irq.kept >/tmp/irq.pages
}

# count COMM CLASSES: for each context and CPU "CONTEXT CPU PAGES CLASSES WITHIN": pages taken from a task of that name, how many
# different classes they have, and how many pages have one of those in the list.
count() {
    awk -v comm="$1" -v list="$2" '
        BEGIN {
            for (n = split(list, part, ","); n; n--) {
                split(part[n] "-" part[n], edge, "-")
                for (class = edge[1] + 0; class <= edge[2] + 0; class++) wanted[class] = 1
            }
        }
        { pages[$2 " " $3] += $5 == comm }
        $5 == comm && !seen[$2, $3, $1]++ { classes[$2 " " $3]++ }
        $5 == comm && $1 in wanted { within[$2 " " $3]++ }
        END { for (taker in pages) print taker, pages[taker], classes[taker] + 0, within[taker] + 0 }' /tmp/irq.pages | sort
}

# taken_from COMM CLASSES: begins anew, and waits until each context of each CPU has all that it keeps, and of these some that
# were taken from a task of that name, outside the classes. What there is then is in /tmp/irq.count. Of what busy tasks free, much
# is taken next; but to who is held to their colors, not one page of another would be given.
taken_from() {
    local tries=0 all=$((2 * $(nproc)))
    echo $kept >$irqpages/run
    while [ "$(awk -v kept=$kept '$3 >= kept' $irqpages/count | wc -l)" != $all ] && [ $tries -lt 360 ]; do
        tries=$((tries + 1))
        sleep 0.5
    done
    tries=0
    while [ $tries -lt 30 ]; do
        tries=$((tries + 1))
        look
        count "$1" "$2" >/tmp/irq.count
        [ "$(awk '$3 > $5' /tmp/irq.count | wc -l)" = $all ] && break
        sleep 0.5
    done
}

# judge NAME COMM
judge() {
    local all=$((2 * $(nproc)))
    echo "# interrupts: $1: context, CPU, pages taken from $2, classes, in the colors: $(awk '{ printf "%s%s", comma, $0; comma = ", " }' /tmp/irq.count)"
    expect "interrupts: $1: each context of each CPU has taken pages" "$(awk -v kept=$kept '$3 >= kept' $irqpages/count | wc -l)" $all
    expect "interrupts: $1: in its own context" "$(awk '$5' $irqpages/count)" ""
    expect "interrupts: $1: they have other colors than the task" "$(awk '$3 > $5' /tmp/irq.count | wc -l)" $all
}

# All counters but how many wait in caches.
counted() {
    grep -E '^(colored|fallback|refused|exhausted|killed) ' "$1"
}

# still FILE: waits until nothing has been counted for a second.
still() {
    local tries=0 last=
    while [ $tries -lt 60 ]; do
        tries=$((tries + 1)) last=$(counted $1)
        sleep 1
        [ "$(counted $1)" != "$last" ] || return
    done
}

# Tasks that need no page: what is counted meanwhile would be the interrupts'. Each CPU's node has four classes of the list.
of_tasks() {
    local list before
    list=$(classes_of_nodes 2 4)
    program=$spins
    on_each_cpu colored "strict $list"
    still $floor/stat
    before=$(counted $floor/stat)
    taken_from ash "$list"
    judge "idle tasks" ash
    expect "interrupts: idle tasks: nothing is counted" "$(counted $floor/stat)" "$before"
    enough
    # And such that need them all the time, and free them: who is interrupted may be at it.
    rm -f /tmp/irq.wrong
    program=$(allocates "$list")
    on_each_cpu colored "strict $list"
    taken_from held "$list"
    judge "busy tasks" held
    index_is_right "while interrupts take pages"
    echo 0 >$irqpages/run
    enough
    expect "interrupts: busy tasks keep their colors" "$(grep -v '^ok' /tmp/irq.wrong 2>/dev/null)" ""
    expect "interrupts: busy tasks are counted" "$([ "$(counted $floor/stat)" != "$before" ] && echo yes)" yes
}

# within: pages of the last look, of whomever they were taken, in the list.
within() {
    sed -E 's/ [^ ]+$/ any/' /tmp/irq.pages >/tmp/irq.any
    mv /tmp/irq.any /tmp/irq.pages
    count any "$1" | awk '{ sum += $5 } END { print sum + 0 }'
}

breaches() {
    awk '/^breach/ { sum += $2 } END { print sum + 0 }' $root/irq/memory.colors.events
}

exclusive() {
    local list before group=$root/irq
    list=$(classes_of_nodes 9 2)
    echo +memory >$root/cgroup.subtree_control
    mkdir $group
    give irq bank "$list" && give irq exclusive 1 || answer "interrupts: exclusive" refused
    expect "interrupts: exclusive: settled" "$(head -n 1 $floor/settled)" "moving 0"
    before=$(breaches)
    program=$spins
    on_each_cpu cgroup enter $group
    still $group/memory.colors.stat
    counted $group/memory.colors.stat >/tmp/irq.before
    taken_from ash "$list"
    judge "exclusive, idle tasks" ash
    expect "interrupts: exclusive, idle tasks: nothing is counted" "$(counted $group/memory.colors.stat)" "$(cat /tmp/irq.before)"
    expect "interrupts: exclusive, idle tasks: no page in these colors" "$(within "$list")" 0
    enough
    rm -f /tmp/irq.wrong
    program=$(allocates "$list")
    on_each_cpu cgroup enter $group
    taken_from held "$list"
    judge "exclusive, busy tasks" held
    expect "interrupts: exclusive, busy tasks: no page in these colors" "$(within "$list")" 0
    index_is_right "while interrupts take pages beside exclusive colors"
    enough
    expect "interrupts: exclusive, busy tasks keep their colors" "$(grep -v '^ok' /tmp/irq.wrong 2>/dev/null)" ""
    expect "interrupts: exclusive: no breach" "$(breaches)" "$before"
    # The same look finds them when these colors are everybody's again.
    give irq exclusive 0
    program=$spins
    on_each_cpu cgroup enter $group
    taken_from ash "$list"
    expect "interrupts: exclusive no more: pages in these colors" "$(($(within "$list") > 0))" 1
    enough
    echo 0 >$irqpages/run
    rmdir $group
}

# What the kernel keeps for requests that may not sleep: blocks of a migratetype of their own.
kept_for_atomic() {
    awk '/^Number of blocks/ { for (i = 1; i <= NF; i++) if ($i == "HighAtomic") column = i; next }
        !/^Node/ || /, type/ { column = 0 }
        column { sum += $column } END { print sum + 0 }' /proc/pagetypeinfo
}

atomic_blocks() {
    local list was tries=0
    list=$(classes_of_nodes 2 4)
    insmod /bin/irqpages.ko order=2 || answer "interrupts: the module is loaded for blocks" "refused"
    was=$(cat /proc/sys/vm/min_free_kbytes)
    # As if memory were scarce: then pageblocks are set apart for those who cannot wait.
    awk '$1 == "MemFree:" { print int($2 / 10 * 9) }' /proc/meminfo >/proc/sys/vm/min_free_kbytes
    echo 16 >$irqpages/run
    while [ "$(kept_for_atomic)" = 0 ] && [ $tries -lt 60 ]; do tries=$((tries + 1)) && sleep 0.5; done
    expect "interrupts: pageblocks are kept for atomic requests" "$(($(kept_for_atomic) > 0))" 1
    index_is_right "while pageblocks are kept for atomic requests"
    echo "$was" >/proc/sys/vm/min_free_kbytes
    held_with "strict $list" "interrupts: beside blocks" "$list" anonymous churn fork-storm
    index_is_right "after colors beside atomic requests"
    echo 0 >$irqpages/run
    index_is_right "after atomic requests for blocks"
    rmmod irqpages || answer "interrupts: the module for blocks is unloaded" "refused"
}

# Where the stack of a new task is a block of eight pages (KASAN), each task that is started is a breach: from the first look at the
# counters to the second, none is.

# each_breach FILE: what was given of exclusive colors, "ORDER BLOCKS" each, in one line; of the floor or of a group.
each_breach() {
    local name blocks
    while read -r name blocks; do
        case $name in breach_order_*) echo -n "${name#breach_order_} $blocks " ;; esac
    done <"$1"
}

# asks ORDER KIND TIMES: a process without colors asks so often; tells how often it was given a block, and by how many the counters
# of the floor, and those of the group, have grown, of each order that has: "GIVEN, ORDER+MORE ..., ORDER+MORE ...".
asks() {
    local left=$3 given=0
    each_breach $floor/exclusive >/tmp/irq.floor
    each_breach $group/memory.colors.events >/tmp/irq.group
    while [ $left -gt 0 ]; do
        if echo "$1 $2" 2>/dev/null >$irqpages/ask; then given=$((given + 1)); fi
        left=$((left - 1))
    done
    each_breach $floor/exclusive >>/tmp/irq.floor
    each_breach $group/memory.colors.events >>/tmp/irq.group
    echo "$given, $(more_of /tmp/irq.floor), $(more_of /tmp/irq.group)"
}

# more_of FILE: of two lines "ORDER BLOCKS ...", all at once: each_breach() ends none.
more_of() {
    tr -s ' ' '\n' <"$1" | awk 'NF { if (NR % 2) order = $1; else if (order in before) {
        if ($1 != before[order]) printf "%s%d+%d", many++ ? " " : "", order, $1 - before[order] } else before[order] = $1 }'
}

# all_have_asked: each context of each CPU, often enough; how many they were given is in $given.
all_have_asked() {
    local cpu taken failed contexts=0
    given=0
    while read -r _ cpu taken failed _; do
        given=$((given + taken))
        [ "$failed" -lt 50 ] || contexts=$((contexts + 1))
    done <$irqpages/count
    [ $contexts = $all ]
}

# refused_in_interrupts ORDER: each context of each CPU asks for such blocks, again and again, and is given none.
refused_in_interrupts() {
    local tries=0 all=$((2 * $(nproc))) given asked=no
    rmmod irqpages
    insmod /bin/irqpages.ko order="$1" || answer "interrupts: the module is loaded for order $1" "refused"
    # Nobody writes there: who reads waits for as long as he likes.
    mkfifo /tmp/irq.wait
    exec 5<>/tmp/irq.wait
    each_breach $floor/exclusive >/tmp/irq.floor
    echo 16 >$irqpages/run
    while ! all_have_asked && [ $tries -lt 60 ]; do
        tries=$((tries + 1))
        # shellcheck disable=SC3045 # busybox has it
        read -r -t 1 _ <&5
    done
    each_breach $floor/exclusive >>/tmp/irq.floor
    if all_have_asked; then asked=yes; fi
    echo 0 >$irqpages/run
    exec 5<&-
    rm /tmp/irq.wait
    expect "interrupts: breaches: order $1 in interrupts: refused" "$asked, $given given" "yes, 0 given"
    expect "interrupts: breaches: order $1 in interrupts: nothing is counted" "$(more_of /tmp/irq.floor)" ""
}

# Every second class of each node is exclusive: pairs of classes lie in each block of eight pages, and all in those of 64. A process
# asks for what it cannot have without; one that may not be refused has it, and that is counted, in its order and nowhere else.
breaches_are_counted() {
    local group=$root/irq list="" class=0
    while [ $class -lt $((nodes * per_node)) ]; do
        list=$list,$class
        class=$((class + 2))
    done
    mkdir $group
    give irq bank "${list#,}" && give irq exclusive 1 || answer "interrupts: breaches: exclusive" refused
    expect "interrupts: breaches: settled" "$(head -n 1 $floor/settled)" "moving 0"
    expect "interrupts: breaches: what cannot be avoided" "$(sed -n 's/^unavoidable_orders //p' $floor/exclusive)" "3 4 5 6 7 8 9 10"
    for class in atomic noretry waits; do
        expect "interrupts: breaches: order 2, $class: given, in other colors" "$(asks 2 $class 20)" "20, , "
    done
    for class in atomic noretry; do
        expect "interrupts: breaches: order 3, $class: refused" "$(asks 3 $class 5)" "0, , "
    done
    expect "interrupts: breaches: order 3, waits: given and counted" "$(asks 3 waits 5)" "5, 3+5, 3+5"
    # Larger ones are refused to who only waits.
    for class in atomic noretry waits; do
        expect "interrupts: breaches: order 6, $class: refused" "$(asks 6 $class 5)" "0, , "
    done
    expect "interrupts: breaches: order 6, nofail: given and counted" "$(asks 6 nofail 1)" "1, 6+1, 6+1"
    expect "interrupts: breaches: order 4, nofail: given and counted" "$(asks 4 nofail 7)" "7, 4+7, 4+7"
    refused_in_interrupts 3
    refused_in_interrupts 6
    index_is_right "after breaches"
    # The same requests are nobody's breach when these colors are everybody's again.
    give irq exclusive 0
    expect "interrupts: exclusive no more: order 6, atomic: given" "$(asks 6 atomic 5)" "5, , "
    expect "interrupts: exclusive no more: order 6, nofail: not counted" "$(asks 6 nofail 1)" "1, , "
    rmdir $group
}

of_tasks
exclusive
breaches_are_counted
rmmod irqpages || answer "interrupts: the module is unloaded" "refused"
atomic_blocks
expect "interrupts: no policy is left" "$(left policies)" 0
