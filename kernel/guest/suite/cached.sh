# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Page cache that nobody maps moves into the colors of who has the file open alone, or of the cgroup that pays for it: on a
# disk, in memory, and in huge pages.
pages=2048
echo +memory >$root/cgroup.subtree_control

# fresh FILE [PROGRAM...]: a new file in the page cache, written with the help of the program.
fresh() {
    local file=$1
    shift
    rm -f "$file"
    "$@" dd if=/dev/urandom of="$file" bs=1M count=8 2>/dev/null
    elsewhere "$file"
}

# elsewhere FILE: then $list are the classes, four of each node, in which the fewest of its pages are. At least a half is
# elsewhere, or the test shows nothing.
elsewhere() {
    local file=$1 first classes wrong most=0
    sync
    for first in 0 4 8 12; do
        classes=$(classes_of_nodes $first 4)
        wrong=$(cached count $map "$classes" "$file" | cut -d ' ' -f 2)
        if [ "$wrong" -gt $most ]; then most=$wrong list=$classes; fi
    done
    expect "cached: $file: many pages in other colors before" "$((most > 0 && most * 8192 >= $(stat -c %s "$file")))" 1
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

# forgotten FILE: its pages are in the page cache no more.
forgotten() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    expect "cached: $1: nobody has read it" "$(cached count $map "$list" "$1")" "0 0"
}

# On a disk, pages of a file are of who reads it first, what is read ahead for him as well.
fresh /disk/file
forgotten /disk/file
dd if=/disk/file of=/dev/null bs=64k 2>/dev/null
expect "cached: read first by who has none" "$(cached count $map "$list" /disk/file | awk '{ print $1, ($2 > 0) }')" "$pages 1"
forgotten /disk/file
(colored "strict $list" dd if=/disk/file of=/dev/null bs=64k 2>/dev/null)
expect "cached: read first by who has colors" "$(cached count $map "$list" /disk/file)" "$pages 0"
forgotten /disk/file
(colored "strict $list" dd if=/disk/file of=/dev/null bs=4k count=1 2>/dev/null)
cached count $map "$list" /disk/file >/tmp/ahead
expect "cached: read ahead for who has colors" "$(awk '{ print ($1 > 1), $2 }' /tmp/ahead)" "1 0"
(colored "strict $list" cached touch $map "$list" /disk/file)
expect "cached: read by who has it mapped" "$(cached count $map "$list" /disk/file)" "$pages 0"

# A program that nobody has executed before: its text, and what its data are copied from.
cp /bin/held /disk/program
forgotten /disk/program
# It is given what was freed last, a file's pages in the colors that this had: only then are other colors to be told.
/disk/program $map all text >/tmp/out 2>&1
expect "cached: executed first by who has none: it runs" "$(cat /tmp/out)" "ok - text"
cat /disk/program >/dev/null
elsewhere /disk/program
/disk/program $map "$list" text >/tmp/out 2>&1
expect "cached: executed first by who has none" "$(sed 's/# .* out of color$/# out of color/' /tmp/out)" "not ok - text # out of color"
forgotten /disk/program
(colored "strict $list" /disk/program $map "$list" text data exec) >/tmp/out 2>&1
expect "cached: executed first by who has colors" "$(grep -v '^#' /tmp/out | tr '\n' ' ')" \
    "ok - text ok - data ok - data ok - stack ok - exec "
expect "cached: executed first by who has colors: all that is cached" \
    "$(cached count $map "$list" /disk/program | awk '{ print ($1 > 100), $2 }')" "1 0"
rm /disk/program

echo 2 >/proc/sys/vm/nr_hugepages
expect "cached: pages of hugetlbfs stay, and are counted" "$(cached hugetlb $map "$list")" "filled, and counted"
echo 0 >/proc/sys/vm/nr_hugepages
expect "cached: pages of hugetlbfs go back" "$(awk '$1 == "HugePages_Total:" { print $2 }' /proc/meminfo)" 0

mkdir $root/reader
for file in /disk/file /tmp/file /memory/file; do
    fresh $file cgroup enter $root/reader
    for classes in "$list" "$(classes_of_nodes 2 4)" "$(classes_of_nodes 8 4)"; do
        give reader bank "$classes"
        expect "cached: $file: settled" "$(head -n 1 $floor/settled)" "moving 0"
        expect "cached: $file: of a group that gets $classes" "$(cached count $map "$classes" $file)" "$pages 0"
    done
    expect "cached: $file: of a group, the same content" "$(md5sum -c /tmp/sum 2>&1)" "$file: OK"
    give reader bank ""
done
# The group has not read this one.
fresh /disk/file
cached count $map "$list" /disk/file >/tmp/before
give reader bank "$list"
expect "cached: somebody else's: settled" "$(head -n 1 $floor/settled)" "moving 0"
expect "cached: somebody else's stays" "$(cached count $map "$list" /disk/file)" "$(cat /tmp/before)"
sed 's/^/# cached: /' $floor/moving
rm -f /disk/file /tmp/file /memory/file
rmdir $root/reader
umount /disk
umount /memory
