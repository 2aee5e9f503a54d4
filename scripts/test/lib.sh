# shellcheck shell=bash disable=SC2034 # the including script uses what is set here
#
# Sourced by the tests of scripts: each prints a line "ok - NAME" or "not ok - NAME # reason" for every claim, and works in
# $scratch, a folder of its own with a cache of its own.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache

failed=0

# expect NAME FOUND EXPECTED
expect() {
    if [ "$2" = "$3" ]; then
        echo "ok - $1"
    else
        echo "not ok - $1 # found '$2', expected '$3'" | tr '\n' ' '
        echo
        failed=1
    fi
}

# contains NAME FOUND PART: the text has this part.
contains() {
    case $2 in
        *"$3"*) echo "ok - $1" ;;
        *) expect "$1" "$2" "a text with: $3" ;;
    esac
}

# stub NAME: puts a program on PATH, whose script is standard input.
stub() {
    mkdir -p "$scratch/bin"
    { echo '#!/bin/bash'; cat; } >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
    case :$PATH: in *":$scratch/bin:"*) ;; *) PATH=$scratch/bin:$PATH ;; esac
}
