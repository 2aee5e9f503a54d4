# shellcheck shell=bash
#
# Sourced by the scripts that build Debian packages, in the root of the repository: version, times and maintainer,
# and what every package has. Equal sources give equal packages: all times are that of the last commit, or SOURCE_DATE_EPOCH. DEBFULLNAME and
# DEBEMAIL name the maintainer, by default the author of the last commit.

fail() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 2
}

# commit FORMAT: a property of the last commit, or nothing without one.
commit() {
    git log -1 --format="$1" 2>/dev/null || true
}

# version_of ARGUMENT: the version of a package, that of Cargo.toml with the Debian revision 1 where none is given.
version_of() {
    local version=${1:-$(sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)-1}
    [[ $version =~ ^[0-9][A-Za-z0-9.+~]*-[A-Za-z0-9.+~]+$ ]] || fail "version \"$version\" is no UPSTREAM-REVISION, for instance 0.2.0-1"
    echo "$version"
}

# changes NAME VERSION DOC: both changelogs. The changes for users are those of upstream; Debian's names the version and its date.
changes() {
    gzip -9n <CHANGELOG.md >"$3/changelog.gz"
    gzip -9n >"$3/changelog.Debian.gz" <<EOF
$1 ($2) unstable; urgency=medium

  * Version ${2%-*}. Its changes are in changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
}

# pack TREE PACKAGE: sums, modes and times of the tree; the package build/PACKAGE.deb, whose path it prints.
pack() {
    (cd "$1" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$1/DEBIAN/md5sums"
    chmod -R u=rwX,go=rX "$1"
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    mkdir -p build
    dpkg-deb --root-owner-group --build "$1" "$scratch/package" >&2
    # At once: a test may be reading the one before.
    mv "$scratch/package" "build/$2.deb"
    echo "build/$2.deb"
}

for program in dpkg-deb dpkg-shlibdeps strip gzip; do
    command -v $program >/dev/null || fail "$program is missing: install the Debian packages dpkg-dev and binutils"
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(commit %ct)}
[[ $SOURCE_DATE_EPOCH =~ ^[0-9]+$ ]] || fail "SOURCE_DATE_EPOCH is \"$SOURCE_DATE_EPOCH\", and there is no commit; accepted are seconds since 1970"
export SOURCE_DATE_EPOCH
name=${DEBFULLNAME:-$(commit %an)} email=${DEBEMAIL:-$(commit %ae)}
maintainer="${name:-memtint} <${email:-root@localhost}>"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
