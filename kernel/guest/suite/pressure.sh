# SPDX-License-Identifier: GPL-2.0-only
#
# More memory than one class has, beside a bystander who has much of the rest: the task's own pages are swapped out, and those
# that the bystander has in that class, but none of its others, save what kswapd takes, which knows no colors.
class=$(classes_of_nodes 12 1)
bystander_mib=$(awk '$1 == "MemFree:" { mib = int($2 / 2048); print mib < 600 ? mib : 600 }' /proc/meminfo)
pressure $map all $bystander_mib "$class" >/tmp/bystander 2>&1 &
bystander=$!
while kill -0 $bystander 2>/dev/null && ! grep -q '^coveted' /tmp/bystander; do sleep 1; done
expect "pressure: the bystander has its memory" "$(grep -E '^(not )?ok' /tmp/bystander)" "ok - $bystander_mib MiB"

# Pages of the bystander in swap, and pages that kswapd has taken from anybody.
swapped() {
    awk '$1 == "VmSwap:" { print $2 / 4 }' /proc/$bystander/status
}
taken() {
    awk '$1 == "pgsteal_kswapd" { print $2 }' /proc/vmstat
}
swapped_before=$(swapped) taken_before=$(taken)
# A class has a 16th of memory; the swap space has room for what is beyond it, and for the bystander's share.
class_mib=$(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16) }' /proc/meminfo)
for mib in $((class_mib * 6 / 10)) $((class_mib + 30)); do
    (colored "strict $class" pressure $map "$class" $mib) >/tmp/out 2>&1
    expect "pressure: $mib of $class_mib MiB" "$(grep -E '^(not )?ok' /tmp/out)" "ok - $mib MiB"
    sed -n 's/^# /# pressure: /p' /tmp/out
done
coveted=$(awk '$1 == "coveted" { print $2 }' /tmp/bystander)
lost=$(($(swapped) - swapped_before)) taken=$(($(taken) - taken_before))
echo "# pressure: $lost pages of the bystander were swapped out, of $coveted in that class; kswapd took $taken"
[ $lost -le $((coveted + taken)) ] && answer "pressure: the bystander keeps its pages of other classes" ||
    answer "pressure: the bystander keeps its pages of other classes" "$lost were swapped out, $coveted in that class, $taken by kswapd"
kill $bystander
wait $bystander 2>/dev/null
