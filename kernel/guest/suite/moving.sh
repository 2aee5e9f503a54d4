# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Memory that was there before the colors moves into them, and what others move or fault in keeps them.

# moves SCENARIO CLASSES [FILE|OTHERS]
moves() {
    moving $map "$2" "$1" ${3:+"$3"} >/tmp/moving.$1 2>&1
    expect "moving: $1${3:+, $3}" "$(grep -v '^#' /tmp/moving.$1)" "ok - $1"
    grep '^#' /tmp/moving.$1
}

# would_move SCENARIO CLASSES: what is to stay must be what the kernel would have moved. It does not always want the pages of a
# process moved: another process, then, up to three. In color each must be.
would_move() {
    for _ in 1 2 3; do
        moving $map "$2" "$1" >/tmp/moving.attempt 2>&1
        grep -qE '^not ok .* pages were to (go|move)$' /tmp/moving.attempt || break
    done
    expect "moving: $1" "$(grep -v '^#' /tmp/moving.attempt)" "ok - $1"
    grep '^#' /tmp/moving.attempt
}

for scenario in everything writers changes shared shared-file pinned by-the-piece family races forked-on-the-move ended-but-read \
    huge merged merged-shared merging compaction nodes remote; do
    moves $scenario "$(classes_of_nodes 2 4)"
done
moves threads-differ "$(classes_of_nodes 2 4)" "$(classes_of_nodes 10 4)"
mkdir -p /disk
mount -t ext2 /dev/ram1 /disk
moves shared-file "$(classes_of_nodes 2 4)" /disk/shared
rm /disk/shared
umount /disk
would_move swapped-twice "$(classes_of_nodes 2 4)"
moves full "$(classes_of_nodes 12 1)"
if [ -e /proc/sys/kernel/numa_balancing ] && [ "$nodes" -gt 1 ]; then
    before=$(cat /proc/sys/kernel/numa_balancing)
    echo 1 >/proc/sys/kernel/numa_balancing
    moves balancing "$(classes_of_nodes 2 4)"
    would_move balancing-in-vain "$(classes_of_nodes 2 4 | cut -d , -f 1)"
    echo "$before" >/proc/sys/kernel/numa_balancing
fi
expect "moving: settled in the end" "$(head -n 1 $floor/settled)" "moving 0"
sed 's/^/# moving: /' $floor/moving
