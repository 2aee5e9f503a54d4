#!/usr/bin/env bash
# Can the tutorials be followed word for word where only the package is installed? In a root of Debian 12, on the kernel of this machine.
# Takes minutes: only with MEMTINT_TEST_FULL.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
if [ -z "${MEMTINT_TEST_FULL:-}" ]; then
    echo end
    exit 0
fi
export XDG_CACHE_HOME=$HOME/.cache DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1
# Commands that need what a root of Debian has not; each page says what, in a comment above the command. A page that gains or loses one
# changes this number.
not_followed=12

debian=$scratch/debian
if ! scripts/debian.sh "$debian"; then
    echo "needs a root of Debian 12" >>"${MEMTINT_SKIPS:-/dev/null}"
    echo end
    exit $failed
fi
${CARGO:-cargo} build --quiet --bin memtint
package=$(scripts/deb.sh "${CARGO_TARGET_DIR:-target}/debug/memtint" 2>"$scratch/log") || { cat "$scratch/log"; exit 1; }
cp "$package" "$debian/memtint.deb"
chroot "$debian" dpkg -i /memtint.deb >"$scratch/log" 2>&1 </dev/null || { cat "$scratch/log"; exit 1; }

# What the reader brings: a folder with the examples, and a text to sort.
mkdir "$debian/root/reader"
cp -r "$debian/usr/share/doc/memtint/examples" "$debian/root/reader"
seq 100000 | shuf >"$debian/root/reader/big.txt"
# The mounts end with their namespace.
unshare --mount --propagation private bash -c '
    for folder in proc sys dev; do mount --rbind /$folder "$0/$folder"; done
    mount -t tmpfs tmpfs "$0/run"
    exec scripts/tutorials.py "$0" /root/reader docs/tutorials/*.md' "$debian" >"$scratch/said" || failed=1
cat "$scratch/said"
if grep -q '^not ok' "$scratch/said"; then failed=1; fi
expect "what is not followed is counted" "$(tail -n 1 "$scratch/said")" "$not_followed commands not followed"
echo end
exit $failed
