#!/usr/bin/env bash
# Runs three servers on loopback from configuration files it writes.
#   test/ensemble.sh start     clients on 127.0.0.1:2181, :2182 and :2183
#   test/ensemble.sh stop
set -euo pipefail
cd "$(dirname "$0")/.."
home=${ZOOID_ENSEMBLE:-zooid-data/ensemble}

running() { [ -f "$home/$1/pid" ] && kill -0 "$(cat "$home/$1/pid")" 2>/dev/null; }

case ${1:-} in
start)
	umask 077 # the data is nobody else's, as doctor asks
	mkdir -p "$home"
	for i in 1 2 3; do
		mkdir -p "$home/$i"
		echo $i >"$home/$i/myid"
		cat >"$home/$i/zoo.cfg" <<CFG
tickTime=2000
initLimit=10
syncLimit=5
dataDir=$PWD/$home/$i
admin.enableServer=false
4lw.commands.whitelist=*
server.1=127.0.0.1:2881:3881;127.0.0.1:2181
server.2=127.0.0.1:2882:3882;127.0.0.1:2182
server.3=127.0.0.1:2883:3883;127.0.0.1:2183
CFG
		if running $i; then
			echo "server $i runs already, pid $(cat "$home/$i/pid")"
			continue
		fi
		./bin/zooid server "$home/$i/zoo.cfg" >>"$home/$i/log" 2>&1 &
		echo $! >"$home/$i/pid"
	done
	sleep 1
	for i in 1 2 3; do
		if ! running $i; then
			echo "server $i has ended: $(tail -n 1 "$home/$i/log")" >&2
			"$0" stop >&2
			exit 1
		fi
		echo "server $i: clients on 127.0.0.1:$((2180 + i)), log in $home/$i/log, pid $(cat "$home/$i/pid")"
	done
	echo "how they are: ./bin/zooid status $home/1/zoo.cfg"
	;;
stop)
	for i in 1 2 3; do
		if running $i; then
			kill "$(cat "$home/$i/pid")"
			while running $i; do sleep 0.1; done
			echo "server $i stopped"
		fi
		rm -f "$home/$i/pid"
	done
	;;
*)
	echo "usage: $0 start|stop" >&2
	exit 2
	;;
esac
