#!/usr/bin/env bash
# Does the Debian package contain what it should, and does nothing remain of it after purging?
#
# In any case in an empty root of dpkg, whose scripts run outside of it. With MEMTINT_TEST_FULL, also in a root of Debian 12: its scripts,
# the program and the manual run there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
# Compressing the program well would take half a minute.
export DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1
cache_of_user=$HOME/.cache

${CARGO:-cargo} build --quiet --bin memtint
program=${CARGO_TARGET_DIR:-target}/debug/memtint
version=$("$program" --version | cut -d ' ' -f 2)

# package VERSION: builds the package, and prints its path in $scratch.
package() {
    local built
    built=$(scripts/deb.sh "$program" "$1" 2>"$scratch/log") || { cat "$scratch/log" >&2; return 1; }
    cp "$built" "$scratch"
    echo "$scratch/$(basename "$built")"
}

new=$(package "$version-1")
first=$(md5sum <"$new")
expect "the same program makes the same package" "$(md5sum <"$(package "$version-1")")" "$first"
expect "its version" "$(dpkg-deb -f "$new" Version)" "$version-1"
contains "its libraries" "$(dpkg-deb -f "$new" Depends)" libc6

# The same as an earlier version, with a file that the later one does not have.
dpkg-deb -R "$new" "$scratch/tree"
sed -i 's/^Version: .*/Version: 0.0.9-1/' "$scratch/tree/DEBIAN/control"
echo old >"$scratch/tree/usr/share/doc/memtint/NEWS"
old=$scratch/memtint_0.0.9-1.deb
dpkg-deb --root-owner-group --build "$scratch/tree" "$old" >/dev/null

expect "a version that is none" "$(scripts/deb.sh "$program" 0.2 2>&1 || echo "status $?")" "deb: version \"0.2\" is no UPSTREAM-REVISION, for instance 0.2.0-1
status 2"

files=$(dpkg-deb --fsys-tarfile "$new" | tar -t)
for file in bin/memtint lib/memtint/memtint-oci lib/systemd/system/memtint-guard.service lib/systemd/system/memtint-run@.service share/man/man1/memtint-run.1.gz share/bash-completion/completions/memtint \
    share/zsh/site-functions/_memtint share/fish/vendor_completions.d/memtint.fish share/doc/memtint/copyright share/doc/memtint/examples/crs.toml; do
    expect "it has /usr/$file" "$(grep -cx "./usr/$file" <<<"$files")" 1
done
expect "it has nothing outside of /usr" "$(grep -cv '^\./\(usr/.*\)\?$' <<<"$files" || true)" 0
contains "units start the program where it is" "$(cat "$scratch"/tree/usr/lib/systemd/system/*.service)" "ExecStart=/usr/bin/memtint guard"
expect "and none that make install puts elsewhere" "$(grep -rl /usr/local "$scratch/tree/usr/lib" || true)" ""
expect "the program has no symbols for debuggers" "$(readelf -S "$scratch/tree/usr/bin/memtint" | grep -cE "\.(debug_info|symtab)" || true)" 0

make --silent install BINARY="$scratch/tree/usr/bin/memtint" DESTDIR="$scratch/other" PREFIX=/opt/memtint >/dev/null
expect "another prefix has the same files" "$(cd "$scratch/other/opt/memtint" && find . -type f | LC_ALL=C sort)" \
    "$(cd "$scratch/tree/usr" && find . -type f ! -path './share/lintian/*' ! -name 'changelog*' ! -name copyright ! -name NEWS | sed 's/\(\.1\)\.gz$/\1/' | LC_ALL=C sort)"
contains "and its units start its program" "$(cat "$scratch"/other/opt/memtint/lib/systemd/system/*.service)" "ExecStart=/opt/memtint/bin/memtint run"

if command -v lintian >/dev/null; then
    expect "lintian has no objection" "$(lintian --no-cfg --allow-root --display-info --tag-display-limit 0 "$new" 2>&1 | grep '^[A-Z]: ' || true)" ""
else
    echo "needs the program lintian" >>"${MEMTINT_SKIPS:-/dev/null}"
fi

# The module: dkms compiles what is in its package for a stock kernel, in a tree of the test, and leaves nothing there.
module=$(scripts/deb-module.sh 2>"$scratch/log") || cat "$scratch/log"
expect "the module's package has all of its sources" "$(dpkg-deb --fsys-tarfile "$module" | tar -t | sed -n 's|^./usr/src/[^/]*/\(.*[ch]\)$|\1|p' | sort)" \
    "$(cd kernel/modules/memguard && ls -- *.[ch])"
if command -v lintian >/dev/null; then
    expect "lintian has no objection to it" "$(lintian --no-cfg --allow-root --display-info "$module" 2>&1 | grep '^[A-Z]: ' || true)" ""
