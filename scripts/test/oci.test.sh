#!/usr/bin/env bash
# Are containers with annotations in color, and all others as the runtime alone starts them? With crun, on this machine, as root.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"

unable() {
    echo "needs $1" >>"${MEMTINT_SKIPS:-/dev/null}"
    echo end
    exit $failed
}
command -v crun >/dev/null || unable "the program crun"
[ "$(id -u)" = 0 ] || unable root

if [ -z "${OCI_TEST_INSIDE:-}" ]; then
    ${CARGO:-cargo} build --quiet --bin memtint
    # crun refuses a machine with both versions of cgroups: the test has the second one only.
    rm -rf "$scratch"
    OCI_TEST_INSIDE=1 exec unshare --mount --propagation private "$0"
fi
mount -t cgroup2 cgroup2 /sys/fs/cgroup || unable "cgroup version 2"
PATH=$(realpath "${CARGO_TARGET_DIR:-target}/debug"):$PATH
oci=$root/oci/memtint-oci
name=memtint-test-$$
trap 'crun delete --force $name >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT

memtint platform detect --functions-of skl-e3-1220v5-4x4g >"$scratch/here.toml"
# For the user of a user namespace.
chmod 755 "$scratch"
mkdir -p "$scratch"/bundle/rootfs/{bin,dev,proc,sys,tmp}
cp "$(command -v busybox)" "$scratch/bundle/rootfs/bin"
for applet in sh sleep echo; do ln -s busybox "$scratch/bundle/rootfs/bin/$applet"; done
(cd "$scratch/bundle" && crun spec)

# bundle COMMAND [KEY=VALUE...]: a container that runs a command of its shell, with annotations. Without limits, which need more privileges
# than a colored program.
bundle() {
    python3 - "$scratch/bundle/config.json" "$@" <<'P'
import json, sys
path, command, *pairs = sys.argv[1:]
config = json.load(open(path))
config["process"].update(args=["sh", "-c", command], terminal=False)
config["process"].pop("rlimits", None)
config["linux"].pop("resources", None)
config["annotations"] = dict(pair.split("=", 1) for pair in pairs)
json.dump(config, open(path, "w"))
P
}
run() {
    local status=0
    "$oci" "${1:-run}" --bundle "$scratch/bundle" $name </dev/null >"$scratch/out" 2>"$scratch/err" || status=$?
    echo "$(cat "$scratch/out") status $status"
}
refused() {
    run >/dev/null
    echo "$(sed "s|$scratch|.|" "$scratch/err") $(grep -c . "$scratch/out" || true)"
}
platform=memtint.platform=$scratch/here.toml

bundle 'echo plain; exit 7'
expect "a container without annotations is the runtime's" "$(run) $(wc -c <"$scratch/err")" "plain status 7 0"
bundle 'echo "$0" plain' '"memtint.banks": "0-3"=x' other=y
expect "a text that looks like an annotation is none" "$(run) $(grep -c 'bank classes' "$scratch/err" || true)" "sh plain status 0 0"
bundle 'echo colored; exit 7' "$platform" memtint.banks=0-3
expect "with annotations, output and status are the program's" "$(run)" "colored status 7"
contains "and it is in color" "$(cat "$scratch/err")" "bank classes 0-3 hold"
cp "$scratch/bundle/config.json" "$scratch/before"
python3 - "$scratch/bundle/config.json" <<'P'
import json, sys
config = json.load(open(sys.argv[1]))
config["linux"]["namespaces"].append({"type": "user"})
config["linux"]["uidMappings"] = config["linux"]["gidMappings"] = [{"containerID": 0, "hostID": 100000, "size": 65536}]
json.dump(config, open(sys.argv[1], "w"))
P
expect "also in a user namespace" "$(run) $(grep -c 'bank classes 0-3 hold' "$scratch/err")" "colored status 7 1"
mv "$scratch/before" "$scratch/bundle/config.json"
bundle 'echo colored' "$platform" memtint.banks=0-3 memtint.bank=4
expect "an unknown annotation is refused" "$(refused)" "memtint-oci: ./bundle/config.json: there is no annotation memtint.bank; accepted are memtint.system, task, platform, banks, sets, node, mode 0"
bundle 'echo colored' "$platform" memtint.banks=0-3 memtint.mode=lax
expect "an unknown mode is refused" "$(refused)" 'memtint-oci: ./bundle/config.json: annotation memtint.mode is "lax"; accepted are strict, soft 0'
bundle 'echo colored' "$platform" 'memtint.banks=0-3\'
expect "a value that cannot be read is refused" "$(refused)" "memtint-oci: ./bundle/config.json: an annotation memtint.* has a value that is empty, or has a backslash 0"
bundle 'echo colored' "$platform" memtint.banks=99
expect "colors that the platform does not have are refused" "$(run | sed 's/.*status/status/')" "status 125"

# As podman and containerd start containers.
bundle 'echo started; sleep 1000' "$platform" memtint.banks=0-3 memtint.mode=soft
expect "create returns" "$(run create)" " status 0"
"$oci" start $name
inspect() {
    memtint inspect --platform "$scratch/here.toml" --banks "$1" --cgroup "/$name" >"$scratch/inspected" 2>&1
}
# The shell's copy, before it becomes sleep, has pages that a fork has left out of color.
for ((tries = 0; tries < 300; tries++)); do
    if inspect 0-3; then break; fi
    sleep 0.1
done
expect "all pages of the container are in its colors" "$(inspect 0-3 && echo held)" held
expect "and in no others" "$(inspect 4-7 || echo "status $?")" "status 1"
"$oci" kill $name KILL
for ((tries = 0; tries < 300; tries++)); do
    if "$oci" delete $name 2>/dev/null; then break; fi
    sleep 0.1
done
expect "it is deleted" "$("$oci" list | grep -c $name || true)" 0
for ((tries = 0; tries < 300; tries++)); do
    if ! grep -sqa "$scratch/here.toml" /proc/[0-9]*/cmdline; then break; fi
    sleep 0.1
done
expect "and memtint ends with it" "$(grep -sla "$scratch/here.toml" /proc/[0-9]*/cmdline || true)" ""
expect "without a runtime" "$(/usr/bin/env PATH=/nowhere /bin/sh "$oci" run x 2>&1 || echo "status $?")" "memtint-oci: no runtime is installed; accepted are crun and runc, or the program that MEMTINT_OCI_RUNTIME names
status 125"
echo end
exit $failed
