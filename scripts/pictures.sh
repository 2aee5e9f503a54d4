#!/usr/bin/env bash
# Draws the pictures of the README and the documentation into docs/pictures. MEMTINT names the program; default: target/release/memtint.
#
# database.json and sort.json there are reports of memtint inspect, taken while a database in bank classes 0-3 and a sort in 4-7 ran side by
# side.
set -euo pipefail
cd "$(dirname "$0")/.."

memtint=${MEMTINT:-target/release/memtint}
to=docs/pictures
"$memtint" draw $to/database.json $to/sort.json >$to/pages.svg
"$memtint" probe --simulate haswell-e3-1230 --noise typical --svg $to/probe.svg >/dev/null 2>&1
"$memtint" analyze examples/colored-refresh.toml --scheduler colored-refresh --svg $to/colored-refresh.svg >/dev/null
"$memtint" refresh compare examples/five-programs.toml --scheduler edf --schemes auto,burst,crs --densities 8,32 --svg $to/compare.svg \
    >/dev/null 2>&1 || [ $? = 1 ] # Some schemes miss deadlines.
