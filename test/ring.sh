#!/usr/bin/env bash
# The two rings that a change passes before it lands (docs/testing.md).
#   test/ring.sh gate        what is deterministic; any failure refuses the change, and nothing more is run
#   test/ring.sh real        real processes; a test that fails runs once more, alone (test/rerun)
#   test/ring.sh gate real   what CI does
# WITHIN is the time in seconds for all of it. The gate always runs whole; what real doesn't reach is named, and what failed
# in it may run again for ten minutes more. With STEPS='compat fuzz' real has these steps alone, and doesn't say that it passed. Logs, one a step, are in bin/ring.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
rings=${*:?name gate, real or both}
steps=${STEPS:-}
within=${WITHIN:-3600}
reserve=60 # seconds of that for what ends after its time, and for the lists
began=$(date +%s)
until=$((began + within - reserve))
commit=$(git rev-parse HEAD)
logs=$PWD/bin/ring
record=$logs/results
rerun=$logs/rerun

# whole says whether what is tested is the commit.
whole() { [ -z "$(git status --porcelain)" ] && [ "$(git rev-parse HEAD)" = "$commit" ]; }

mkdir -p "$logs"
rm -f "$logs"/*.log "$record" "$logs"/times
for ring in $rings; do rm -f "bin/$ring.passed"; done
: >"$record"
whole && clean=1 || clean=
(cd test/rerun && "$go" build -o "$rerun" .)
export ZOOID_UNTIL= ZOOID_RECORD=$record

# step NAME COMMAND...: runs it with its output in a log, shows that, and notes the time it took.
step() {
	local name=$1 code=0 from=$SECONDS
	shift
	echo "== $name begins ($(date -u +%T))"
	"$@" >"$logs/$name.log" 2>&1 </dev/null || code=$?
	# A step is shown in one piece, though others run beside it.
	flock "$logs" sh -c "printf '\n== %s: exit code %d, %d s (%s)\n' '$name' $code $((SECONDS - from)) \"\$(date -u +%T)\"; cat '$logs/$name.log'"
	printf '%-10s %5d s%s\n' "$name" $((SECONDS - from)) "$([ "$code" = 0 ] || echo "  exit code $code")" >>"$logs/times"
	return "$code"
}

# skipped NAME WHY: what this machine can't run is named at the end.
skipped() { printf '{"Package":"%s","Result":"skipped","Text":"%s"}\n' "$1" "$2" >>"$record"; }

lint() {
	make lint || return
	test/lint.sh vuln >"$logs/vuln" || { echo "there are known vulnerabilities:"; cat "$logs/vuln"; }
	! grep -q '^skipped' "$logs/vuln" || skipped "test/lint.sh vuln" "the database of vulnerabilities can't be read"
}

packages() {
	if [ "$(id -u)" = 0 ] && command -v dpkg >/dev/null && command -v systemd-analyze >/dev/null; then
		make packages-test BARE=-bare
	else
		skipped deploy/package/test.sh "it needs root, dpkg and systemd-analyze"
		make chart-test
	fi
}

gate() {
	local once="GOTEST=$rerun -again=false -record $record"
	step steady make steady "$once" &&
		step hooks make hooks-test &&
		step lint lint &&
		step sim make sim "$once" &&
		step mutants make mutants "$once" &&
		step rerun sh -c "cd test/rerun && $go test -count=1 ./..." &&
		step packages packages
}

# Failures in what is deterministic are not run again in any ring.
once=jute,internal/auth,internal/expiry,internal/proof/check,internal/policy,internal/proposals,internal/quorum,internal/replica,internal/proof/sim,internal/storage,internal/tree,internal/watch

# asked says whether a step of real is to run.
asked() { [ -z "$steps" ] || [[ " $steps " == *" $1 "* ]]; }

# lane STEP...: runs steps of real one after the other. 3: a failure that is final; 1: another one, and the others ran.
lane() {
	local again="GOTEST=$rerun -once $once -until $until -grace 10m -record $record" worst=0 code name
	for name in "$@"; do
		asked "$name" || continue
		code=0
		case $name in
		compat) step compat make compat "COMPAT=${COMPAT:--short}" "$again" || code=$? ;;
		fuzz) UNGUIDED=1 step fuzz make fuzz "FUZZTIME=${FUZZTIME:-2s}" || code=$? ;;
		mutate-changed) changed || code=$? ;;
		cover) unreached || code=$? ;;
		*) step "$name" make "$name" "$again" || code=$? ;;
		esac
		! grep -q '"Result":"final"' "$record" || return 3 # make's own code is 2 for all failures
		[ "$code" = 0 ] || worst=1
	done
	return "$worst"
}

# changed lists mutants of what the change touches for 90 s, or for as long as is left.
changed() {
	local left=$((until - $(date +%s)))
	if [ "$left" -lt 30 ]; then
		skipped test/mutate "there was no time left"
	else
		step mutate-changed make mutate-changed "MUTATE_WITHIN=$((left < 90 ? left : 90))s"
	fi
}

# unreached lists the lines of the core that its own tests don't reach, if there are some minutes left.
unreached() {
	if [ $((until - $(date +%s))) -lt 400 ]; then
		skipped test/cover "there was no time left"
	else
		step cover make cover PARTS=unit
	fi
}

# Most tests of real processes wait most of the time: two lanes run beside each other, each in the order of what it tells a minute.
# The tests that gate leaves to real come first, alone, as they came when they were a part of it.
real() {
	local lanes=() code=0 first=0 one ended
	export ZOOID_UNTIL=$until
	lane live || first=$?
	[ "$first" != 3 ] || return 3
	set -m # each lane is a process group, to end it with all that it started
	lane compat &
	lanes+=($!)
	lane torture hostile race fuzz mutate-changed cover &
	lanes+=($!)
	set +m
	trap 'for one in "${lanes[@]}"; do kill -- "-$one" 2>/dev/null || true; done' EXIT
	while [ ${#lanes[@]} -gt 0 ]; do
		one=0
		wait -n -p ended "${lanes[@]}" || one=$?
		[ "$one" -le "$code" ] || code=$one
		mapfile -t lanes < <(printf '%s\n' "${lanes[@]}" | grep -vx "$ended" || true)
		[ "$code" != 3 ] || break
	done
	for one in "${lanes[@]}"; do
		kill -- "-$one" 2>/dev/null || true
		wait "$one" 2>/dev/null || true
	done
	trap - EXIT
	[ "$first" -le "$code" ] || code=$first
	return "$code"
}

code=0
for ring in $rings; do
	"$ring" || code=$?
	if [ "$code" != 0 ]; then
		break
	elif [ -n "$steps" ]; then
		echo "$ring: only $steps"
	elif [ -n "$clean" ] && whole; then
		{ echo "$commit"; grep -c '"Result":"not run"' "$record" | sed 's/$/ not run/'; } >"bin/$ring.passed" || true
	else
		echo "$ring passed with changes that are not committed: bin/$ring.passed is not written"
	fi
done
printf '\n== %s: %s after %d s, commit %s\n' "$rings" "$([ "$code" = 0 ] && echo passed || echo "FAILED in $ring")" \
	$(($(date +%s) - began)) "${commit:0:9}"
cat "$logs/times" 2>/dev/null || true # no step ran, if there was no time for the ones named
"$rerun" -close "$record"
exit "$code"
