#!/usr/bin/env bash
# Makes a release of this tree as version 0.2.0, with a key of its own, and uses it by the commands of docs/install.md in a fresh
# root: apt installs 0.1.0 and upgrades it, while a client's session, its znodes and ACLs stay; what isn't signed, or isn't what was
# signed, is refused. Needs root, for chroot, and git, gpg and apt.
#   deploy/package/release_test.sh -bare          in a root that has only what apt and the package's scripts call: what CI runs
#   deploy/package/release_test.sh [-bare] -long  the release of all systems, made twice; the former version from an earlier commit;
#                                                 dnf; go install. TARGETS=linux/amd64 narrows it
set -euo pipefail
cd "$(dirname "$0")/../.."
. deploy/package/root.sh
go=${GO:-go}
long=
[[ " $* " != *" -long "* ]] || long=1
arch=$(dpkg --print-architecture)
refused() { # WORDS COMMAND… : the command fails, and says the words
	local words=$1
	shift
	! "$@" >"$work/said" 2>&1 || { cat "$work/said"; fail "this should be refused ($words): $*"; }
	grep -qF -- "$words" "$work/said" || { cat "$work/said"; fail "this should be refused with \"$words\": $*"; }
}
# skipped names what this machine can't do; .ci/run lists it at its end.
skipped() {
	echo "SKIPPED: $1: $2"
	[ -z "${ZOOID_RECORD:-}" ] || printf '{"Package":"deploy/package/release_test.sh","Result":"skipped","Text":"%s: %s"}\n' "$1" "$2" >>"$ZOOID_RECORD"
}
for program in git gpg gpgv apt-get apt-key curl; do
	command -v "$program" >/dev/null || { skipped "a release" "this machine has no $program"; exit 0; }
done
# commands prints the code of a section of docs/install.md, with the release's address and version.
commands() { # HEADING BLOCK ADDRESS
	awk -v heading="### $1" -v block="$2" '
		/^#/ { within = $0 == heading }
		within && /^    / { if (!code) n++; code = 1; if (n == block) print substr($0, 5) }
		!/^    / { code = 0 }' docs/install.md | sed "s|https://ADDRESS|$3|g; s|VERSION|0.2.0|g; s|-amd64|-$arch|g" >"$work/commands"
	[ -s "$work/commands" ] || fail "docs/install.md has no code in \"$1\""
	cat "$work/commands"
}

echo "== keys"
export GNUPGHOME=$work/gnupg
install -d -m 0700 "$GNUPGHOME"
agents() { # ends gpg's and dnf's
	find "$work" -xdev -name S.gpg-agent -printf '%h\n' 2>/dev/null | while read -r home; do gpgconf --homedir "$home" --kill all || true; done || true
}
trap 'agents; cleanup' EXIT
key() { # NAME [ARGUMENT…] : a secret key in NAME.asc
	gpg --batch --quiet --passphrase "${PASSPHRASE:-}" --pinentry-mode loopback "${@:2}" --quick-generate-key "$1" rsa3072 sign "${DAYS:-7}d" 2>/dev/null
	gpg --batch --quiet --passphrase "${PASSPHRASE:-}" --pinentry-mode loopback --armor --export-secret-keys "$1" >"$work/$1.asc"
}
PASSPHRASE="its words" key ours
key another
DAYS=1 key expired --faked-system-time "$(($(date +%s) - 5 * 86400))"
gpg --armor --export ours >"$work/public.asc"

# The tree as it is, committed in a clone: a release is of a commit.
echo "== what is no release is refused"
clone="$work/a clone"
git clone -q --no-checkout . "$clone"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
GIT_DIR=$clone/.git GIT_WORK_TREE=. git add -A
git -C "$clone" commit -q --allow-empty -m "what is tested"
git -C "$clone" checkout -q -f .
release() { # VARIABLE=VALUE… : make release there
	env GO="$go" SIGNING_KEY="$work/ours.asc" SIGNING_PASSPHRASE="its words" DIST="$work/the release" "$@" make --no-print-directory -C "$clone" release
}
for odd in "" main v0.2 0.2.0.1 v0.2.0-3-gabcdef "0.2.0 " "0.2.0/../x" "0.2.0|x" '0.2.0;touch x' 00.2.0 0.2.0-dirty-1; do
	refused "a release is MAJOR.MINOR.PATCH" release VERSION="$odd"
