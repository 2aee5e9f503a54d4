# SPDX-License-Identifier: GPL-2.0-only
#
# Page cache that nobody maps moves into the colors of who has the file open alone, or of the cgroup that pays for it: on a
# disk, in memory, and in huge pages.
root=/sys/fs/cgroup
pages=2048
echo +memory >$root/cgroup.subtree_control

# fresh FILE [PROGRAM...]: a new file in the page cache, written with the help of the program. Then $list are the classes, four
# of each node, in which the fewest of its pages are. At least a half is elsewhere, or the test shows nothing.
fresh() {
    local file=$1 first classes wrong most=0
    shift
    rm -f "$file"
    "$@" dd if=/dev/urandom of="$file" bs=1M count=8 2>/dev/null
    sync
    for first in 0 4 8 12; do
        classes=$(classes_of_nodes $first 4)
        wrong=$(cached count $map "$classes" "$file" | cut -d ' ' -f 2)
        if [ "$wrong" -gt $most ]; then most=$wrong list=$classes; fi
    done
    expect "cached: $file: many pages in other colors before" "$((most >= pages / 2))" 1
    md5sum "$file" >/tmp/sum
}

mkdir -p /disk /memory
mount -t ext2 /dev/ram1 /disk
mount -t tmpfs -o huge=always none /memory
for file in /disk/file /tmp/file; do
    fresh $file
    cached opened $map "$list" $file >/tmp/opened
    expect "cached: $file: open in one process" "$(tail -n 1 /tmp/opened)" "$pages 0"
    expect "cached: $file: nothing else moved it" "$(cached count $map "$list" $file)" "$pages 0"
    expect "cached: $file: the same content" "$(md5sum -c /tmp/sum 2>&1)" "$file: OK"
    fresh $file
    cached opened-beside $map "$list" $file >/tmp/opened
    expect "cached: $file: open in two stays" "$(sed -n 2p /tmp/opened)" "$(sed -n 1p /tmp/opened)"
    expect "cached: $file: open in two is counted" \
        "$(awk 'NR == 2 { wrong = $2 } NR == 3 { print ($1 >= wrong) ? "all" : $1 " of " wrong }' /tmp/opened)" all
done

echo 1 >/proc/sys/vm/nr_hugepages
expect "cached: pages of hugetlbfs stay" "$(cached hugetlb $map "$list")" filled
echo 0 >/proc/sys/vm/nr_hugepages
expect "cached: pages of hugetlbfs go back" "$(awk '$1 == "HugePages_Total:" { print $2 }' /proc/meminfo)" 0

mkdir $root/reader
for file in /disk/file /tmp/file /memory/file; do
    fresh $file cgroup enter $root/reader
    for classes in "$list" "$(classes_of_nodes 2 4)" "$(classes_of_nodes 8 4)"; do
        echo "$classes" >$root/reader/memory.colors.bank
        expect "cached: $file: settled" "$(head -n 1 $floor/settled)" "moving 0"
        expect "cached: $file: of a group that gets $classes" "$(cached count $map "$classes" $file)" "$pages 0"
    done
    expect "cached: $file: of a group, the same content" "$(md5sum -c /tmp/sum 2>&1)" "$file: OK"
    echo >$root/reader/memory.colors.bank
done
# The group has not read this one.
fresh /disk/file
cached count $map "$list" /disk/file >/tmp/before
echo "$list" >$root/reader/memory.colors.bank
expect "cached: somebody else's: settled" "$(head -n 1 $floor/settled)" "moving 0"
expect "cached: somebody else's stays" "$(cached count $map "$list" /disk/file)" "$(cat /tmp/before)"
sed 's/^/# cached: /' $floor/moving
rm -f /disk/file /tmp/file /memory/file
rmdir $root/reader
umount /disk
umount /memory
