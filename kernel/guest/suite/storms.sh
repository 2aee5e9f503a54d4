# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154,SC2046 # test.sh sets what is not set here; words are split on purpose
#
# Storms of short processes, under several policies and none at once; then storms of policies that are made and dropped while
# the mapping is loaded and unloaded under them.
seconds=$(((${STRESS_SECONDS:-20} + 2) / 3))
killed=$(awk '$1 == "killed" { print $2 }' $floor/stat)
for first in 0 4 6 none; do
    (
        list=all
        if [ $first != none ]; then
            list=$(classes_of_nodes $first 4)
            echo "strict $list" >$floor/task
        fi
        storms $map "$list" $seconds 1$first >/tmp/storms.$first 2>&1
        echo "ended with $?" >>/tmp/storms.$first
    ) &
done
wait
for first in 0 4 6 none; do
    expect "storms: classes from $first on" "$(grep -v '^storms' /tmp/storms.$first | head -n 3)" "ended with 0"
done
echo "# storms: $(cat /tmp/storms.* | awk '$1 == "storms" { sum += $2 } END { print sum }') processes"
expect "storms: nobody is killed" "$(awk '$1 == "killed" { print $2 }' $floor/stat)" "$killed"
expect "storms: no policy is left" "$(left policies)" 0

# Once more while its group has to give pages back, most of them to swap: what is read again is as it was, and in its classes.
beside_reclaim() {
    local list group=$root/reclaimed
    list=$(classes_of_nodes 8 4)
    rm -f /tmp/reclaimed.enough
    mkdir $group
    (
        echo "strict $list" >$floor/task
        cgroup enter $group storms $map "$list" $((seconds / 6 + 2)) 2 >>/tmp/storms.reclaimed 2>&1
        echo "ended with $?" >>/tmp/storms.reclaimed
        touch /tmp/reclaimed.enough
    ) &
    while [ ! -e /tmp/reclaimed.enough ]; do echo 4M 2>/dev/null >$group/memory.reclaim; done
    wait
    soon rmdir $group
}

# read_again: pages that have come back from swap.
read_again() {
    awk '$1 == "pswpin" { print $2 }' /proc/vmstat
}

# How many are read again in one round depends on how fast the machine is.
echo +memory >$root/cgroup.subtree_control
swapped=$(read_again) rounds=0
while [ $rounds -lt 20 ] && [ $(($(read_again) - swapped)) -lt 256 ]; do
    beside_reclaim
    rounds=$((rounds + 1))
done
expect "storms: beside reclaim" "$(grep -v '^storms' /tmp/storms.reclaimed | sort -u | head -n 3)" "ended with 0"
swapped=$(($(read_again) - swapped))
echo "# storms: beside reclaim: $(awk '$1 == "storms" { sum += $2 } END { print sum }' /tmp/storms.reclaimed) processes in $rounds rounds," \
    "$swapped pages were read again"
expect "storms: beside reclaim, pages are read again" "$([ $swapped -ge 256 ] && echo many || echo $swapped)" many

# A policy is of the mapping that is in use: either there is none, and no policy is given; or it stays while the policy does.
policies_come_and_go() {
    local began
    while [ ! -e /tmp/reloads.enough ]; do
        began=$(date +%s)
        (
            echo "strict $1" >$floor/task || exit 3
            [ "$(cat $floor/map)" = "$(cat $map)" ] || { echo "not ok: a policy without its mapping"; exit 1; }
            storms $map "$1" once 1 || { echo "not ok: out of color"; exit 1; }
            echo none >$floor/map && { echo "not ok: unloaded in use"; exit 1; }
            echo none >$floor/task
        ) 2>/dev/null
        case $? in
            0) echo given ;;
            3) echo not-given ;;
            *) break ;;
        esac
        # A moment without policies, now and then: as long as one with them, or on a busy host both are hardly ever away.
        usleep 200000
        sleep $(($(date +%s) - began))
    done
}
mappings_come_and_go() {
    while [ ! -e /tmp/reloads.enough ]; do
        if echo none >$floor/map; then echo unloaded; else echo not-unloaded; fi
        usleep 50000
        # While there is a policy: `mapping: not reloaded while in use` is sure to meet one.
        dd if=$map of=$floor/map bs=64k && echo loaded
        # As long with as without: on a busy host hardly a policy comes into a shorter while.
        usleep 50000
    done 2>/dev/null
}
for number in 1 2; do
    policies_come_and_go "$(classes_of_nodes $number 4)" >/tmp/reloads.$number &
done
mappings_come_and_go >/tmp/reloads.3 &
{ held $map all churn fork-storm; echo "ended with $?"; } >/tmp/held.reloads 2>&1 &
# For so long, and on a busy host until all that can happen has happened.
kinds="given loaded not-given not-unloaded unloaded"
sleep $seconds
for _ in $(seq 60); do
    [ "$(echo $(sort -u /tmp/reloads.?))" = "$kinds" ] && break
    sleep 1
done
touch /tmp/reloads.enough
wait
echo "# storms: $(sort /tmp/reloads.? | uniq -c | awk '{ printf "%s%s %d", comma, $2, $1; comma = ", " }')"
expect "storms: policies while the mapping is reloaded" "$(grep -h '^not ok' /tmp/reloads.? | head -n 3)" ""
expect "storms: each of these came about" "$(echo $(sort -u /tmp/reloads.?))" "$kinds"
expect "storms: uncolored tasks meanwhile" "$(grep -v '^ok' /tmp/held.reloads)" "ended with 0"
# As it was.
dd if=$map of=$floor/map bs=64k 2>/dev/null
expect "storms: the mapping is loaded afterwards" "$(cat $floor/map)" "$(cat $map)"
