#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# build.sh HEADERS OUT: compiles the module for the kernel whose build folder HEADERS is, in the new folder OUT, and prints its path.
# With CC, by that compiler. A warning is an error.
set -euo pipefail

headers=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cp "$here"/Kbuild "$here"/*.[ch] "$out"
words=(W=1 CONFIG_DEBUG_INFO_BTF_MODULES=)
if [ -n "${CC:-}" ]; then words+=("CC=$CC"); fi
# Type information would need a program more, and nothing here reads it.
if ! make -s -C "$headers" M="$out" "${words[@]}" modules >"$out/log" 2>&1 || grep -q warning: "$out/log"; then
    cat "$out/log" >&2
    exit 1
fi
echo "$out/memtint_guard.ko"