fi
dpkg-deb -e "$module" "$scratch/control"
expect "its scripts name its version" "$(grep -c "memtint-guard.* $version" "$scratch/control/postinst" "$scratch/control/prerm" | sed 's/.*://') $(grep -rc @VERSION@ "$scratch/control/prerm")" "1
1 0"
dkms_says() {
    local verb=$1
    shift
    dkms "$verb" --dkmstree "$scratch/dkms" --sourcetree "$scratch/module/usr/src" --installtree "$scratch/modules" -m memtint-guard -v "$version" "$@" \
        >"$scratch/log" 2>&1 || cat "$scratch/log"
}
if [ -n "${MEMTINT_TEST_FULL:-}" ]; then
    if command -v dkms >/dev/null && read -r kernel headers < <(XDG_CACHE_HOME=$cache_of_user kernel/modules/memguard/stock.sh cloud); then
        release=${kernel##*/vmlinuz-}
        mkdir -p "$scratch/dkms" "$scratch/modules"
        dpkg-deb -x "$module" "$scratch/module"
        dkms_says add
        dkms_says build -k "$release" --kernelsourcedir "$headers"
        built=$(find "$scratch/dkms" -name memtint_guard.ko)
        contains "dkms compiles the module" "$(modinfo -F vermagic "$built" 2>&1)" "$release "
        dkms_says remove --all
        expect "and removes it" "$(find "$scratch/dkms" -mindepth 1)" ""
    else
        echo "needs dkms and the headers of a stock kernel" >>"${MEMTINT_SKIPS:-/dev/null}"
    fi
fi

# An empty root: only what dpkg itself needs. What an administrator writes there is the second column.
place=$scratch/place
mkdir -p "$place"/var/lib/dpkg/{info,updates} "$place"/etc/{memtint,systemd/system/multi-user.target.wants} "$place/run/memtint"
touch "$place"/var/lib/dpkg/{status,available} "$place/etc/memtint/system.toml"
link=etc/systemd/system/multi-user.target.wants/memtint-guard.service

# What is in the root, without dpkg's own files.
listed() {
    (cd "$place" && find . -path ./var/lib/dpkg -prune -o -print | LC_ALL=C sort)
}
in_place() {
    dpkg --root="$place" --log="$scratch/dpkg.log" --force-script-chrootless,depends,not-root "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; return 1; }
}
# status: what dpkg has of it.
state() {
    dpkg-query --admindir="$place/var/lib/dpkg" -W -f '${Status} ${Version}' memtint 2>/dev/null || echo none
}
before=$(listed | grep -v '/run/memtint$')
in_place -i "$old"
expect "an earlier version is installed" "$(state)" "install ok installed 0.0.9-1"
ln -s /usr/lib/systemd/system/memtint-guard.service "$place/$link"
in_place -i "$new"
expect "it is upgraded" "$(state) $([ -e "$place/usr/share/doc/memtint/NEWS" ] || echo and the old file is gone)" "install ok installed $version-1 and the old file is gone"
expect "dpkg finds its files unchanged" "$(dpkg --root="$place" --verify memtint)" ""
expect "the program in the package is this one" "$("$place/usr/bin/memtint" --version)" "memtint $version"
in_place -r memtint
expect "a removed service is enabled when it returns" "$([ -L "$place/$link" ] && echo enabled)" enabled
in_place -P memtint
expect "nothing is left after purging but what an administrator wrote" "$(listed)" "$before"
expect "and dpkg has forgotten it" "$(state)" none

if [ -z "${MEMTINT_TEST_FULL:-}" ]; then
    echo end
    exit $failed
fi

# In a root of Debian 12, with its own dpkg and shell.
debian=$scratch/debian
if ! XDG_CACHE_HOME=$cache_of_user scripts/debian.sh "$debian" 2>"$scratch/log"; then
    cat "$scratch/log"
    echo "needs a root of Debian 12" >>"${MEMTINT_SKIPS:-/dev/null}"
    echo end
    exit $failed
fi
cp "$old" "$new" "$debian/root"
inside() {
    chroot "$debian" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@" 2>&1 </dev/null
}
# dpkg writes its state and log; man-db rewrites its index, and ldconfig its cache.
listed_inside() {
    (cd "$debian" && find . \( -path ./var/lib/dpkg -o -path ./var/cache -o -path ./root \) -prune -o -print | LC_ALL=C sort)
}
before=$(listed_inside)
contains "Debian 12: an earlier version is installed" "$(inside dpkg -i "/root/$(basename "$old")")" "Setting up memtint (0.0.9-1)"
contains "Debian 12: its dependencies are there" "$(inside dpkg --audit && inside dpkg -s memtint)" "Status: install ok installed"
contains "Debian 12: it is upgraded" "$(inside dpkg -i "/root/$(basename "$new")")" "Unpacking memtint ($version-1) over (0.0.9-1)"
expect "Debian 12: the program runs" "$(inside memtint --version)" "memtint $version"
contains "Debian 12: the manual has its pages" "$(inside man memtint-run)" "memtint-run"
contains "Debian 12: an example is where the manual's reader finds it" "$(inside memtint analyze /usr/share/doc/memtint/examples/flight-control.toml)" "schedulable: every job meets its deadline"
contains "Debian 12: the service is enabled" "$(inside systemctl enable memtint-guard)" "memtint-guard.service"
contains "Debian 12: it is removed" "$(inside dpkg -r memtint)" "Removing memtint"
contains "Debian 12: it is purged" "$(inside dpkg -P memtint)" "Purging configuration files for memtint"
expect "Debian 12: nothing is left" "$(diff <(echo "$before") <(listed_inside))" ""
echo end
exit $failed
