#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# smoke.sh MEMTINT: boots the plain kernel on one machine, with the kernel's own tests and the suites that say most in about
# three minutes. Its lines, its end and its status are those of qemu/test.sh.
set -euo pipefail

export MACHINES=smp PARTS=${PARTS:-moving,run,locked,exhaustion} STRESS_SECONDS=0
exec "$(dirname "$0")/qemu/test.sh" "$1"
