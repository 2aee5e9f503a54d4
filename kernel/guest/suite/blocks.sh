# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Blocks of several pages: given to a task with colors where all of a block has them, and refused and counted otherwise.
sizes=/sys/kernel/mm/transparent_hugepage

# The classes of the frames of the aligned block of so many pages that holds a frame in the middle of memory, as a list.
classes_of_block() {
    local frame=$((0x18000 / $1 * $1))
    seq $frame $((frame + $1 - 1)) | colors $map | tail -n +2 | cut -d ' ' -f 1 | sort -nu | tr '\n' ',' | sed 's/,$//'
}

# blocks_are NAME CLASSES FOUND...: a test of blocks in a policy of these classes.
blocks_are() {
    local name=$1 list=$2
    (colored "strict $list" blocks $map "$list") >/tmp/out 2>&1
    expect "blocks: $name: no page of another class" "$(awk '{ wrong += $5 } END { print NR, wrong }' /tmp/out)" "3 0"
    sed "s/^/# blocks: $name: /" /tmp/out
}

echo never >$sizes/hugepages-2048kB/enabled
for pages in 4 16; do
    list=$(classes_of_block $pages)
    count=$(echo "$list" | tr ',' '\n' | wc -l)
    echo "# blocks of $pages pages have $count classes: $list"
    echo madvise >$sizes/hugepages-$((4 * pages))kB/enabled
    blocks_are "$pages pages" "$list"
    expect "blocks: $pages pages: all memory is in them" "$(awk '$1 == "filled" { print ($3 >= 2048) }' /tmp/out)" 1
    [ $count = 1 ] || {
        # One class less, and no block has the rest throughout.
        refused=$(awk '$1 == "refused" { print $2 }' $floor/stat)
        blocks_are "$pages pages, one class too few" "${list#*,}"
        expect "blocks: $pages pages, one class too few: none" "$(awk '$1 == "filled" { print $3 }' /tmp/out)" 0
        expect "blocks: $pages pages, one class too few: counted" \
            "$(awk -v before="$refused" '$1 == "refused" { print ($2 > before) }' $floor/stat)" 1
    }
    echo never >$sizes/hugepages-$((4 * pages))kB/enabled
done
echo inherit >$sizes/hugepages-2048kB/enabled
# All classes of a node are in every huge page of it, and no other.
list=$(classes_of_nodes 0 $per_node | cut -d , -f 1)
blocks_are "huge pages of a node" "$list"
expect "blocks: huge pages of a node: some" "$(awk '$1 == "filled" { print ($3 > 0) }' /tmp/out)" 1

# Pages that become huge later: in the colors of the process, or not at all.
# collapses NAME CLASSES WAY FOUND: a test of it; FOUND is 1 when some are to be huge.
collapses() {
    (colored "strict $2" blocks $map "$2" "$3") >/tmp/out 2>&1
    expect "blocks: $1: no page of another class" "$(awk '{ wrong += $5 } END { print NR, wrong }' /tmp/out)" "2 0"
    expect "blocks: $1: huge pages" "$(awk '{ print ($3 > 0) }' /tmp/out | tr '\n' ' ')" "0 $4 "
}
collapses "collapse" "$list" collapse 1
collapses "collapse, one class too few" "${list%%-*}-$((per_node - 2))" collapse 0
echo 0 >$sizes/khugepaged/scan_sleep_millisecs
collapses "khugepaged" "$list" khugepaged 1
rm /tmp/out
(collapses "khugepaged, one class too few" "${list%%-*}-$((per_node - 2))" khugepaged 0 >/tmp/few) &
soon grep -q '^filled' /tmp/out
blocks $map all khugepaged >/tmp/out.others
# All the while somebody was there with one class too few, and waits still.
expect "blocks: khugepaged goes on for others" \
    "$(awk '{ print ($3 > 0) }' /tmp/out.others | tr '\n' ' ')$(grep -c '^collapsed' /tmp/out)" "0 1 0"
wait
cat /tmp/few
echo 10000 >$sizes/khugepaged/scan_sleep_millisecs

# The pool of hugetlb is everybody's: who fills it does so without its colors.
(colored "strict 0" sh -c 'echo 3 >/proc/sys/vm/nr_hugepages')
expect "blocks: the pool of hugetlb is filled" "$(cat /proc/sys/vm/nr_hugepages)" 3
echo 0 >/proc/sys/vm/nr_hugepages

# loads MAPPING: in place of the one in use, once nobody has a policy of that.
loads() {
    left policies >/dev/null
    dd if="$1" of=$floor/map bs=64k 2>/dev/null
    expect "blocks: in use is $1" "$(cat $floor/map)" "$(cat "$1")"
}

# In that mapping, every huge page has all classes of its node. With one function more, of the bit above a huge page, it has one
# half of them or the other: colors have huge pages, but not all that there are.
whole=$map map=/tmp/map.halves
awk '/^bank/ { seen = 1 } !/^bank/ && seen { print "bank 0x200000"; seen = 0 } { print }' $whole >$map
loads $map
index_is_right "with halves"
list=$(classes_of_block 512)
echo "# blocks: halves: a huge page has the classes $list"
expect "blocks: halves: a huge page has half of the classes" "$(echo "$list" | tr ',' '\n' | wc -l) $(colors $map </dev/null)" \
    "$per_node $((2 * per_node * nodes)) 1"
blocks_are "halves" "$list"
expect "blocks: halves: some are huge" "$(awk '$1 == "filled" { print ($3 > 0) }' /tmp/out)" 1
grows_or_not "blocks: halves, one class too few: counted" refused $floor/stat 1 blocks_are "halves, one class too few" "${list#*,}"
expect "blocks: halves, one class too few: none" "$(awk '{ huge += $3 } END { print NR, huge }' /tmp/out)" "3 0"
collapses "halves, collapse" "$list" collapse 1
collapses "halves, collapse, one class too few" "${list#*,}" collapse 0
echo 0 >$sizes/khugepaged/scan_sleep_millisecs
collapses "halves, khugepaged" "$list" khugepaged 1
collapses "halves, khugepaged, one class too few" "${list#*,}" khugepaged 0
echo 10000 >$sizes/khugepaged/scan_sleep_millisecs
held_with "strict $list" "blocks: halves" "$list" anonymous copy-on-write huge
map=$whole
loads $map
