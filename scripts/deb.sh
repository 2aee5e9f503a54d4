#!/usr/bin/env bash
# deb.sh [BINARY [VERSION]]: builds the Debian package build/memtint_VERSION_ARCHITECTURE.deb, and prints its path. It contains what
# `make install PREFIX=/usr` installs: the program BINARY, stripped, or one compiled for distribution. VERSION is that of Cargo.toml, with
# the Debian revision 1.
#
# Equal sources and programs give equal packages: all times are that of the last commit, or SOURCE_DATE_EPOCH. DEBFULLNAME and DEBEMAIL
# name the maintainer, by default the author of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "deb: $*" >&2
    exit 2
}

for program in dpkg-deb dpkg-shlibdeps strip gzip; do
    command -v $program >/dev/null || fail "$program is missing: install the Debian packages dpkg-dev and binutils"
done
[ $# -le 2 ] || fail "found $# arguments; accepted are BINARY and VERSION"
binary=${1:-} version=${2:-$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)-1}
[[ $version =~ ^[0-9][A-Za-z0-9.+~]*-[A-Za-z0-9.+~]+$ ]] || fail "version \"$version\" is no UPSTREAM-REVISION, for instance 0.2.0-1"
architecture=$(dpkg --print-architecture)

# commit FORMAT: a property of the last commit, or nothing without one.
commit() {
    git log -1 --format="$1" 2>/dev/null || true
}

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(commit %ct)}
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] || fail "SOURCE_DATE_EPOCH is \"$SOURCE_DATE_EPOCH\", and there is no commit; accepted are seconds since 1970"
export SOURCE_DATE_EPOCH
name=${DEBFULLNAME:-$(commit %an)} email=${DEBEMAIL:-$(commit %ae)}
maintainer="${name:-memtint} <${email:-root@localhost}>"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree doc=$scratch/tree/usr/share/doc/memtint
mkdir -p "$tree/DEBIAN" "$doc"

if [ -z "$binary" ]; then
    ${CARGO:-cargo} build --profile dist --bin memtint
    binary=${CARGO_TARGET_DIR:-target}/dist/memtint
fi
strip --strip-unneeded --remove-section=.comment -o "$scratch/memtint" "$binary"
make --no-print-directory --silent install BINARY="$scratch/memtint" DESTDIR="$tree" PREFIX=/usr >&2
find "$tree/usr/share/man" -type f -exec gzip -9n {} +

# The changes for users are those of upstream; Debian's changelog names the version and its date.
gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<EOF
memtint ($version) unstable; urgency=medium

  * Version ${version%-*}. Its changes are in changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
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
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"

chmod -R u=rwX,go=rX "$tree"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p build
package=build/memtint_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" "$scratch/package" >&2
# At once: a test may be reading the one before.
mv "$scratch/package" "$package"
echo "$package"
