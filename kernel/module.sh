#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# module.sh BUILT FOLDER OUT: compiles the module in FOLDER for the kernel in the folder BUILT (of build.sh), in the new folder OUT.
set -euo pipefail

mkdir -p "$3"
cp "$2"/Kbuild "$2"/*.c "$3"
make -s -C "$1/build" M="$3" modules >"$3/log" 2>&1 || { cat "$3/log" >&2; exit 1; }
