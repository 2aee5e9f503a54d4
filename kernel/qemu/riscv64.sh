#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# riscv64.sh fetch: unpacks Debian 13's stock riscv64 kernel, its headers and a static busybox into the user's cache, unless they are there.
# riscv64.sh headers: the same, and prints the folder of the headers.
# riscv64.sh run SCRIPT PROGRAM...: boots that kernel in an emulated machine of two CPUs whose performance counters overflow, and runs
# SCRIPT there with the static riscv64 PROGRAMs in its path. What it prints goes to stdout, after the kernel's own lines; the last line is
# "guest ended with STATUS". At most SECONDS_MAX (300).
set -euo pipefail

# shellcheck source=kernel/package.sh
. "$(dirname "$0")/../package.sh"
release=trixie
mine=$cache/riscv64
# Where package lists of another architecture do not mix with this machine's.
apt=$mine/apt
cache=$mine

# The site that this machine has its own packages from.
site() {
    APT_CONFIG='' apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -v security | head -n 1 | grep .
}

foreign_lists() {
    mkdir -p "$apt"/{etc/apt.conf.d,etc/preferences.d,state/lists/partial,cache/archives/partial}
    : >"$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(site) $release main" >"$apt/etc/sources.list"
    cat >"$apt/apt.conf" <<EOF
APT::Architecture "riscv64";
APT::Architectures { "riscv64"; };
Acquire::Languages "none";
Dir::Etc "$apt/etc";
Dir::Etc::parts "/etc/apt/apt.conf.d";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
EOF
    export APT_CONFIG=$apt/apt.conf
}

newest_image() {
    apt-cache pkgnames linux-image- | grep -E '^linux-image-6\.12\.[0-9.]+[^-]*-riscv64$' | sort -V | tail -n 1 | grep .
}

# Of that kernel, and of all kernels of its version.
headers_package() {
    echo "linux-headers-$(release)"
}

common_package() {
    local release
    release=$(release)
    echo "linux-headers-${release%-riscv64}-common"
}

busybox_package() {
    apt-cache pkgnames busybox-static | grep -x busybox-static
}

kernel() {
    find "$mine" -mindepth 3 -maxdepth 3 -path '*/boot/vmlinu*' ! -path '*.part/*' 2>/dev/null | sort -V | tail -n 1
}
busybox=$mine/busybox-static/usr/bin/busybox

release() {
    kernel | sed 's/.*vmlinu[xz]-//'
}

headers() {
    echo "$mine/linux-headers-$(release)/usr/src/linux-headers-$(release)"
}

is_complete() {
    [ -n "$(kernel)" ] && [ -e "$busybox" ] && [ -e "$(headers)/Makefile" ]
}

fetch_all() {
    mkdir -p "$mine"
    exec 9>"$mine/lock"
    flock 9
    if is_complete; then return; fi
    foreign_lists
    fetch newest_image './boot/*'
    fetch busybox_package './usr/bin/busybox'
    fetch common_package './usr/*'
    # Last: with it, everything is there.
    fetch headers_package './usr/*'
    is_complete || fail "the packages fetched into $mine have no kernel, no headers or no busybox in them"
    rm -rf "$apt"
}

run() {
    local script=$1
    shift
    root=$(mktemp -d)
    trap 'rm -rf "$root" "$root.img"' EXIT
    mkdir -p "$root"/{bin,dev,proc,run,sys,tmp}
    cp "$busybox" "$@" "$root/bin"
    cp "$script" "$root/script"
    cat >"$root/init" <<'EOF'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
sh /script </dev/null 2>&1
echo "guest ended with $?"
sleep 0.2
poweroff -f
EOF
    chmod 755 "$root/init" "$root/script"
    (cd "$root" && find . | cpio -o -H newc --quiet) >"$root.img"
    timeout -s KILL "${SECONDS_MAX:-300}" qemu-system-riscv64 -machine virt -cpu rv64,sscofpmf=true,pmu-num=8 -smp 2 -m 1G \
        -nodefaults -no-user-config -no-reboot -display none -monitor none -serial stdio -kernel "$(kernel)" -initrd "$root.img" \
        -append "console=ttyS0 quiet panic=-1 rdinit=/init" </dev/null
}

case ${1:-} in
    fetch) fetch_all ;;
    headers) fetch_all && headers ;;
    run) shift && fetch_all && run "$@" ;;
    *) fail "\"${1:-}\" is nothing to do; accepted are fetch, headers, run" ;;
esac