done
refused 'no section "## 0.2.1"' release VERSION=v0.2.1
git -C "$clone" tag v0.2.0 HEAD~1
refused "the tag v0.2.0 is on commit" release VERSION=v0.2.0
git -C "$clone" tag -f v0.2.0 >/dev/null
touch "$clone/README.html"
refused "these files differ from it" release VERSION=v0.2.0
rm "$clone/README.html"
refused "SIGNING_KEY names no file" release VERSION=v0.2.0 SIGNING_KEY=
refused "the secret one signs" release VERSION=v0.2.0 SIGNING_KEY="$work/public.asc"
refused "it has expired" release VERSION=v0.2.0 SIGNING_KEY="$work/expired.asc"
refused "the right SIGNING_PASSPHRASE" release VERSION=v0.2.0 SIGNING_PASSPHRASE=guess
mkdir "$work/precious" && touch "$work/precious/file"
refused "has other files" release VERSION=v0.2.0 DIST="$work/precious"
[ ! -e "$work/the release" ] && [ -e "$work/precious/file" ] || fail "a release that is refused has left something"

echo "== make release"
targets=linux/$arch
[ -z "$long" ] || targets=${TARGETS:-}
release VERSION=v0.2.0 TARGETS="$targets" | tail -1
new="$work/the release"
if [ -n "$long" ]; then
	mv "$new" "$work/first" # and now with the key in a variable
	release VERSION=v0.2.0 TARGETS="$targets" SIGNING_KEY= SIGNING_KEY_TEXT="$(cat "$work/ours.asc")" | tail -1
	diff -r "$work/first" "$new" || fail "the same commit and key give other bytes"
	[ -n "$targets" ] || for file in zooid_0.2.0_{amd64,arm64}.deb zooid-0.2.0-1.{x86_64,aarch64}.rpm zooid-0.2.0-{linux,darwin}-{amd64,arm64}.{tar.gz,cdx.json} zooid-0.2.0-linux-{amd64,arm64}.oci.tar; do
		[ -s "$new/$file" ] || fail "the release has no $file"
	done
fi
# No secret, nor the passphrase, is in what is published.
! grep -rqa -e "PRIVATE KEY" -e "its words" "$new"/{*.asc,*.gpg,SHA256SUMS,apt/dists,rpm/repodata} || fail "the release has the secret key"

echo "== the former version"
# The package of an earlier commit, or, as that takes minutes to compile, this tree's; its configuration is another one.
earlier=cc80fcdcd3a8
if [ -n "$long" ] && git -C "$clone" cat-file -e "$earlier^{commit}" 2>/dev/null; then
	git -C "$clone" worktree add -q --detach "$work/earlier" "$earlier"
else
	[ -z "$long" ] || skipped "the upgrade from commit $earlier" "this clone lacks it"
	git -C "$clone" worktree add -q --detach "$work/earlier"
fi
echo "# another default" >>"$work/earlier/deploy/package/zoo.cfg"
(cd "$work/earlier" && GO=$go VERSION=0.1.0 DIST="$work/old" TARGETS=linux/$arch deploy/package/build.sh >/dev/null)
(cd "$clone" && CGO_ENABLED=0 "$go" build -o "$work/pack" ./deploy/pack)
when=$(git -C "$clone" log -1 --format=%ct)
SIGNING_PASSPHRASE="its words" "$work/pack" release "$work/ours.asc" "$when" "$work/old"

echo "== install from the repository"
fresh_root
if [ -n "$bare" ]; then
	carry apt-get apt-config apt-key dpkg dpkg-deb dpkg-split start-stop-daemon ldconfig diff tar gzip gpgv curl sha256sum
	carry awk base64 cat cp cut env find grep id mkdir mktemp mv readlink rm sed sort touch tr # apt-key's
	for method in copy file gpgv store; do carry "/usr/lib/apt/methods/$method"; done
	mkdir -p "$root/usr/share" "$root/etc/dpkg" "$root/etc/apt/"{keyrings,sources.list.d,apt.conf.d,preferences.d,trusted.gpg.d} \
		"$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial" "$root/var/log/apt"
	cp -r /usr/share/dpkg "$root/usr/share/"
	chmod 1777 "$root/tmp"
