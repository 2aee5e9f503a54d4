# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154,SC2046 # test.sh sets what is not set here; words are split on purpose
#
# memtint run on this floor: static programs and pipelines, plans, out of color, mappings that are not there, differ or are in
# use; and the same with its userspace runtime, where the two must agree.
run_four=$(classes_of_nodes 2 4)
run_one=$(classes_of_nodes 12 1)
run_group=$root/run
export MEMTINT_PLATFORM=/tmp/here.toml
mkdir $run_group

# value FILE NAME: the first value of that name in a JSON file.
value() {
    tr -d '", ' <"$1" | sed -n "s/^$2://p" | head -n 1
}

# names FILE: all names in it, once.
names() {
    grep -o '"[a-z_]*":' "$1" | sort -u | tr -d '\n'
}

# top_names FILE: the outermost of them.
top_names() {
    grep -o '^  "[a-z_]*":' "$1" | tr -d ' \n'
}

# run_in FLOOR OPTION... -- COMMAND...: its words in /tmp/run.out, its report in /tmp/run.json.
run_in() {
    local floor=$1
    shift
    rm -f /tmp/run.json
    memtint run --floor $floor --report /tmp/run.json "$@" >/tmp/run.out 2>&1
}

# told FLOOR VERDICT: what the last report says of both.
told() {
    expect "run: report of $1: $2" "$(value /tmp/run.json floor) $(value /tmp/run.json verdict)" "$1 $2"
}

# refused NAME WORDS COMMAND...: memtint fails, for a reason with these words.
refused() {
    local name=$1 words=$2
    shift 2
    "$@"
    expect "run: $name: status" $? 125
    grep -q -- "$words" /tmp/run.out && answer "run: $name: reason" || answer "run: $name: reason" "$(cat /tmp/run.out)"
}

# in_pipeline: all programs that the shell starts are there. What is forked and no more than that, memtint takes for itself.
in_pipeline() {
    [ "$(cat $(sed 's|.*|/proc/&/comm|' $run_group/cgroup.procs) | grep -cxE 'cat|sort|md5sum')" = 3 ]
}

# watched FLOOR OUT OPTIONS COMMAND: a pipeline in color, looked at from outside as a whole while it waits.
watched() {
    local front
    rm -f /tmp/wait && mkfifo /tmp/wait
    (
        sh -c 'echo $$ >"$0"/cgroup.procs; exec "$@"' $run_group memtint run --floor "$1" $3 -- sh -c "$4" >/tmp/run.out 2>&1
        result=$?
        : <>/tmp/wait
        exit $result
    ) &
    front=$!
    # Opens when somebody reads: the pipeline, or who finds it ended without.
    exec 4>/tmp/wait
    soon in_pipeline
    memtint inspect $3 --cgroup $run_group --format json >"$2"
    exec 4>&-
    wait $front
    expect "run: $1: status of a pipeline" $? 0
}

programs_in_color() {
    held_in_run kernel "anonymous heap stack data churn threads copy-on-write fork-storm exec swap huge"
    # Pages that a fork shares are copied out of color by a kernel that does not know better.
    held_in_run user "anonymous heap stack data churn"
}

held_in_run() {
    run_in $1 --banks "$run_four" -- held $map "$run_four" $2
    expect "run: $1: status of held" $? 0
    sed -nE "s/^(ok|not ok) - /\1 - run: $1: /p" /tmp/run.out
    told $1 held
    [ "$(value /tmp/run.json pages_in_color)" -gt 4096 ] && answer "run: $1: pages are counted" ||
        answer "run: $1: pages are counted" "$(cat /tmp/run.json)"
    mv /tmp/run.json /tmp/report.$1
}

pipelines_in_color() {
    local pipeline='(seq 20000; cat /tmp/wait) | sort -n | md5sum'
    for floor_of_run in kernel user; do
        watched $floor_of_run /tmp/seen.$floor_of_run "--banks $run_four" "$pipeline"
        expect "run: $floor_of_run: what a pipeline says" "$(grep -v '^memtint' /tmp/run.out)" "$(seq 20000 | md5sum)"
    done
    expect "run: a pipeline from outside" "$(value /tmp/seen.kernel verdict)" held
    # The shell, cat, sort and md5sum; on both floors, whose verdicts differ in what a fork shares.
    for floor_of_run in kernel user; do
        expect "run: $floor_of_run: all of a pipeline is looked at" "$(grep -c '"threads"' /tmp/seen.$floor_of_run)" 4
    done
}

