#!/bin/sh
# After the files are there, at the first time and at an upgrade. It starts nothing: a server begins an ensemble or joins one,
# which is the operator's to decide; and servers are upgraded one at a time.
set -e
if ! getent passwd zooid >/dev/null 2>&1; then
	if command -v systemd-sysusers >/dev/null 2>&1; then
		systemd-sysusers zooid.conf
	else
		useradd --system --user-group --no-create-home --home-dir /var/lib/zooid --shell /usr/sbin/nologin zooid
	fi
fi
install -d -m 0700 -o zooid -g zooid /var/lib/zooid
chown zooid:zooid /etc/zooid
# The folder is the service's, which may have put a link there: its target must not change hands.
chown -h root:zooid /etc/zooid/zoo.cfg
chmod 0750 /etc/zooid
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if systemctl is-active --quiet zooid.service; then
		echo "zooid: the running server is still the former version; restart it when the ensemble can spare it: systemctl restart zooid"
	else
		echo "zooid: see /etc/zooid/zoo.cfg, then: zooid doctor /etc/zooid/zoo.cfg && systemctl enable --now zooid"
	fi
fi
