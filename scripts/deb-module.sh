#!/usr/bin/env bash
# deb-module.sh [VERSION]: builds the Debian package build/memtint-guard-dkms_VERSION_all.deb, and prints its path. It has the sources of the
# module of kernel/modules/memguard, which dkms compiles for each kernel of the machine where the package is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/deb/lib.sh

[ $# -le 1 ] || fail "found $# arguments; accepted is VERSION"
version=$(version_of "${1:-}")
upstream=${version%-*}
tree=$scratch/tree doc=$scratch/tree/usr/share/doc/memtint-guard-dkms sources=$scratch/tree/usr/src/memtint-guard-$upstream
mkdir -p "$tree/DEBIAN" "$doc" "$sources"

install -m 644 kernel/modules/memguard/Kbuild kernel/modules/memguard/*.[ch] "$sources"
sed "s/@VERSION@/$upstream/" kernel/modules/memguard/dkms.conf >"$sources/dkms.conf"
changes memtint-guard-dkms "$version" "$doc"
cat >"$doc/copyright" <<'EOF'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: memtint

Files: *
Copyright: 2026 The memtint developers
License: GPL-2.0-only

License: GPL-2.0-only
 On Debian systems, the text of this license is in /usr/share/common-licenses/GPL-2.
EOF
mkdir -p "$tree/usr/share/lintian/overrides"
cat >"$tree/usr/share/lintian/overrides/memtint-guard-dkms" <<'EOF'
# The package is not part of Debian.
memtint-guard-dkms: initial-upload-closes-no-bugs *
EOF

cat >"$tree/DEBIAN/control" <<EOF
Package: memtint-guard-dkms
Version: $version
Architecture: all
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$tree/usr" | cut -f 1)
Depends: dkms (>= 3.0)
Enhances: memtint
Section: kernel
Priority: optional
Description: memory-bandwidth regulation for each CPU, in the kernel
 The module memtint_guard gives each CPU a budget of performance events per
 period, and halts a CPU whose budget is used up until the next period. It is
 a backend of memtint guard. dkms compiles it for Linux 6.1 and 6.12.
EOF
for step in postinst prerm; do
    sed "s/@VERSION@/$upstream/g" scripts/deb/module.$step >"$tree/DEBIAN/$step"
    chmod 755 "$tree/DEBIAN/$step"
done
pack "$tree" "memtint-guard-dkms_${version}_all"
