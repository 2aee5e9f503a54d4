#!/usr/bin/env bash
# setup.sh [demo|test]: installs what the demonstration runs, or what the tests run (all of it, and the default), as far as this
# system lacks it. Debian and its relatives; needs root only when something is missing. Starts no service and asks no question.
set -euo pipefail

purpose=${1:-test}
case $purpose in demo | test) ;; *) echo "setup: \"$purpose\" is nothing to set up; accepted are demo, test" >&2; exit 2 ;; esac

if ! command -v cargo >/dev/null; then
    echo "setup: cargo is missing: install Rust 1.90 or newer (rustup, or your distribution's package)" >&2
    exit 1
fi

missing=()
# need PACKAGE COMMAND...: any of the commands will do.
need() {
    local package=$1 command
    shift
    for command in "$@"; do
        if command -v "$command" >/dev/null; then return; fi
    done
    missing+=("$package")
}

# What cargo compiles and links with.
need_compiler() {
    need gcc gcc cc
    if [ ! -e /usr/include/stdio.h ]; then missing+=(libc6-dev); fi
}

# The programs of scripts/demo.sh.
need_demo() {
    need_compiler
    need coreutils sort
    need mawk mawk
    need python3 python3
    need qemu-user qemu-x86_64
}

need_test() {
    need_demo
    need shellcheck shellcheck
    need sqlite3 sqlite3
    # The library of the fuzz targets, which lint compiles.
    need g++ c++
    need strace strace
    need gdb gdb
    # The stock kernel that the tests boot, and its root file system.
    need qemu-system-x86 qemu-system-x86_64
    need cpio cpio
    need binutils strip
    # What builds the kernel with the patches of kernel/, from a source that kernel/build.sh fetches.
    need make make
    need git git
    need flex flex
    need bison bison
    need bc bc
    need xz-utils xz
    # The programs with which memtint guard decides in the kernel.
    need clang clang
    if [ ! -e /usr/include/gelf.h ]; then missing+=(libelf-dev); fi
    # Machines of other architectures, whose performance counters overflow, and what compiles programs for them.
    need qemu-system-misc qemu-system-riscv64
    if [ ! -e /usr/share/qemu/opensbi-riscv64-generic-fw_dynamic.bin ]; then missing+=(opensbi); fi
    need gcc-riscv64-linux-gnu riscv64-linux-gnu-gcc
    if [ ! -e /usr/riscv64-linux-gnu/lib/libc.a ]; then missing+=(libc6-dev-riscv64-cross); fi
    need qemu-system-arm qemu-system-aarch64
    need gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
    if [ ! -e /usr/aarch64-linux-gnu/lib/libc.a ]; then missing+=(libc6-dev-arm64-cross); fi
    # Programs that run in color, and what records them.
    need redis-server redis-server
    need redis-tools redis-benchmark
    need gzip gzip
    need golang-go go
    need nodejs node nodejs
    need default-jdk-headless javac
    # What builds the Debian package, checks it, and makes the root of Debian 12 in which it is installed.
    need dpkg-dev dpkg-shlibdeps
    need lintian lintian
    need debootstrap debootstrap
    need dkms dkms
    need kmod modinfo
    # The runtime of containers that are put in colors.
    need crun crun
    # A program without a loader is tested: the dynamic busybox will not do.
    if ! { command -v busybox && ! ldd "$(command -v busybox)"; } >/dev/null 2>&1; then missing+=(busybox-static); fi
}

# Unpacked into the user's cache, not installed. Without the kernels of this machine's architecture, tests fail; tests for other architectures
# also need a Rust target, and are skipped without either.
fetch_kernels() {
    if [ "$purpose" != test ]; then return; fi
    local harness flavor architecture target
    harness=$(dirname "$0")/../kernel/qemu
    "$harness/kernel.sh" >/dev/null || echo "setup: going on without a kernel for tests/it/stock_kernel.rs" >&2
    for flavor in cloud rt old; do
        "$harness/../modules/memguard/stock.sh" $flavor >/dev/null || echo "setup: going on without kernels for tests/it/memguard_module.rs" >&2
    done
    for architecture in riscv64 arm64; do
        "$harness/foreign.sh" $architecture fetch || echo "setup: going on without a kernel for $architecture, for tests/it/emulated.rs" >&2
    done
    for target in riscv64gc-unknown-linux-gnu aarch64-unknown-linux-gnu; do
        if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
            rustup target add $target >&2 || echo "setup: going on without the Rust target $target" >&2
        fi
    done
}

need_$purpose
if [ ${#missing[@]} -eq 0 ]; then
    fetch_kernels
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "setup: please install what provides these Debian packages: ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "setup: please run as root once: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "setup: installing ${missing[*]}" >&2

# A package that brings a service starts it unless this file says no (invoke-rc.d, status 101).
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap 'rm -f $policy' EXIT
fi

log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" </dev/null >>"$log" 2>&1
}
# The package lists may be old or absent.
if ! install && ! { apt-get update -o DPkg::Lock::Timeout=300 </dev/null >>"$log" 2>&1 && install; }; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get could not install ${missing[*]}; its messages are in $log" >&2
    exit 1
fi
rm -f "$log"
fetch_kernels
