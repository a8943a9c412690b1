#!/usr/bin/env bash
# Runs a test many times beside processes that do nothing but use the processors, and counts its failures.
#   PKG=./internal/server RUN='^TestX$' N=50 LOAD=8 test/stress.sh [FLAG...]
# N runs (30), each a process of its own, P of them at once (1); LOAD busy processes (8); TIMEOUT a run (10m).
# The flags are the test's own, such as -leader-kills 5. Variables such as ZOOID_CRASH=1 reach the test as they are.
# The output of runs that failed stays in the folder that the last line names. Exits with 1 if a run failed.
set -euo pipefail
cd "$(dirname "$0")/.."
pkg=${PKG:?name a package: PKG=./internal/server}
run=${RUN:?name a test: RUN=^TestX\$}
n=${N:-30} load=${LOAD:-8} at_once=${P:-1} timeout=${TIMEOUT:-10m}
hours=6 # after which busy processes end by themselves, should nobody be left to end them

logs=$(mktemp -d "${TMPDIR:-/tmp}/zooid-stress-XXXXXX")
busy=()
finish() {
	# The watcher of each busy process ends it when it is ended itself.
	[ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
	rm -f "$logs/test"
	rmdir "$logs" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT TERM

"${GO:-go}" test -c ${RACE:+-race} -o "$logs/test" "$pkg"
if [ ! -e "$logs/test" ] || ! (cd "$pkg" && "$logs/test" -test.list "$run") | grep '^Test' >/dev/null; then
	echo "$pkg has no test $run" >&2
	exit 2
fi
for ((i = 0; i < load; i++)); do
	timeout "${hours}h" sh -c 'while :; do :; done' &
	busy+=($!)
done

# one NUMBER FLAG...: runs the test once and keeps its output if it fails, or if no test ran.
one() {
	local log=$logs/$1 began=$SECONDS
	shift
	if "$logs/test" -test.run "$run" -test.count 1 -test.timeout "$timeout" -test.v "$@" >"$log" 2>&1 &&
		grep -q '^--- PASS' "$log"; then
		echo "pass $((SECONDS - began))"
		rm "$log"
	else
		echo "fail $((SECONDS - began)) $log"
		grep -m 3 -E '^ *--- (FAIL|SKIP)|^panic:' "$log" | sed 's/^/     /' >&2
	fi
}
export -f one
export logs run timeout
results=$(cd "$pkg" && seq "$n" | xargs -P "$at_once" -I{} bash -c 'one "$@"' _ {} "$@")
failures=$(grep -c '^fail' <<<"$results" || true)
echo "$pkg $run: $failures of $n failed, $load busy processes, $at_once at once; seconds: $(awk '{print $2}' <<<"$results" |
	sort -n | awk '{v[NR] = $1} END {print "least " v[1] ", median " v[int((NR + 1) / 2)] ", most " v[NR]}')"
if [ "$failures" -gt 0 ]; then
	grep '^fail' <<<"$results" | awk '{print $3}'
	exit 1
fi
