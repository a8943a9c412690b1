# What test.sh and release_test.sh share, which source it: a root of their own to install packages in, and a server there. Needs
# root, for chroot. With the argument -bare the root has only what the package's scripts call, so that no mirror is needed: what
# CI runs. Without it, it is a Debian made by debootstrap.
fail() { echo "FAIL: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "it needs root, for chroot"
bare=
[ "${1:-}" != -bare ] || bare=1
work=$(mktemp -d /var/tmp/zooid-package-XXXXXX) # on a disk: doctor looks
server= # the process of the server that runs
cleanup() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	for proc in "$work"/*/proc; do umount "$proc" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
root=$work/root
user=zooid:zooid

# carry copies programs of this machine into the root, with the libraries that they load.
carry() {
	local program path
	for program in "$@"; do
		path=$(command -v "$program") || fail "this machine has no $program"
		for file in "$path" $(ldd "$path" 2>/dev/null | grep -o '/[^ )]*'); do
			[ -e "$root$file" ] || install -D -m 0755 "$(realpath "$file")" "$root$file"
		done
	done
}

# fresh_root makes the root.
fresh_root() {
	if [ -n "$bare" ]; then
		mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers" "$root/proc" "$root/tmp" "$root/etc" "$root/dev"
		touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
		mknod -m 0666 "$root/dev/null" c 1 3
		echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
		echo 'root:x:0:' >"$root/etc/group"
		mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64"
		for directory in bin sbin lib lib64; do ln -s "usr/$directory" "$root/$directory"; done
		carry sh getent systemd-sysusers install chown chmod stat
	else
		if ! command -v debootstrap >/dev/null; then
			(cd "$work" && apt-get download -q debootstrap >/dev/null && dpkg -x debootstrap_*.deb "$work/bootstrap")
			export DEBOOTSTRAP_DIR=$work/bootstrap/usr/share/debootstrap PATH=$work/bootstrap/usr/sbin:$PATH
		fi
		debootstrap --variant=minbase bookworm "$root" ${MIRROR:+"$MIRROR"} >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log"; fail debootstrap; }
	fi
	mount -t proc proc "$root/proc"

	# A systemctl that writes down what it is asked stands for systemd, which doesn't run in a root: the service is active while
	# /run/active is there.
	mkdir -p "$root/run/systemd/system" "$root/usr/bin"
	cat >"$root/usr/bin/systemctl" <<'END'
#!/bin/sh
echo "$*" >>/run/asked
[ "$1" != is-active ] || [ -e /run/active ]
END
	chmod 0755 "$root/usr/bin/systemctl"
}
inside() { chroot "$root" "$@"; }
as() { chroot --userspec=$user "$root" "$@"; }

asked() { # WHAT… : the scripts asked systemd this and nothing else
	local told
	told=$(printf '%s\n' "$@")
	[ "$(cat "$root/run/asked")" = "$told" ] || fail "the scripts asked systemd: $(cat "$root/run/asked")"
	rm "$root/run/asked"
}
# package runs dpkg on the root, which runs the package's scripts in it; what they say is left in $work/said.
package() { dpkg --root="$root" --force-depends --force-confdef --force-confold --log=/dev/null "$@" >"$work/said" 2>&1 || { cat "$work/said"; fail "dpkg $*"; }; }
install_package() { package -i "$1"; }

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

# free_port prints a port that nobody listens on, that the system gives to no outgoing connection, and that Go's tests
# don't take, should they run beside this one (internal/freeport).
free_port() {
	local port
	while :; do
		port=$((10000 + RANDOM % 6000))
		(: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo $port
}
port=$(free_port)
