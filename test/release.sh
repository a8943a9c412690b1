#!/usr/bin/env bash
# Builds the archives of a release into dist/, with SHA256SUMS: the version is that of the tag on this commit, or says how
# far behind it the commit is. The same commit and the same Go give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
version=${VERSION:?give VERSION, or run make release}
when=$(git log -1 --format=%ct)
day=$(date -u -d "@$when" +%F 2>/dev/null || date -u -r "$when" +%F)
rm -rf dist
for target in ${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
	name=zooid-$version-${target%/*}-${target#*/}
	mkdir -p "dist/$name"
	CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} "$go" build -trimpath -buildvcs=false -pgo=cmd/zooid/load.pgo \
		-ldflags "-s -w -buildid= -X main.version=$version -X main.revision=$(git rev-parse HEAD) -X main.buildDate=$day" \
		-o "dist/$name/zooid" ./cmd/zooid
	cp LICENSE README.md CHANGELOG.md "dist/$name/"
	tar --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner -C dist -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
	rm -r "dist/$name"
done
(cd dist && sha256sum ./*.tar.gz | sed 's# \./# #' >SHA256SUMS && cat SHA256SUMS)
