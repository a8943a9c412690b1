#!/usr/bin/env bash
# Installs PROGRAM with its man pages, documentation, completions and, on Linux, the systemd unit below $DESTDIR$PREFIX.
#   DESTDIR=… PREFIX=/usr/local deploy/package/install.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
prefix=${PREFIX:-/usr/local}
cd "$(dirname "$0")/../.."
to=${DESTDIR:-}$prefix
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
deploy/package/pages.sh "$program" "$(date -u +%F)" "$work" "$(git rev-parse HEAD 2>/dev/null || echo main)"

put() { # MODE FILE TO
	install -d -m 0755 "$(dirname "$3")"
	install -m "$1" "$2" "$3"
}
put 0755 "$program" "$to/bin/zooid"
for page in "$work"/man/*; do
	put 0644 "$page" "$to/share/man/man1/$(basename "$page")"
done
(cd "$work/html" && find . -type f) | while read -r page; do
	put 0644 "$work/html/$page" "$to/share/doc/zooid/html/$page"
done
put 0644 "$work/completion/zooid.bash" "$to/share/bash-completion/completions/zooid"
put 0644 "$work/completion/_zooid" "$to/share/zsh/site-functions/_zooid"
put 0644 "$work/completion/zooid.fish" "$to/share/fish/vendor_completions.d/zooid.fish"
[ "$(uname)" = Linux ] || exit 0
sed "s|^ExecStart=/usr/bin/|ExecStart=$prefix/bin/|" deploy/systemd/zooid.service >"$work/zooid.service"
put 0644 "$work/zooid.service" "$to/lib/systemd/system/zooid.service"
put 0644 deploy/systemd/zooid.sysusers "$to/lib/sysusers.d/zooid.conf"
