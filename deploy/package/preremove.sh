#!/bin/sh
# Before the files go. $1 is "remove" (deb) or 0 (rpm) unless a newer version follows.
set -e
case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now zooid.service || true
	fi
	;;
esac
