# SPDX-License-Identifier: GPL-2.0-only
#
# Nonsense, and texts that are nearly right, to all files at once.
seconds=$(((${STRESS_SECONDS:-20} + 2) / 3))
seed=$(date +%s)
echo "# fuzz: seed $seed"
fuzz $floor $map $seconds "$seed" >/tmp/fuzz 2>&1
expect "fuzz: ends well" $? 0
sed 's/^/# fuzz: /' /tmp/fuzz
echo none >$floor/auto
echo off >$floor/compat
expect "fuzz: no policy is left" "$(left policies)" 0
echo none >$floor/map
dd if=$map of=$floor/map bs=64k 2>/dev/null
expect "fuzz: the mapping is loaded afterwards" "$(cat $floor/map)" "$(cat $map)"
