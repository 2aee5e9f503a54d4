# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# An area of the contiguous memory allocator, which the machine has where its kernel is started with cma=: who is given its pages,
# and what becomes of them when all of it is wanted.

area=/sys/kernel/debug/cma/reserved
list=$(classes_of_nodes 8 4)

if [ -d $area ]; then
    said cma cma $map "$list" $area colored
    index_is_right "after colored pages beside the area"
    said cma cma $map all $area uncolored
    index_is_right "while the area is allocated"
    said "cma: the area allocated" cma $map "$list" $area colored
    cat $area/count >$area/free
    expect "cma: given back" "$(cat $area/used)" 0
    index_is_right "after the area is given back"
    # Free pages of reserved colors are given to nobody else.
    echo +memory >$root/cgroup.subtree_control
    mkdir $root/area
    give area bank "$list" && give area exclusive 1 || answer "cma: exclusive" refused
    expect "cma: exclusive: settled" "$(head -n 1 $floor/settled)" "moving 0"
    cat $area/count 2>/dev/null >$area/alloc && answer "cma: exclusive: the area is not to be had" "it was" ||
        answer "cma: exclusive: the area is not to be had"
    expect "cma: exclusive: nothing of it is allocated" "$(cat $area/used)" 0
    index_is_right "after the area was wanted beside exclusive colors"
    rmdir $root/area
    said "cma: afterwards" cma $map all $area uncolored
    cat $area/count >$area/free
    index_is_right "after the area is given back once more"
fi
