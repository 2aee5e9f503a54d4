# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Who holds the lock of an address space, for ever if need be, keeps that one's pages where they are, and nobody else's.
# holdlock.ko does so.
holdlock=/sys/kernel/debug/holdlock/pid
list=$(classes_of_nodes 2 4)

insmod /bin/holdlock.ko || answer "locked: the module is loaded" "refused"
echo +memory >$root/cgroup.subtree_control
mkdir $root/locked
give locked bank "$list"
mkfifo /tmp/locked.end

# sits: a program with memory of all colors, that waits; its number is in /tmp/locked.pid.
sits() {
    rm -f /tmp/locked.pid
    sh -c 'x=$(seq 20000); echo $$ >/tmp/locked.pid; read -r _ </tmp/locked.end' &
    soon test -s /tmp/locked.pid
}

verdict_of() {
    memtint inspect "$1" --platform /tmp/here.toml --banks "$list" --format json | tr -d ' ,"' | grep '^verdict'
}

# only_left PID: nothing is under way but its address space.
only_left() {
    [ "$(head -n 1 $floor/moving)" = "moving 1" ] && grep -q "^process $1 " $floor/moving
}

sits
held_one=$(cat /tmp/locked.pid)
sits
other=$(cat /tmp/locked.pid)
expect "locked: a program is out of color at first" "$(verdict_of $other)" verdict:violated
echo $held_one >$holdlock
echo $held_one >$root/locked/cgroup.procs
echo $other >$root/locked/cgroup.procs
soon only_left $held_one
expect "locked: the others are moved meanwhile" "$(only_left $held_one && verdict_of $other)" verdict:held
echo 0 >$holdlock
expect "locked: it is moved when the lock is free" "$(head -n 1 $floor/settled) $(verdict_of $held_one)" "moving 0 verdict:held"

# Given up at last, and counted.
locked=$(awk '$1 == "locked" { print $2 }' $floor/moving)
sits
held_one=$(cat /tmp/locked.pid)
echo $held_one >$holdlock
echo $held_one >$root/locked/cgroup.procs
expect "locked: whoever waits until all is done is told" "$(head -n 1 $floor/settled)" "moving 0"
expect "locked: counted" "$(awk -v before="$locked" '$1 == "locked" { print $2 - before }' $floor/moving)" 1
echo 0 >$holdlock
expect "locked: its pages are where they were" "$(verdict_of $held_one)" verdict:violated
give locked bank ""
give locked bank "$list"
expect "locked: colors that are given again move it" "$(head -n 1 $floor/settled) $(verdict_of $held_one)" "moving 0 verdict:held"

exec 4<>/tmp/locked.end
printf '\n\n\n' >&4
wait
exec 4<&-
rmmod holdlock
soon rmdir $root/locked || answer "locked: the group is removed" "it is not"
rm /tmp/locked.*
