# SPDX-License-Identifier: GPL-2.0-only
#
# Memory that was there before the colors moves into them, and what others move or fault in keeps them.
for scenario in everything writers shared family races huge merged merged-shared merging compaction nodes remote; do
    moving $map "$(classes_of_nodes 2 4)" $scenario >/tmp/moving.$scenario 2>&1
    expect "moving: $scenario" "$(grep -v '^#' /tmp/moving.$scenario)" "ok - $scenario"
    grep '^#' /tmp/moving.$scenario
done
moving $map "$(classes_of_nodes 12 1)" full >/tmp/moving.full 2>&1
expect "moving: full" "$(grep -v '^#' /tmp/moving.full)" "ok - full"
expect "moving: settled in the end" "$(head -n 1 $floor/settled)" "moving 0"
sed 's/^/# moving: /' $floor/moving
