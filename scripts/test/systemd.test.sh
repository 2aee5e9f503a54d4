#!/usr/bin/env bash
# Do the units work under a real systemd? Boots an emulated machine with a stock kernel, Debian 12 and the package, and runs
# systemd.guest.sh there. Takes minutes: only with MEMTINT_TEST_FULL.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
if [ -z "${MEMTINT_TEST_FULL:-}" ]; then
    echo end
    exit 0
fi
export XDG_CACHE_HOME=$HOME/.cache DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1

# unable REASON: the test is skipped.
unable() {
    echo "needs $1" >>"${MEMTINT_SKIPS:-/dev/null}"
    echo end
    exit $failed
}

if ! kernel=$(kernel/qemu/kernel.sh); then unable "a stock kernel"; fi
debian=$scratch/debian
if ! scripts/debian.sh "$debian"; then unable "a root of Debian 12"; fi

${CARGO:-cargo} build --quiet --bin memtint
package=$(scripts/deb.sh "${CARGO_TARGET_DIR:-target}/debug/memtint" 2>"$scratch/log") || { cat "$scratch/log"; exit 1; }
cp "$package" "$debian/memtint.deb"
chroot "$debian" dpkg -i /memtint.deb >"$scratch/log" 2>&1 </dev/null || { cat "$scratch/log"; exit 1; }
rm "$debian/memtint.deb"
cc -O1 -static -o "$debian/usr/local/bin/notify" scripts/test/notify.c
install -m 755 scripts/test/systemd.guest.sh "$debian/root/guest.sh"
mkdir -p "$debian/etc/memtint"
cat >"$debian/etc/systemd/system/guest.service" <<'U'
[Service]
ExecStart=/root/guest.sh
ExecStopPost=/bin/sh -c 'echo "guest ended with $$EXIT_STATUS"; sleep 1; exec systemctl poweroff -ff >/dev/null 2>&1'
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS1
[Install]
WantedBy=multi-user.target
U
chroot "$debian" systemctl enable guest.service >/dev/null 2>&1
chroot "$debian" systemctl mask serial-getty@ttyS0.service getty@tty1.service systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer \
    dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer >/dev/null 2>&1

# systemd changes mounts of services as on a machine with a disk: the root is a mount that can be left, which the first one is not.
image=$scratch/image
mkdir -p "$image"/{bin,new}
cp "$(command -v busybox)" "$image/bin/busybox"
cat >"$image/init" <<'I'
#!/bin/busybox sh
/bin/busybox mount -t tmpfs -o mode=755,size=80% tmpfs /new
/bin/busybox tar -x -f /root.tar -C /new
/bin/busybox rm /root.tar
exec /bin/busybox switch_root /new /sbin/init
I
chmod 755 "$image/init"
tar -C "$debian" --numeric-owner --exclude='./usr/share/doc/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/man/*' --exclude='./var/cache/*' \
    --exclude='./var/lib/apt/*' --exclude='./usr/lib/x86_64-linux-gnu/gconv/*' -c -f "$image/root.tar" .
(cd "$image" && find . | cpio -o -H newc --quiet) >"$scratch/initramfs"
rm -rf "$image" "$debian"
NODES=1 NODE_CPUS=2 NODE_MEMORY=2G SECONDS_MAX=${SECONDS_MAX:-1800} kernel/qemu/boot.sh "$kernel" "$scratch/initramfs" systemd.show_status=0 \
    2>"$scratch/console" | sed -u 's/\r$//' | tee "$scratch/said" || true

expect "the machine has switched itself off" "$(tail -n 1 "$scratch/said")" "guest ended with 0"
[ "$(tail -n 1 "$scratch/said")" = "guest ended with 0" ] || tail -n 30 "$scratch/console" | sed 's/^/# /'
if grep -q '^not ok' "$scratch/said"; then failed=1; fi
echo end
exit $failed
