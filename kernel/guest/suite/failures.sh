# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=dash disable=SC2154 # test.sh sets what is not set here
#
# Allocations of the kernel that fail, one after the other. Only a kernel with CONFIG_FAULT_INJECTION can make them fail: the
# debugging one.
if [ -d /sys/kernel/debug/fail_page_alloc ]; then
    for kind in fail_page_alloc failslab; do
        echo 0 >/sys/kernel/debug/$kind/verbose
        echo N >/sys/kernel/debug/$kind/ignore-gfp-wait
    done
    echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
    echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
    said failures failures $floor $map "strict $(classes_of_nodes 2 4)"
    dd if=$map of=$floor/map bs=64k 2>/dev/null
    expect "failures: the mapping is loaded afterwards" "$(cat $floor/map)" "$(cat $map)"
    expect "failures: no policy is left" "$(left policies)" 0
else
    echo "# failures: this kernel cannot make allocations fail"
fi
