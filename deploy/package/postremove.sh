#!/bin/sh
# After the files have gone. The data stays, whatever is asked for, and with it the user that owns it: it is all that this server
# has acknowledged.
set -e
case "${1:-}" in
remove | purge | 0)
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload || true
	fi
	if [ -d /var/lib/zooid ]; then
		echo "zooid: the data in /var/lib/zooid is kept; remove it by hand if it is of no use any more"
	fi
	;;
esac
