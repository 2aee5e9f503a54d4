# SPDX-License-Identifier: GPL-2.0-only
#
# More memory than one class has, beside a bystander who has most of the rest: the task's own pages are swapped out, and hardly
# any of the bystander's.
pressure $map all "$(awk '$1 == "MemFree:" { print int($2 / 2048) }' /proc/meminfo)" stay >/tmp/bystander 2>&1 &
bystander=$!
while ! grep -q 'swapped out' /tmp/bystander; do sleep 1; done
expect "pressure: the bystander has its memory" "$(grep -c '^ok' /tmp/bystander)" 1

class=$(classes_of_nodes 12 1)
# A class has a 16th of memory; the swap space takes what is beyond.
class_mib=$(awk '$1 == "MemTotal:" { print int($2 / 1024 / 16) }' /proc/meminfo)
for part in 60 140; do
    mib=$((class_mib * part / 100))
    (colored "strict $class" pressure $map "$class" $mib) >/tmp/out 2>&1
    expect "pressure: $part % of a class" "$(grep -E '^(not )?ok' /tmp/out)" "ok - $mib MiB"
    sed -n 's/^# /# pressure: /p' /tmp/out
done
swapped=$(awk '$1 == "VmSwap:" { print $2 / 4 }' /proc/$bystander/status)
echo "# pressure: $swapped pages of the bystander are swapped out"
[ "$swapped" -lt 2000 ] && answer "pressure: the bystander keeps its memory" ||
    answer "pressure: the bystander keeps its memory" "$swapped pages are swapped out"
kill $bystander
wait $bystander
