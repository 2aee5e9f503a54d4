# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Nonsense, and texts that are nearly right, to all files at once: first to those in debugfs alone, mappings that come and go
# included; then to those of a cgroup as well, which keeps the mapping. That group may have at most two classes of each node for
# itself: somebody else has the others, so that memory is left for everybody.
seconds=$(((${STRESS_SECONDS:-20} + 5) / 6))
seed=$(date +%s)
echo "# fuzz: seed $seed"

# fuzzed NAME SEED [GROUP]: each file has taken some texts, or nothing has been tried.
fuzzed() {
    fuzz $floor $map $seconds "$2" $3 >/tmp/fuzz 2>&1
    expect "fuzz: $1: ends well" $? 0
    sed "s/^/# fuzz: $1: /" /tmp/fuzz
    expect "fuzz: $1: every file has taken something" "$(awk 'NR > 1 && !$2 { print $1 }' /tmp/fuzz)" ""
}

# back NAME: nothing of it is left, and the mapping is the one that everybody else has.
back() {
    echo none >$floor/auto
    echo off >$floor/compat
    expect "fuzz: $1: nothing is under way" "$(head -n 1 $floor/settled)" "moving 0"
    expect "fuzz: $1: no rules, no calls" "$(cat $floor/auto $floor/compat | tr '\n' ' ')" "none off "
    expect "fuzz: $1: no policy is left" "$(left policies)" 0
    echo none >$floor/map
    dd if=$map of=$floor/map bs=64k 2>/dev/null
    expect "fuzz: $1: the mapping is loaded afterwards" "$(cat $floor/map)" "$(cat $map)"
}

fuzzed debugfs "$seed"
back debugfs
echo +memory >$root/cgroup.subtree_control
mkdir $root/fuzz $root/fuzz.others
give fuzz.others bank "$(classes_of_nodes 2 $((per_node - 2)))" || answer "fuzz: others have colors" refused
fuzzed groups $((seed + 1)) $root/fuzz
sed 's/^/# fuzz: /' $root/fuzz/memory.colors.effective $root/fuzz/memory.colors.events
soon rmdir $root/fuzz $root/fuzz.others
expect "fuzz: groups: they are gone" "$(cd $root && ls -d fuzz* 2>/dev/null)" ""
back groups
expect "fuzz: groups: no colors are reserved" "$(grep -c . $floor/exclusive)" "$(grep -c '^breach' $floor/exclusive)"
