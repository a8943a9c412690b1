#!/usr/bin/env bash
# Makes a whole release in dist/: what build.sh makes, with signed .rpm packages, repositories for apt and dnf in dist/apt and
# dist/rpm, and signed checksums. The same commit, Go and key give the same bytes.
#   VERSION=v0.2.0 SIGNING_KEY=key.asc deploy/package/release.sh
# SIGNING_KEY is a file with the secret OpenPGP key that signs, armoured: gpg --armor --export-secret-keys KEY. SIGNING_KEY_TEXT is
# the key itself instead, and SIGNING_PASSPHRASE its passphrase. apt, rpm and gpgv believe who has the public key, zooid.asc.
set -euo pipefail
cd "$(dirname "$0")/../.."
refuse() { echo "release: $*" >&2; exit 1; }

version=${VERSION:-}
version=${version#v}
[[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.]+)?$ ]] ||
	refuse "VERSION is ${VERSION@Q}; a release is MAJOR.MINOR.PATCH, such as VERSION=v0.2.0. make packages makes packages of any commit"
commit=$(git rev-parse HEAD)
changes=$(git status --porcelain)
[ -z "$changes" ] || refuse "the version would name commit ${commit:0:9}, and these files differ from it; commit them:"$'\n'"$changes"
tagged=$(git rev-parse -q --verify "refs/tags/v$version^{commit}") || tagged=
[ -z "$tagged" ] || [ "$tagged" = "$commit" ] || refuse "the tag v$version is on commit ${tagged:0:9}, and this is ${commit:0:9}"
grep -q "^## ${version//./\\.}\( \|\$\)" CHANGELOG.md || refuse "CHANGELOG.md has no section \"## $version\""

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
key=${SIGNING_KEY:-}
if [ -z "$key" ] && [ -n "${SIGNING_KEY_TEXT:-}" ]; then
	key=$work/key.asc
	(umask 077 && printf '%s\n' "$SIGNING_KEY_TEXT" >"$key")
fi
[ -n "$key" ] || refuse "SIGNING_KEY names no file with a key. gpg --quick-generate-key NAME rsa3072 sign makes one, gpg --armor --export-secret-keys NAME >key.asc writes it. make packages makes the same packages without signatures"
when=$(git log -1 --format=%ct)
CGO_ENABLED=0 "${GO:-go}" build -trimpath -buildvcs=false -o "$work/pack" ./deploy/pack
fingerprint=$("$work/pack" fingerprint "$key" "$when") # before anything is built

dist=${DIST:-dist}
# No key and no passphrase for what is built: only pack signs.
env -u SIGNING_KEY_TEXT -u SIGNING_PASSPHRASE VERSION="$version" DIST="$dist" deploy/package/build.sh >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
"$work/pack" release "$key" "$when" "$dist"
cat "$dist/SHA256SUMS"
echo "$dist has Zooid $version of commit $commit, signed by $fingerprint"
[ -n "$tagged" ] || echo "go install needs the tag: git tag v$version $commit"
