# SPDX-License-Identifier: GPL-2.0-only
#
# Sourced after package.sh: the kernel's source and its preparation. The including script sets $log.
# shellcheck shell=bash disable=SC2154 # $cache and $log belong to the including script
package=linux-source-6.12
tarball=usr/src/$package.tar.xz

say() {
    echo "kernel: $*" >&2
}

# Runs a command with its words in the log; fails with the end of the log.
logged() {
    local what=$1 status=0
    shift
    "$@" >>"$log" 2>&1 </dev/null || status=$?
    [ $status = 0 ] && return
    tail -n 40 "$log" >&2
    fail "$what failed with status $status; all of it is in $log"
}

# The newest source in the cache, else the one that is installed: its tar file and its version, or nothing. What is being
# unpacked, or was when somebody was stopped, is none.
source_package() {
    local cached
    cached=$(find "$cache" -mindepth 4 -maxdepth 4 -path "*/$package=*/$tarball" ! -path '*.part/*' 2>/dev/null | sort -V | tail -n 1)
    if [ -n "$cached" ]; then
        cached=${cached%"/$tarball"}
        echo "$cached/$tarball" "${cached##*=}"
    elif [ -e "/$tarball" ]; then
        echo "/$tarball" "$(dpkg-query -W -f '${Version}' $package)"
    fi
}

# Prints the newest version in the package lists, in the form that apt-get takes; fails if there is none. Every line is read:
# under pipefail, a reader that stops early makes apt-cache fail with SIGPIPE once the list outgrows the pipe.
newest_source() {
    apt-cache madison $package | awk -v package=$package 'NR == 1 { print package "=" $3 }' | grep .
}

# A symbol that the configuration does not have, or that misses what it depends on, is dropped without a word.
check_config() {
    local line name wrong=0
    while IFS= read -r line; do
        name=${line%%=*}
        case $line in
            CONFIG_*=n) ! grep -q "^$name=" "$1" || { say "$name is not off"; wrong=1; } ;;
            CONFIG_*) grep -qxF "$line" "$1" || { say "$line is not in the configuration"; wrong=1; } ;;
        esac
    done <"$2"
    return $wrong
}

# begin_history TREE PATCH...: the files that the patches change get a history, so that `git am` has what it needs, and nothing else does.
begin_history() {
    local tree=$1
    shift
    git_in "$tree" init --quiet &&
        sed -n 's|^--- a/||p' "$@" | sort -u | (cd "$tree" && xargs -d '\n' ls -d 2>/dev/null || true) |
        git_in "$tree" add --force --pathspec-from-file=- &&
        git_in "$tree" commit --quiet --allow-empty -m pristine
}

git_in() {
    local tree=$1
    shift
    git -C "$tree" -c user.name=memtint -c user.email=memtint@localhost -c commit.gpgsign=false -c core.hooksPath=/dev/null "$@"
}

# source_archive: the tar file and its version; fetches it when there is none.
source_archive() {
    local found
    found=$(source_package)
    if [ -z "$found" ]; then
        # Who builds the other variant, or fetches the stock kernel, may be at it as well.
        exec 8>"$cache/lock"
        flock 8
        found=$(source_package)
        if [ -z "$found" ]; then
            say "fetching $package"
            fetch newest_source "./$tarball" >&2
            found=$(source_package)
        fi
        exec 8>&-
    fi
    echo "$found"
}
