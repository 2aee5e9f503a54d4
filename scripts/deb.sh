#!/usr/bin/env bash
# deb.sh [BINARY [VERSION]]: builds the Debian package build/memtint_VERSION_ARCHITECTURE.deb, and prints its path. It contains what
# `make install PREFIX=/usr` installs: the program BINARY, stripped, or one compiled for distribution. VERSION is that of Cargo.toml, with
# the Debian revision 1. Equal programs and sources give equal packages (deb/lib.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/deb/lib.sh

[ $# -le 2 ] || fail "found $# arguments; accepted are BINARY and VERSION"
binary=${1:-} version=$(version_of "${2:-}")
architecture=$(dpkg --print-architecture)
tree=$scratch/tree doc=$scratch/tree/usr/share/doc/memtint
mkdir -p "$tree/DEBIAN" "$doc"

if [ -z "$binary" ]; then
    ${CARGO:-cargo} build --profile dist --bin memtint
    binary=${CARGO_TARGET_DIR:-target}/dist/memtint
fi
strip --strip-unneeded --remove-section=.comment -o "$scratch/memtint" "$binary"
make --no-print-directory --silent install BINARY="$scratch/memtint" DESTDIR="$tree" PREFIX=/usr >&2
find "$tree/usr/share/man" -type f -exec gzip -9n {} +

changes memtint "$version" "$doc"
# Debian's copyright file, with the Rust packages of others that are linked into the program.
{
    printf 'Comment:\n The program contains these Rust packages, under the licenses behind their names.\n'
    ${CARGO:-cargo} tree --locked --package memtint-cli --edges normal --prefix none --format ' {p}: {l}' | grep -v '^ memtint-' |
        sed 's/ (\*)$//' | LC_ALL=C sort -u
} >"$scratch/packages"
{
    sed "/^Upstream-Name:/r $scratch/packages" scripts/deb/copyright
    echo "License: MIT"
    sed 's/^$/./; s/^/ /' LICENSE-MIT
} >"$doc/copyright"
install -D -m 644 scripts/deb/overrides "$tree/usr/share/lintian/overrides/memtint"

# The libraries that the program is linked with.
mkdir "$scratch/debian"
: >"$scratch/debian/control"
depends=$(cd "$scratch" && dpkg-shlibdeps -O "$tree/usr/bin/memtint" 2>"$scratch/shlibdeps") || fail "dpkg-shlibdeps: $(cat "$scratch/shlibdeps")"
depends=${depends#shlibs:Depends=}

cat >"$tree/DEBIAN/control" <<EOF
Package: memtint
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$tree/usr" | cut -f 1)
Depends: $depends
Suggests: qemu-user
Section: admin
Priority: optional
Description: DRAM banks, cache sets and memory bandwidth for each program
$(sed -n '/^# memtint/,/^!/{/^[#!]/d; /^$/d; p}' README.md | tr '\n' ' ' | fold -s -w 78 | sed 's/^/ /; s/ *$//')
EOF
install -m 755 scripts/deb/postinst scripts/deb/prerm scripts/deb/postrm "$tree/DEBIAN"
pack "$tree" "memtint_${version}_$architecture"
