#!/usr/bin/env bash
# Installs the .deb in a fresh Debian, made by debootstrap, starts the server by its unit's own command as its own user, upgrades
# and removes the package, and checks that what a client wrote is there all the time. Needs root and a mirror.
#   deploy/package/test.sh [DEB]    without DEB it builds one
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "it needs root, for chroot" >&2; exit 1; }
work=$(mktemp -d)
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	umount "$work/root/proc" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
arch=$(dpkg --print-architecture)
if [ $# -ge 1 ]; then
	first=$1
else
	VERSION=0.1.0 DIST=$work/one TARGETS=linux/$arch deploy/package/build.sh >/dev/null
	first=$(echo "$work"/one/*.deb)
fi
VERSION=0.1.1 DIST=$work/two TARGETS=linux/$arch deploy/package/build.sh >/dev/null
second=$(echo "$work"/two/*.deb)
fail() { echo "FAIL: $*" >&2; exit 1; }
root=$work/root

echo "== units"
install -D -m 0755 /bin/true "$work/verify/usr/bin/zooid"
cp deploy/systemd/zooid.service "$work/"
sed "s|/usr/bin/zooid|$work/verify/usr/bin/zooid|" "$work/zooid.service" >"$work/verify.service"
SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$work/verify.service" || fail "systemd-analyze verify"
systemd-analyze security --offline=true --threshold=20 "$work/zooid.service" | tail -1

echo "== a fresh root"
if ! command -v debootstrap >/dev/null; then
	(cd "$work" && apt-get download -q debootstrap >/dev/null && dpkg -x debootstrap_*.deb "$work/bootstrap")
	export DEBOOTSTRAP_DIR=$work/bootstrap/usr/share/debootstrap PATH=$work/bootstrap/usr/sbin:$PATH
fi
debootstrap --variant=minbase bookworm "$root" ${MIRROR:+"$MIRROR"} >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log"; fail debootstrap; }
mount -t proc proc "$root/proc"
inside() { chroot "$root" "$@"; }
as() { chroot --userspec=zooid:zooid "$root" "$@"; }

# start runs the unit's own command as its own user, with a socket for its word that it is ready.
start() {
	: >"$work/server.log"
	command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/zooid.service")
	# shellcheck disable=SC2086
	chroot --userspec="$(sed -n 's/^User=//p' "$root/usr/lib/systemd/system/zooid.service"):$(sed -n 's/^Group=//p' "$root/usr/lib/systemd/system/zooid.service")" \
		"$root" $command >"$work/server.log" 2>&1 &
	server=$!
	for _ in $(seq 300); do
		grep -q msg=serving "$work/server.log" && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/server.log"
	fail "the server doesn't serve"
}
stop() {
	kill "$server"
	wait "$server" || fail "the server ended with $?"
	server=
}
cli() { as zooid cli -server 127.0.0.1:2181 "$@"; }

echo "== install"
cp "$first" "$root/first.deb"
cp "$second" "$root/second.deb"
inside dpkg -i /first.deb >/dev/null
[ "$(inside stat -c '%U %a' /var/lib/zooid)" = "zooid 700" ] || fail "the data directory is $(inside stat -c '%U %a' /var/lib/zooid)"
[ "$(inside stat -c '%U %G %a' /etc/zooid/zoo.cfg)" = "root zooid 640" ] || fail "the configuration is $(inside stat -c '%U %G %a' /etc/zooid/zoo.cfg)"
as zooid doctor /etc/zooid/zoo.cfg || fail "doctor finds faults in what the package installs"
inside sh -c 'test -s /usr/share/man/man1/zooid-server.1 && test -s /usr/share/bash-completion/completions/zooid' || fail "man pages or completion"
start
as zooid health /etc/zooid/zoo.cfg >/dev/null || fail "zooid health: $(as zooid health /etc/zooid/zoo.cfg)"
kill -HUP "$server"
cli create /kept "what a client wrote" >/dev/null
stop

echo "== upgrade"
echo "# the operator's own line" >>"$root/etc/zooid/zoo.cfg"
inside dpkg -i --force-confdef --force-confold /second.deb >/dev/null
grep -q "operator's own" "$root/etc/zooid/zoo.cfg" || fail "the upgrade wrote over the configuration"
inside zooid version | grep -q "zooid 0.1.1" || fail "the upgrade left $(inside zooid version)"
start
cli get /kept | grep -q "what a client wrote" || fail "after the upgrade the znode is gone"
stop

echo "== remove, purge, install again"
inside dpkg -r zooid >/dev/null
[ ! -e "$root/usr/bin/zooid" ] || fail "the program is still there"
ls "$root"/var/lib/zooid/*.log >/dev/null || fail "the removal took the data"
inside dpkg -P zooid >/dev/null
ls "$root"/var/lib/zooid/*.log >/dev/null || fail "the purge took the data"
inside dpkg -i /second.deb >/dev/null
start
cli get /kept | grep -q "what a client wrote" || fail "after the purge the znode is gone"
stop

echo "== image"
mkdir "$work/image" "$work/layer"
tar -xf "$work"/two/*.oci.tar -C "$work/image"
layer=$(sed -n 's/.*"Layers":\["\([^"]*\)"\].*/\1/p' "$work/image/manifest.json")
tar -xzf "$work/image/$layer" -C "$work/layer"
chroot --userspec=65532:65532 "$work/layer" /usr/bin/zooid server 2199 /data >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do grep -q msg=serving "$work/server.log" && break; sleep 0.1; done
grep -q msg=serving "$work/server.log" || { cat "$work/server.log"; fail "the image's server doesn't serve"; }
chroot --userspec=65532:65532 "$work/layer" /usr/bin/zooid cli -server 127.0.0.1:2199 create /in-the-image x >/dev/null || fail "a client of the image"
stop
echo "PASS"
