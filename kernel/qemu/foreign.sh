#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Stock Debian kernels (6.12) of processors whose performance counters QEMU emulates: riscv64, with misses of its TLB; arm64, with cycles.
#
# foreign.sh ARCHITECTURE fetch: unpacks kernel, headers and a static busybox into the user's cache, unless they are there.
# foreign.sh ARCHITECTURE headers: the same, and prints the folder of the headers.
# foreign.sh ARCHITECTURE run SCRIPT PROGRAM...: boots that kernel in an emulated machine of CPUS (2), and runs SCRIPT there with the static
# PROGRAMs in its path. What it prints goes to stdout, after the kernel's own lines; the last line is "guest ended with STATUS". At most
# SECONDS_MAX (300). With COUNT=N, and one CPU, the guest's clocks count instructions, of 2^N ns each, and nothing else: a slow host does not
# show.
set -euo pipefail

# shellcheck source=kernel/package.sh
. "$(dirname "$0")/../package.sh"
architecture=${1:-} verb=${2:-}
case $architecture in
    # The first release whose riscv64 is official.
    riscv64)
        release=trixie console=ttyS0
        machine=(qemu-system-riscv64 -machine virt -cpu "rv64,sscofpmf=true,pmu-num=8")
        ;;
    # The headers of 13 take a newer gcc than Debian 12 has.
    arm64)
        release=bookworm console=ttyAMA0
        # Signing pointers as in hardware would take most of the time.
        machine=(qemu-system-aarch64 -machine "virt,gic-version=3" -cpu "max,pauth-impdef=on")
        ;;
    *) fail "\"$architecture\" is no architecture; accepted are riscv64, arm64" ;;
esac
cache=$cache/$architecture
# Where package lists of another architecture do not mix with this machine's.
apt=$cache/apt

# site LABEL: where this machine has its own packages with that label from.
site() {
    APT_CONFIG='' apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(SITE)' 2>/dev/null | sed -n "s/^Debian|$1|//p" | grep -m 1 .
}

foreign_lists() {
    local main security signed=signed-by=/usr/share/keyrings/debian-archive-keyring.gpg
    # Without package lists, apt names no site.
    site Debian >/dev/null || timeout -s KILL 300 apt-get update -o DPkg::Lock::Timeout=200 >>"$package_log" 2>&1 </dev/null || true
    main=$(site Debian) || fail "the package sources of this machine name no site of Debian"
    mkdir -p "$apt"/{etc/apt.conf.d,etc/preferences.d,state/lists/partial,cache/archives/partial}
    : >"$apt/status"
    echo "deb [$signed] $main $release main" >"$apt/etc/sources.list"
    if security=$(site Debian-Security); then echo "deb [$signed] $security $release-security main" >>"$apt/etc/sources.list"; fi
    cat >"$apt/apt.conf" <<EOF
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
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
    apt-cache pkgnames linux-image-6.12. | grep -E "^linux-image-6\.12\.[0-9.]+[^-]*-$architecture\$" | sort -V | tail -n 1 | grep .
}

# Of that kernel, and of all kernels of its version.
headers_package() {
    echo "linux-headers-$(release)"
}

common_package() {
    local release
    release=$(release)
    echo "linux-headers-${release%-"$architecture"}-common"
}

busybox_package() {
    apt-cache pkgnames busybox-static | grep -x busybox-static
}

kernel() {
    find "$cache" -mindepth 3 -maxdepth 3 -path '*/boot/vmlinu*' ! -path '*.part/*' 2>/dev/null | sort -V | tail -n 1
}
busybox=$cache/busybox-static/usr/bin/busybox
# Debian 12 has it there.
busybox_of_12=$cache/busybox-static/bin/busybox

release() {
    kernel | sed 's/.*vmlinu[xz]-//'
}

headers() {
    echo "$cache/linux-headers-$(release)/usr/src/linux-headers-$(release)"
}

is_complete() {
    [ -n "$(kernel)" ] && [ -e "$busybox" ] && [ -e "$(headers)/Makefile" ]
}

fetch_all() {
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if ! is_complete; then fetch_packages; fi
    # Nobody waits while the machine runs.
    exec 9>&-
}

fetch_packages() {
    foreign_lists
    fetch newest_image './boot/*'
    fetch busybox_package '*/busybox'
    if [ -e "$busybox_of_12" ]; then install -D "$busybox_of_12" "$busybox"; fi
    fetch common_package './usr/*'
    # Last: with it, everything is there.
    fetch headers_package './usr/*'
    is_complete || fail "the packages fetched into $cache have no kernel, no headers or no busybox in them"
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
    # A machine that waits goes on to the next event at once.
    if [ -n "${COUNT:-}" ]; then machine+=(-icount "shift=$COUNT,sleep=off" -rtc "base=2000-01-01,clock=vm"); fi
    timeout -s KILL "${SECONDS_MAX:-300}" "${machine[@]}" -smp "${CPUS:-2}" -m 1G -nodefaults -no-user-config -no-reboot -display none -monitor none \
        -serial stdio -kernel "$(kernel)" -initrd "$root.img" -append "console=$console quiet panic=-1 rdinit=/init" </dev/null
}

case $verb in
    fetch) fetch_all ;;
    headers) fetch_all && headers ;;
    run) shift 2 && fetch_all && run "$@" ;;
    *) fail "\"$verb\" is nothing to do; accepted are fetch, headers, run" ;;
esac