else
	carry curl
	rm -f "$root/etc/apt/sources.list" # the mirror isn't asked again
	mkdir -p "$root/etc/apt/keyrings"
fi
mkdir "$root/srv/" 2>/dev/null || true
publish() { rm -rf "$root/srv/release" && cp -r "$1" "$root/srv/release"; } # DIRECTORY : it is what the address has
run() { inside sh -ec "cd /tmp && $1" </dev/null >"$work/said" 2>&1; } # in the root
# Whoever asks a question gets no answer.
page() { commands "$1" "$2" file:///srv/release >"$work/said" && run "$(cat "$work/commands")" || { cat "$work/said"; fail "docs/install.md, $1"; }; }
installed() { inside zooid version | cut -d' ' -f2; }
publish "$work/old"
page "Debian and Ubuntu" 1
[ "$(installed)" = 0.1.0 ] || fail "apt installed $(installed)"
rm "$root/run/asked"
sed -i "s/^clientPort=.*/clientPort=$port/" "$root/etc/zooid/zoo.cfg"
echo "# the operator's own line" >>"$root/etc/zooid/zoo.cfg"
start
cli create /kept "what a client wrote" >/dev/null
cli -auth digest:me:word create /mine "for me alone" auth::cdrwa >/dev/null
mkfifo "$work/typed"
as zooid cli -server "127.0.0.1:$port" -timeout 120000 <"$work/typed" >"$work/session" 2>&1 &
session=$!
exec 8>"$work/typed"
echo "create -e /alive here" >&8
for _ in $(seq 300); do ! cli get /alive >/dev/null 2>&1 || break; sleep 0.1; done
owner() { cli stat /alive | sed -n 's/^ephemeralOwner = //p'; }
before=$(owner)
[[ $before =~ ^0x[1-9a-f] ]] || { cat "$work/session"; fail "the session's znode has the owner \"$before\""; }

echo "== what isn't what was signed is refused"
lists=$root/var/lib/apt/lists
update() { rm -rf "$lists" && mkdir -p "$lists/partial" && run "apt-get update"; }
released=$root/srv/release
publish "$new"
sed -i 's/^Suite: stable/Suite: unstable/' "$released/apt/dists/stable/InRelease"
refused "" update
grep -q BADSIG "$work/said" || fail "a changed Release: $(cat "$work/said")"
publish "$new"
sed -i 's/^Version: 0.2.0/Version: 0.9.0/' "$released/apt/dists/stable/main/binary-$arch/Packages"
gzip -9nc "$released/apt/dists/stable/main/binary-$arch/Packages" >"$work/gz" && cp "$work/gz" "$released/apt/dists/stable/main/binary-$arch/Packages.gz"
refused "" update
grep -qi "hash sum mismatch\|unexpected size" "$work/said" || fail "a changed list: $(cat "$work/said")"
publish "$new"
printf x >>"$released/apt/pool/main/z/zooid/zooid_0.2.0_$arch.deb"
update || fail "apt-get update: $(cat "$work/said")"
refused "" run "apt-get install -y zooid"
grep -qi "hash sum mismatch\|unexpected size" "$work/said" || fail "a changed package: $(cat "$work/said")"
publish "$new"
rm "$released/apt/dists/stable/InRelease" "$released/apt/dists/stable/Release.gpg"
refused "" update
grep -q "not signed" "$work/said" || fail "no signature: $(cat "$work/said")"
cp -r "$work/old" "$work/theirs" && cp "$new"/*.deb "$work/theirs/" && rm -r "$work/theirs"/{apt,rpm}
"$work/pack" release "$work/another.asc" "$when" "$work/theirs"
publish "$work/theirs"
refused "" update
grep -q NO_PUBKEY "$work/said" || fail "somebody else's signature: $(cat "$work/said")"
# A signature by a key that has expired since, with that key trusted.
publish "$new"
gpg --batch --quiet --yes --faked-system-time "$(($(date +%s) - 5 * 86400))!" --local-user expired --clearsign --output "$released/apt/dists/stable/InRelease" "$new/apt/dists/stable/Release"
cp "$root/etc/apt/keyrings/zooid.asc" "$work/trusted.asc"
gpg --armor --export expired >"$root/etc/apt/keyrings/zooid.asc"
refused "" update
grep -q EXPKEYSIG "$work/said" || fail "a key that has expired: $(cat "$work/said")"
cp "$work/trusted.asc" "$root/etc/apt/keyrings/zooid.asc"
[ "$(installed)" = 0.1.0 ] || fail "one of them was installed: $(installed)"

echo "== upgrade"
publish "$new"
touch "$root/run/active"
page "Debian and Ubuntu" 2
[ "$(installed)" = 0.2.0 ] || fail "after the upgrade it is $(installed)"
asked daemon-reload "is-active --quiet zooid.service" # it stops nothing
grep -q "operator's own" "$root/etc/zooid/zoo.cfg" && grep -qx "clientPort=$port" "$root/etc/zooid/zoo.cfg" || fail "the upgrade wrote over the configuration"
running() { (exec 9<>"/dev/tcp/127.0.0.1/$port" && printf srvr >&9 && cat <&9) | sed -n 's/^Zookeeper version: 3.9.[0-9]*-zooid-\([^-]*\)-.*/\1/p'; }
[ "$(running)" = 0.1.0 ] || fail "the running server became $(running)"
stop
start
[ "$(running)" = 0.2.0 ] || fail "after the restart the server is $(running)"
[ "$(cli get /kept)" = "what a client wrote" ] || fail "after the upgrade the znode is gone"
refused "" cli get /mine
[ "$(cli -auth digest:me:word get /mine)" = "for me alone" ] || fail "after the upgrade the ACL admits nobody"
[ "$(owner)" = "$before" ] || { cat "$work/session"; fail "the session of $before became \"$(owner)\""; }
for _ in $(seq 60); do # until it has found the new server: an older client that has none leaves its session to time
	! grep -q here "$work/session" || break
	echo "get /alive" >&8
	sleep 0.5
done
grep -q here "$work/session" || fail "the session's client: $(cat "$work/session")"
echo quit >&8
wait "$session" || fail "the client of the session ended with $?: $(cat "$work/session")"
refused "does not exist" cli get /alive
# An older version in its place is not taken.
publish "$work/old"
update && run "apt-get -y install zooid" || fail "$(cat "$work/said")"
run "apt-get -y dist-upgrade" || fail "$(cat "$work/said")"
[ "$(installed)" = 0.2.0 ] || fail "apt went back to $(installed)"
stop

echo "== archives and images"
publish "$new"
page "Archives and images" 1
[ "$(inside "/tmp/zooid-0.2.0-linux-$arch/zooid" version | cut -d' ' -f2)" = 0.2.0 ] || fail "the archive has another version"
grep -q "zooid-0.2.0-linux-$arch.oci.tar: OK" "$work/said" || fail "the image's sum wasn't checked: $(cat "$work/said")"
printf x >>"$released/zooid-0.2.0-linux-$arch.oci.tar"
refused "" run "$(cat "$work/commands")"
grep -q "oci.tar: FAILED" "$work/said" || fail "a changed image: $(cat "$work/said")"
publish "$new"
sed -i '1{s/^0/1/;t;s/^./0/}' "$released/SHA256SUMS" # another digit, whichever the first is
refused "" run "$(cat "$work/commands")"
grep -q "BAD signature" "$work/said" || fail "changed sums: $(cat "$work/said")"
for file in "$new"/*; do
	name=$(basename "$file")
	case $name in apt | rpm | SHA256SUMS* | zooid.asc | zooid.gpg) continue ;; esac
	grep -q "  $name\$" "$new/SHA256SUMS" || fail "the sums lack $name"
done

if [ -n "$long" ]; then
	echo "== go install"
	# The go command fetches the tagged commit from the clone by git, as it would from the project's site; the other modules come from
	# this machine's cache, or as usual. It knows no sums: its database of them knows no clone.
	printf '[url "file://%s"]\n\tinsteadOf = https://github.com/zooid-project/zooid\n' "$clone" >"$work/gitconfig"
	install=$(grep -o 'go install github.com/zooid-project/zooid/[^`]*' docs/install.md | sed 's/VERSION/0.2.0/')
	[ -n "$install" ] || fail "docs/install.md has no go install"
	mkdir "$work/empty"
	(cd "$work/empty" && env GIT_CONFIG_GLOBAL="$work/gitconfig" GOPATH="$work/gopath" GOMODCACHE= GOBIN= GOFLAGS=-modcacherw GOTOOLCHAIN=local GOSUMDB=off \
		GOPRIVATE=github.com/zooid-project/zooid GOPROXY="file://$("$go" env GOMODCACHE)/cache/download,$("$go" env GOPROXY)" \
		sh -ec "$install") >"$work/said" 2>&1 || { cat "$work/said"; fail "$install"; }
	said=$("$work/gopath/bin/zooid" version)
	[ "${said%% speaks*}" = "zooid 0.2.0" ] || fail "$install made \"$said\""

	echo "== dnf"
	if command -v dnf >/dev/null && command -v rpm >/dev/null; then
		root=$work/dnf
		bare=1 fresh_root
		mkdir -p "$root/etc/yum.repos.d"
		published=$work/published
		publish() { rm -rf "$published" && cp -r "$1" "$published"; }
		dnf() { rm -rf "$root/var/cache/dnf" && command dnf --installroot="$root" --setopt=reposdir="$root/etc/yum.repos.d" --releasever=1 -y "$@"; }
		export -f dnf
		export root
		publish "$work/old"
		commands "Fedora, RHEL and SUSE" 1 "file://$published" | sed "s|/etc/yum|$root/etc/yum|" >"$work/dnf.sh"
		bash -ec "$(cat "$work/dnf.sh")" >"$work/said" 2>&1 || { cat "$work/said"; fail "docs/install.md, Fedora"; }
		[ "$(installed)" = 0.1.0 ] || fail "dnf installed $(installed)"
		rm "$root/run/asked"
		sed -i "s/^clientPort=.*/clientPort=$port/" "$root/etc/zooid/zoo.cfg"
		start
		cli create /kept "what a client wrote" >/dev/null
		stop
		# dnf may call it success that it leaves out a repository that it doesn't believe.
		dnf_refuses() { # WORDS
			dnf upgrade zooid >"$work/said" 2>&1 || true
			grep -qi "$1" "$work/said" || { cat "$work/said"; fail "dnf should refuse this: $1"; }
			[ "$(installed)" = 0.1.0 ] || fail "dnf took what should be refused ($1): $(installed)"
		}
		publish "$new"
		printf x >>"$published/rpm/zooid-0.2.0-1.$(uname -m).rpm"
		dnf_refuses checksum
		publish "$new"
		sed -i 's/<revision>/<revision>1/' "$published/rpm/repodata/repomd.xml"
		dnf_refuses "GPG signature verification error"
		publish "$work/theirs"
		cp "$new/zooid.asc" "$published/" # the key that is trusted
		dnf_refuses "GPG signature verification error"
		publish "$new"
		dnf upgrade zooid >"$work/said" 2>&1 || { cat "$work/said"; fail "dnf upgrade"; }
		[ "$(installed)" = 0.2.0 ] || fail "after dnf upgrade it is $(installed)"
		grep -qx "clientPort=$port" "$root/etc/zooid/zoo.cfg" || fail "dnf upgrade wrote over the configuration"
		start
		[ "$(running)" = 0.2.0 ] && [ "$(cli get /kept)" = "what a client wrote" ] || fail "after dnf upgrade: $(running), $(cli get /kept)"
		stop
		publish "$work/old"
		dnf upgrade zooid >"$work/said" 2>&1 || { cat "$work/said"; fail "dnf upgrade of nothing"; }
		[ "$(installed)" = 0.2.0 ] || fail "dnf went back to $(installed)"
	else
		skipped "the repository used by dnf" "it needs dnf and rpm"
	fi
fi
echo PASS
