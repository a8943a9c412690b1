#!/usr/bin/env bash
# Builds into dist/ what a release has: static binaries as archives, .deb, .rpm and OCI images for Linux on amd64 and arm64,
# the Helm chart, an SBOM of each binary, and SHA256SUMS. The same commit and the same Go give the same bytes.
#   deploy/package/build.sh             all
#   TARGETS=linux/amd64 KINDS=deb …     some
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
nfpm=${NFPM:-$go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0}
version=${VERSION:?give VERSION, or run make packages}
commit=$(git rev-parse HEAD)
when=$(git log -1 --format=%ct)
day=$(date -u -d "@$when" +%F 2>/dev/null || date -u -r "$when" +%F)
dist=${DIST:-dist}
[[ $version =~ ^[0-9A-Za-z][0-9A-Za-z.+-]*$ ]] || { echo "VERSION is ${version@Q}: it has characters that versions of packages can't have" >&2; exit 1; }
case $version in
*-[0-9]*-g*[0-9a-f]* | *-dirty) plain=${version/-/+} && plain=${plain//-/.} ;; # git's names for what comes after a tag
[0-9]*.[0-9]*) plain=${version/-/\~} ;; # what is before a release sorts before it
*) plain=0.0.0~git$(date -u -d "@$when" +%Y%m%d%H%M%S 2>/dev/null || date -u -r "$when" +%Y%m%d%H%M%S).$version ;;
esac
mtime=$(date -u -d "@$when" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$when" +%Y-%m-%dT%H:%M:%SZ)
# What is there is removed if it is an earlier build.
[ "$dist" = dist ] || [ -e "$dist/SHA256SUMS" ] || [ -z "$(ls -A "$dist" 2>/dev/null)" ] || { echo "DIST, $dist, has other files" >&2; exit 1; }
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -buildvcs=false"
# Of this machine, for what its help says; with the profile, so that it is compiled once for both.
"$go" build -pgo=cmd/zooid/load.pgo -o "$work/zooid" ./cmd/zooid
GO=$go deploy/package/pages.sh "$work/zooid" "$day" "$work" "$commit"

archive() { # DIRECTORY FILE
	tar --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r-w -C "$(dirname "$1")" -cf - "$(basename "$1")" | gzip -9n >"$2"
}

for target in ${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
	os=${target%/*} arch=${target#*/}
	name=zooid-$version-$os-$arch
	stage=$work/$name
	mkdir -p "$stage"
	GOOS=$os GOARCH=$arch "$go" build -pgo=cmd/zooid/load.pgo -ldflags "-s -w -buildid= -X main.version=$version -X main.revision=$commit -X main.buildDate=$day" -o "$stage/zooid" ./cmd/zooid
	cp -r LICENSE README.md CHANGELOG.md "$work/man" "$work/html" "$work/completion" "$stage/"
	archive "$stage" "$dist/$name.tar.gz"
	"$work/pack" sbom "$stage/zooid" "$version" >"$dist/$name.cdx.json"
	[ "$os" = linux ] || continue
	for kind in ${KINDS:-deb rpm}; do
		sed "s|\${ARCH}|$arch|; s|\${VERSION}|$plain|; s|\${STAGE}|${stage//[&|\\]/\\&}|; s|\${MTIME}|$mtime|" deploy/package/nfpm.yaml >"$work/nfpm.yaml"
		SOURCE_DATE_EPOCH=$when GOFLAGS='' $nfpm package -f "$work/nfpm.yaml" -p "$kind" -t "$dist/"
	done
	"$work/pack" image "$stage" "$arch" "$version" "$when" "$dist/$name.oci.tar"
done
chart=$work/chart/zooid
mkdir -p "$work/chart"
cp -r deploy/helm/zooid "$chart"
sed -i.bak "s/^appVersion:.*/appVersion: \"$version\"/" "$chart/Chart.yaml"
rm "$chart/Chart.yaml.bak"
archive "$chart" "$dist/zooid-chart-$(sed -n 's/^version: //p' "$chart/Chart.yaml").tgz"
(cd "$dist" && sha256sum ./* | sed 's# \./# #' >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" . && cat SHA256SUMS)
