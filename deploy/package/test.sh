#!/usr/bin/env bash
# Installs the .deb in a fresh root, starts the server by its unit's own command as its own user, upgrades, removes and purges the
# package, and checks that what a client wrote is there all the time; holds the .rpm to the .deb; runs the image by its own
# configuration. Needs root, for chroot.
#   deploy/package/test.sh           in a Debian made by debootstrap
#   deploy/package/test.sh -bare     in a root that has only what the package's scripts call, so that no mirror is needed: what CI runs
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/package/root.sh
arch=$(dpkg --print-architecture)
VERSION=0.1.0 DIST=$work/one TARGETS=linux/$arch KINDS=deb deploy/package/build.sh >/dev/null
first=$(echo "$work"/one/*.deb)
VERSION=0.1.1 DIST=$work/two TARGETS=linux/$arch deploy/package/build.sh >/dev/null
second=$(echo "$work"/two/*.deb)

echo "== units"
install -D -m 0755 /bin/true "$work/verify/usr/bin/zooid"
cp deploy/systemd/zooid.service "$work/"
sed "s|/usr/bin/zooid|$work/verify/usr/bin/zooid|" "$work/zooid.service" >"$work/verify.service"
SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$work/verify.service" || fail "systemd-analyze verify"
systemd-analyze security --offline=true --threshold=20 "$work/zooid.service" | tail -1

echo "== the .rpm has what the .deb has"
CGO_ENABLED=0 "${GO:-go}" build -o "$work/pack" ./deploy/pack
for kind in deb rpm; do
	"$work/pack" contents "$work"/two/*.$kind >"$work/contents.$kind"
done
grep -q " file .* /usr/share/doc-base/zooid$" "$work/contents.deb" || fail "the .deb registers no document"
diff <(grep -v /usr/share/doc-base/ "$work/contents.deb") "$work/contents.rpm" || fail "the .deb (<) and the .rpm (>) differ"
for script in postinst:postinstall prerm:preremove postrm:postremove; do
	grep -qx "script sha256:$(sha256sum <deploy/package/${script#*:}.sh | cut -d' ' -f1) ${script%:*}" "$work/contents.deb" || fail "the ${script%:*} is not ${script#*:}.sh"
done
grep -q " root root conf .* /etc/zooid/zoo.cfg" "$work/contents.deb" || fail "an upgrade would write over the configuration"

echo "== a fresh root"
fresh_root

echo "== install"
install_package "$first"
asked daemon-reload "is-active --quiet zooid.service"
grep -q "systemctl enable --now zooid" "$work/said" || fail "the installation doesn't say how to go on: $(cat "$work/said")"
[ "$(inside stat -c '%U %G %a' /var/lib/zooid)" = "zooid zooid 700" ] || fail "the data directory is $(inside stat -c '%U %G %a' /var/lib/zooid)"
[ "$(inside stat -c '%U %G %a' /etc/zooid/zoo.cfg)" = "root zooid 640" ] || fail "the configuration is $(inside stat -c '%U %G %a' /etc/zooid/zoo.cfg)"
[ "$(inside stat -c '%U %G %a' /etc/zooid)" = "zooid zooid 750" ] || fail "its folder is $(inside stat -c '%U %G %a' /etc/zooid)"
grep -qx clientPort=2181 "$root/etc/zooid/zoo.cfg" || fail "the configuration's port is another one"
own_port() { sed -i "s/^clientPort=.*/clientPort=$port/" "$root/etc/zooid/zoo.cfg"; } # that of the machine may be taken
own_port
as zooid doctor /etc/zooid/zoo.cfg || fail "doctor finds faults in what the package installs"
[ -s "$root/usr/share/man/man1/zooid-server.1" ] && [ -s "$root/usr/share/bash-completion/completions/zooid" ] || fail "man pages or completion"
[ "$(as zooid docs -html)" = /usr/share/doc/zooid/html/index.html ] || fail "zooid docs -html: $(as zooid docs -html)"
# doc-base takes the file as it is: the pages that it names are there.
sed -n 's/^\(Index\|Files\): //p' "$root/usr/share/doc-base/zooid" | while read -r pages; do
	ls "$root"$pages >/dev/null || fail "doc-base is told of $pages"
done
start
as zooid health /etc/zooid/zoo.cfg >/dev/null || fail "zooid health: $(as zooid health /etc/zooid/zoo.cfg)"
kill -HUP "$server"
cli create /kept "what a client wrote" >/dev/null
stop

echo "== upgrade"
echo "# the operator's own line" >>"$root/etc/zooid/zoo.cfg"
touch "$root/run/active"
install_package "$second"
asked daemon-reload "is-active --quiet zooid.service" # it stops nothing
grep -q "the running server is still the former version" "$work/said" || fail "the upgrade says nothing of the running server: $(cat "$work/said")"
rm "$root/run/active"
grep -q "operator's own" "$root/etc/zooid/zoo.cfg" || fail "the upgrade wrote over the configuration"
inside zooid version | grep -q "zooid 0.1.1" || fail "the upgrade left $(inside zooid version)"
start
cli get /kept | grep -q "what a client wrote" || fail "after the upgrade the znode is gone"
stop

echo "== remove, purge, install again"
package -r zooid
asked "disable --now zooid.service" daemon-reload
[ ! -e "$root/usr/bin/zooid" ] || fail "the program is still there"
grep -q "operator's own" "$root/etc/zooid/zoo.cfg" || fail "the removal took the configuration"
grep -q "the data in /var/lib/zooid is kept" "$work/said" || fail "the removal doesn't say that the data is kept: $(cat "$work/said")"
ls "$root"/var/lib/zooid/*.log >/dev/null || fail "the removal took the data"
package -P zooid
asked daemon-reload
[ ! -e "$root/etc/zooid/zoo.cfg" ] || fail "the purge left the configuration"
ls "$root"/var/lib/zooid/*.log >/dev/null || fail "the purge took the data"
install_package "$second"
own_port # the purge took the configuration, as it should
start
cli get /kept | grep -q "what a client wrote" || fail "after the purge the znode is gone"
stop

echo "== image"
mkdir "$work/image" "$work/layer"
tar -xf "$work"/two/*.oci.tar -C "$work/image"
layer=$(sed -n 's/.*"Layers":\["\([^"]*\)"\].*/\1/p' "$work/image/manifest.json")
tar -xzf "$work/image/$layer" -C "$work/layer"
config=$work/image/$(sed -n 's/.*"Config":"\([^"]*\)".*/\1/p' "$work/image/manifest.json")
words() { sed -n "s/.*\"$1\":\[\([^]]*\)\].*/\1/p" "$config" | tr -d '"' | tr ',' ' '; }
# shellcheck disable=SC2207 # words without blanks
entrypoint=($(words Entrypoint)) command=($(words Cmd)) environment=($(words Env))
owner=$(sed -n 's/.*"User":"\([^"]*\)".*/\1/p' "$config")
[ "$owner" = 65532:65532 ] || fail "the image's user is $owner"
# The port is the image's, and may be taken on this machine: the container has a network of its own where that can be made.
alone=() within=()
if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	alone=(unshare -n -- sh -c 'ip link set lo up && exec "$@"' sh)
elif (: <"/dev/tcp/127.0.0.1/2181") 2>/dev/null; then
	fail "port 2181 is taken, and there is no ip to make a network for the image's server"
fi
"${alone[@]}" env -i "${environment[@]}" "$(command -v chroot)" --userspec="$owner" "$work/layer" "${entrypoint[@]}" "${command[@]}" >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 1800); do # while others make networks, the kernel may take long
	! grep -q msg=serving "$work/server.log" && kill -0 $server 2>/dev/null || break
	sleep 0.1
done
grep -q msg=serving "$work/server.log" || { cat "$work/server.log"; fail "the image's server doesn't serve"; }
[ ${#alone[@]} = 0 ] || within=(nsenter -t "$server" -n)
"${within[@]}" chroot --userspec="$owner" "$work/layer" "${entrypoint[@]}" cli -server 127.0.0.1:2181 create /in-the-image x >/dev/null || fail "a client of the image"
[ "$(chroot --userspec="$owner" "$work/layer" "${entrypoint[0]}" docs -html zd-2002)" = '/usr/share/doc/zooid/html/troubleshooting.html#zd-2002' ] || fail "the image has no books"
[ -s "$work/layer/usr/share/man/man1/zooid-server.1" ] || fail "the image has no man pages"
ls "$work"/layer/data/*.log >/dev/null || fail "the image's server keeps its data elsewhere"
stop
echo "PASS"