# Both tasks of a plan at once, each looked at from outside while it waits; the verdicts in one line.
plan_on() {
    local first second line=
    memtint run --floor $1 --system /tmp/plan.toml --task first --report /tmp/first.$1.json -- \
        pressure $map "$run_four" 12 all >/tmp/first.out 2>&1 &
    first=$!
    memtint run --floor $1 --system /tmp/plan.toml --task second --report /tmp/second.$1.json -- \
        pressure $map "$run_one" 12 all >/tmp/second.out 2>&1 &
    second=$!
    for task in first second; do
        while ! grep -q 'swapped out' /tmp/$task.out && kill -0 $first && kill -0 $second; do sleep 1; done
    done
    for pair in first:$run_four:first second:$run_one:second first:$run_four:second; do
        line="$line $(seen_of "$1" "${pair%%:*}" "${pair##*:}")"
    done
    kill -TERM $first $second
    wait $first
    line="$line $?"
    wait $second
    echo "$line $? $(value /tmp/first.$1.json verdict) $(value /tmp/second.$1.json verdict)"
}

# seen_of FLOOR TASK AS: verdict on the pages of a task by the colors of a task, and whether they are all in color.
seen_of() {
    local pid
    for pid in $(pidof pressure); do
        grep -q -- "$(sed -n "s/^$2 //p" /tmp/plan.colors)" /proc/$pid/cmdline && break
    done
    memtint inspect --system /tmp/plan.toml --task $3 --format json $pid >/tmp/seen.$1.$2
    [ "$(grep -o '"in_color_pages": [0-9]*' /tmp/seen.$1.$2 | head -n 1 | tr -dc 0-9)" = \
        "$(grep -A1 '"private"' /tmp/seen.$1.$2 | tr -dc 0-9)" ] && echo "$(value /tmp/seen.$1.$2 verdict):all" ||
        echo "$(value /tmp/seen.$1.$2 verdict):some"
}

plans() {
    cat >/tmp/plan.toml <<TOML
schema = 1
platform = "/tmp/here.toml"

[[task]]
name = "first"
banks = "$run_four"

[[task]]
name = "second"
banks = "$run_one"
mode = "soft"
TOML
    printf 'first %s\nsecond %s\n' "$run_four" "$run_one" >/tmp/plan.colors
    plan_on kernel >/tmp/plan.kernel
    plan_on user >/tmp/plan.user
    expect "run: a plan on the kernel floor" "$(cat /tmp/plan.kernel)" " held:all held:all violated:some 143 143 held held"
    expect "run: a plan has the same verdicts on both floors" "$(cat /tmp/plan.user)" "$(cat /tmp/plan.kernel)"
    # Not their values, nor what is below an address space or the kernel's word.
    expect "run: reports have the same names on both floors" "$(top_names /tmp/first.kernel.json)" "$(top_names /tmp/first.user.json)"
    expect "run: inspect has the same names on both floors" "$(names /tmp/seen.kernel.second)" "$(names /tmp/seen.user.second)"
}

# short_on FLOOR: two tasks of a plan, one after the other, that want more than is left of their one class; the verdicts, and in
# /tmp/short.FLOOR how each has ended.
short_on() {
    local more
    more=$(($(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16) }' /proc/meminfo) * 80 / 100))
    rm -f /tmp/soft.$1.json /tmp/strict.$1.json
    memtint run --floor $1 --system /tmp/short.toml --task soft --report /tmp/soft.$1.json -- \
        pressure $map all $more >/tmp/soft.$1.out 2>&1
    echo "soft $?" >/tmp/short.$1
    memtint run --floor $1 --system /tmp/short.toml --task strict --report /tmp/strict.$1.json -- \
        held $map "$run_one" exhausted >/tmp/strict.$1.out 2>&1
    echo "strict $?" >>/tmp/short.$1
    echo "$(value /tmp/soft.$1.json verdict) $(value /tmp/strict.$1.json verdict)"
}

# Who is refused ends by SIGKILL on the kernel floor, and by SIGBUS on the other. There is no swap space:
# what is swapped out and read again is out of color on the user floor, which is a violation of its own. And somebody has most of the
# memory, of these classes as of others: the user floor looks at all of the rest, and leaves a 16th of all to others.
plans_short_of_color() {
    local floor_of_run task others
    cat >/tmp/short.toml <<TOML
schema = 1
platform = "/tmp/here.toml"

[[task]]
name = "soft"
banks = "$(classes_of_nodes 13 1)"
mode = "soft"

[[task]]
name = "strict"
banks = "$run_one"
TOML
    swapoff /dev/ram0 || answer "run: a plan short of color: no swap space" "swapoff"
    rm -f /tmp/others
    cgroup grow $(awk '$1 == "MemTotal:" { left = $2 / 16 } $1 == "MemAvailable:" { print int(($2 - left) / 1024 - 300) }' /proc/meminfo) \
        stay >/tmp/others 2>&1 &
    others=$!
    while ! grep -q grown /tmp/others && kill -0 $others 2>/dev/null; do sleep 0.2; done
    for floor_of_run in kernel user; do
        short_on $floor_of_run >/tmp/short.verdicts
        expect "run: a plan short of color: verdicts on the $floor_of_run floor" "$(cat /tmp/short.verdicts)" "violated refused"
        echo "# run: $floor_of_run: strict: pages out of color: $(value /tmp/strict.$floor_of_run.json pages_out_of_color)," \
            "$(tr -d '\n' </tmp/strict.$floor_of_run.json | grep -o '"causes": [^]]*')"
        for task in soft strict; do
            sed -n "/^# filled/d; s/^/# run: $floor_of_run: $task: /p" /tmp/$task.$floor_of_run.out | tail -n 3
        done
    done
    expect "run: a plan short of color: how it ends on the kernel floor" "$(tr '\n' ' ' </tmp/short.kernel)" "soft 0 strict 137 "
    expect "run: a plan short of color: how it ends on the user floor" "$(tr '\n' ' ' </tmp/short.user)" "soft 0 strict 135 "
    expect "run: a plan short of color: others keep their memory" "$(cat /tmp/others) $(kill $others && echo lives)" "grown lives"
    wait $others
    swapon /dev/ram0 || answer "run: a plan short of color: the swap space is back" "swapon"
}

out_of_color_in_run() {
    local more=$(($(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16) }' /proc/meminfo) * 140 / 100))
    run_in kernel --banks "$run_one" -- held $map "$run_one" exhausted
    expect "run: kernel: out of color, strict: status" $? 137
    told kernel refused
    grep -q 'no page in bank classes .* was left.*ended a process' /tmp/run.out && answer "run: out of color is said" ||
        answer "run: out of color is said" "$(cat /tmp/run.out)"
    run_in kernel --soft --banks "$run_one" -- pressure $map all $more
    expect "run: kernel: out of color, soft: status" $? 0
    told kernel violated
    run_in kernel --banks "$run_one" -- sh -c "held $map $run_one exhausted; echo went on with \$?"
    expect "run: kernel: out of color in a child: the parent goes on" "$(grep -c 'went on with 137' /tmp/run.out)" 1
    told kernel refused
}

endings() {
    run_in kernel --banks "$run_four" -- sh -c 'exit 7'
    expect "run: exit status" $? 7
    run_in kernel --banks "$run_four" -- sh -c 'kill -TERM $$'
    expect "run: signal" $? 143
    run_in kernel --banks "$run_four" -- /nowhere
    expect "run: no such program" $? 127
    run_in kernel --banks "$run_four" --user root --cores 0 -- sh -c 'ls /proc/$$/fd; true'
    expect "run: as a user, on a core" $? 0
    expect "run: no file is left open in the program" "$(grep -c '^[3-9]' /tmp/run.out)" 0
    refused "--prefault" "--prefault has no meaning" run_in kernel --banks "$run_four" --prefault 1M -- true
    refused "--no-children" "--no-children has no meaning" run_in auto --banks "$run_four" --no-children -- true
    expect "run: nobody is left with colors" "$(left policies)" 0
}

mappings_of_run() {
    # Loaded by somebody else: stays.
    run_in auto --banks "$run_four" -- true
    expect "run: a mapping that is there is used" "$(value /tmp/run.json mapping_loaded) $(cat $floor/map | wc -l)" \
        "false $(wc -l <$map)"
    # The last line that is a function of banks is missing in each region: half of the classes.
    awk '{ lines[NR] = $0; if ($1 == "bank") last = $2 } END { for (i = 1; i <= NR; i++) if (lines[i] != "bank " last) print lines[i] }' \
        $map >/tmp/half
    dd if=/tmp/half of=$floor/map bs=64k 2>/dev/null
    refused "another mapping" 'another mapping than that of platform .*line [0-9]* is .* wanted is "bank 0x.*it is not in use' \
        run_in auto --banks "$run_four" -- true
    (colored "strict 0" sleep 60) &
    soon grep -qx 'policies 1' $floor/stat
    refused "another mapping in use" "it is in use" run_in kernel --banks "$run_four" -- true
    kill $(pidof sleep)
    wait
    expect "run: another mapping is not replaced" "$(cat $floor/map)" "$(cat /tmp/half)"
    # None: loaded, and unloaded at the end.
    echo none >$floor/map
    run_in auto --banks "$run_four" -- cmp $floor/map $map
    expect "run: a mapping that is missing is loaded" "$? $(value /tmp/run.json mapping_loaded)" "0 true"
    expect "run: and unloaded" "$(cat $floor/map) $(value /tmp/run.json mapping_unloaded)" "none true"
    # Somebody else has colors at the end.
    run_in auto --banks "$run_four" -- sh -c "(exec 1>&- 2>&-; sleep 60) & echo"
    expect "run: a mapping in use stays" "$(value /tmp/run.json mapping_unloaded) $(wc -l <$floor/map)" "false $(wc -l <$map)"
    kill $(pidof sleep)
    left policies >/dev/null
    echo none >$floor/map
    # Many at once: each finds the mapping, whoever loads and unloads it.
    rm -f /tmp/race.*
    for racer in 1 2 3 4 5 6; do
        memtint run --banks "$run_four" -- sh -c 'echo ran' >/tmp/race.$racer 2>&1 &
    done
    wait
    expect "run: six at once" "$(cat /tmp/race.* | grep -c '^ran$')" 6
    echo none >$floor/map
    dd if=$map of=$floor/map bs=64k 2>/dev/null
}

# By a cgroup of its own, where the kernel has the files.
run_in_a_cgroup() {
    echo +memory >$root/cgroup.subtree_control
    # With processes in it at the end, a run leaves its group behind.
    rmdir $root/memtint-* 2>/dev/null
    if [ -e $run_group/memory.colors.bank ]; then
        run_in kernel --banks "$run_four" -- held $map "$run_four" anonymous heap stack data copy-on-write exec
        expect "run: in a cgroup: status" $? 0
        expect "run: in a cgroup: interface" "$(value /tmp/run.json interface)" cgroup
        told kernel held
        expect "run: in a cgroup: it is gone" "$(ls -d $root/memtint-* 2>/dev/null)" ""
        run_in kernel --banks "$run_one" -- held $map "$run_one" exhausted
        expect "run: in a cgroup: out of color: status" $? 137
        told kernel refused
        run_in kernel --banks "$run_four" -- sh -c '(exec 1>&- 2>&-; sleep 60) & echo'
        expect "run: in a cgroup: who is left is counted" "$(value /tmp/run.json still_running)" 1
        kill $(pidof sleep)
        soon rmdir $root/memtint-*
    else
        echo "# run: no files memory.colors in this kernel"
    fi
    rmdir $run_group
    echo -memory >$root/cgroup.subtree_control
}

programs_in_color
pipelines_in_color
plans
plans_short_of_color
out_of_color_in_run
endings
mappings_of_run
run_in_a_cgroup
unset MEMTINT_PLATFORM
