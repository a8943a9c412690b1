#!/usr/bin/env bash
# Installs the .deb in a fresh root, starts the server by its unit's own command as its own user, upgrades the package, and checks
# that what a client wrote is there all the time; and the same with the image. Needs root, for chroot.
#   deploy/package/test.sh           in a Debian made by debootstrap, with what the package's scripts do, and removes it too
#   deploy/package/test.sh -bare     in a root that has nothing else, so that no mirror is needed: what CI runs
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "it needs root, for chroot" >&2; exit 1; }
bare=
[ "${1:-}" != -bare ] || bare=1
work=$(mktemp -d /var/tmp/zooid-package-XXXXXX) # on a disk: doctor looks
server=
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	umount "$work/root/proc" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
arch=$(dpkg --print-architecture)
VERSION=0.1.0 DIST=$work/one TARGETS=linux/$arch KINDS=deb deploy/package/build.sh >/dev/null
first=$(echo "$work"/one/*.deb)
VERSION=0.1.1 DIST=$work/two TARGETS=linux/$arch KINDS=deb deploy/package/build.sh >/dev/null
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
user=zooid:zooid
if [ -n "$bare" ]; then
	user=65533:65533
	mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers" "$root/proc" "$root/tmp"
	touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
	echo 'package main; func main() {}' >"$work/shell.go" # a shell that does nothing, for the package's scripts
	CGO_ENABLED=0 "${GO:-go}" build -o "$root/bin/sh" "$work/shell.go"
elif ! command -v debootstrap >/dev/null; then
	(cd "$work" && apt-get download -q debootstrap >/dev/null && dpkg -x debootstrap_*.deb "$work/bootstrap")
	export DEBOOTSTRAP_DIR=$work/bootstrap/usr/share/debootstrap PATH=$work/bootstrap/usr/sbin:$PATH
fi
if [ -z "$bare" ]; then
	debootstrap --variant=minbase bookworm "$root" ${MIRROR:+"$MIRROR"} >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log"; fail debootstrap; }
fi
mount -t proc proc "$root/proc"
inside() { chroot "$root" "$@"; }
as() { chroot --userspec=$user "$root" "$@"; }

# install_package installs one; in a bare root it is unpacked, and what the postinst does to files is done here.
install_package() {
	if [ -z "$bare" ]; then
		cp "$1" "$root/package.deb"
		inside dpkg -i --force-confdef --force-confold /package.deb >/dev/null
		return
	fi
	dpkg --root="$root" --force-depends --log=/dev/null --unpack "$1" >/dev/null
	for conffile in "$root"/etc/zooid/*.dpkg-new; do
		[ ! -e "$conffile" ] || [ -e "${conffile%.dpkg-new}" ] || mv "$conffile" "${conffile%.dpkg-new}"
	done
	install -d -m 0700 -o "${user%:*}" -g "${user#*:}" "$root/var/lib/zooid"
	chown "$user" "$root/etc/zooid"
	chgrp "${user#*:}" "$root/etc/zooid/zoo.cfg"
}

# start runs the unit's own command as its own user, with a socket for its word that it is ready.
start() {
	: >"$work/server.log"
	command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/zooid.service")
	who=$(sed -n 's/^User=//p' "$root/usr/lib/systemd/system/zooid.service"):$(sed -n 's/^Group=//p' "$root/usr/lib/systemd/system/zooid.service")
	[ "$who" = zooid:zooid ] || fail "the unit's user is $who"
	# shellcheck disable=SC2086
	chroot --userspec=$user "$root" $command >"$work/server.log" 2>&1 &
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
cli() { as zooid cli -server "127.0.0.1:$port" "$@"; }

# free_port prints a port that nobody listens on, and that the system gives to no outgoing connection.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		(: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo $port
}
port=$(free_port)

echo "== install"
install_package "$first"
if [ -z "$bare" ]; then
	[ "$(inside stat -c '%U %a' /var/lib/zooid)" = "zooid 700" ] || fail "the data directory is $(inside stat -c '%U %a' /var/lib/zooid)"
	[ "$(inside stat -c '%U %G %a' /etc/zooid/zoo.cfg)" = "root zooid 640" ] || fail "the configuration is $(inside stat -c '%U %G %a' /etc/zooid/zoo.cfg)"
fi
grep -qx clientPort=2181 "$root/etc/zooid/zoo.cfg" || fail "the configuration's port is another one"
own_port() { sed -i "s/^clientPort=.*/clientPort=$port/" "$root/etc/zooid/zoo.cfg"; } # that of the machine may be taken
own_port
as zooid doctor /etc/zooid/zoo.cfg || fail "doctor finds faults in what the package installs"
[ -s "$root/usr/share/man/man1/zooid-server.1" ] && [ -s "$root/usr/share/bash-completion/completions/zooid" ] || fail "man pages or completion"
start
as zooid health /etc/zooid/zoo.cfg >/dev/null || fail "zooid health: $(as zooid health /etc/zooid/zoo.cfg)"
kill -HUP "$server"
cli create /kept "what a client wrote" >/dev/null
stop

echo "== upgrade"
echo "# the operator's own line" >>"$root/etc/zooid/zoo.cfg"
install_package "$second"
grep -q "operator's own" "$root/etc/zooid/zoo.cfg" || fail "the upgrade wrote over the configuration"
inside zooid version | grep -q "zooid 0.1.1" || fail "the upgrade left $(inside zooid version)"
start
cli get /kept | grep -q "what a client wrote" || fail "after the upgrade the znode is gone"
stop

if [ -z "$bare" ]; then
	echo "== remove, purge, install again"
	inside dpkg -r zooid >/dev/null
	[ ! -e "$root/usr/bin/zooid" ] || fail "the program is still there"
	ls "$root"/var/lib/zooid/*.log >/dev/null || fail "the removal took the data"
	inside dpkg -P zooid >/dev/null
	ls "$root"/var/lib/zooid/*.log >/dev/null || fail "the purge took the data"
	install_package "$second"
	own_port # the purge took the configuration, as it should
	start
	cli get /kept | grep -q "what a client wrote" || fail "after the purge the znode is gone"
	stop
fi

echo "== image"
mkdir "$work/image" "$work/layer"
tar -xf "$work"/two/*.oci.tar -C "$work/image"
layer=$(sed -n 's/.*"Layers":\["\([^"]*\)"\].*/\1/p' "$work/image/manifest.json")
tar -xzf "$work/image/$layer" -C "$work/layer"
port=$(free_port)
chroot --userspec=65532:65532 "$work/layer" /usr/bin/zooid server "$port" /data >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do grep -q msg=serving "$work/server.log" && break; sleep 0.1; done
grep -q msg=serving "$work/server.log" || { cat "$work/server.log"; fail "the image's server doesn't serve"; }
chroot --userspec=65532:65532 "$work/layer" /usr/bin/zooid cli -server "127.0.0.1:$port" create /in-the-image x >/dev/null || fail "a client of the image"
stop
echo "PASS"
