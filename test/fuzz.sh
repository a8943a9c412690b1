#!/usr/bin/env bash
# Runs every fuzz target of the project for a time each, two at once.
#   test/fuzz.sh [TIME]        such as 60s, the default
#   UNGUIDED=1 test/fuzz.sh    without the compiler's instrumentation, which takes minutes to build: no coverage guides the fuzzer
# From the time ZOOID_UNTIL on, in seconds since 1970, no target is begun; the file ZOOID_RECORD gets their names (test/ring.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-60s}
go=${GO:-go}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

targets=$(grep -rl --include='*_test.go' --exclude-dir=bin '^func Fuzz' . | while read -r file; do
	grep -o '^func Fuzz[A-Za-z0-9_]*' "$file" | sed "s|^func |$(dirname "$file") |"
done | sort -u)
echo "fuzzing $(echo "$targets" | wc -l) targets for $time each${UNGUIDED:+, without coverage}"
corpus=$("$go" env GOCACHE)/fuzz/$("$go" list -m)

# Whether a run found nothing and only ended at its time: Go before 1.27 now and
# then reports that as a failure (golang.org/issue/75804), in these words alone.
# A target that fails names the input that it wrote, or the seed.
ended() {
	local log=$1
	grep -q 'now fuzzing with' "$log" &&
		! grep -q 'Failing input written' "$log" &&
		[ "$(sed -n '/^--- FAIL: /,/^FAIL$/p' "$log" | sed '1d;$d')" = '    context deadline exceeded' ]
}

# build PACKAGE: once for all targets of a package, which its directory names.
build() {
	local package=$1 instrument=-fuzz=.
	[ -z "${UNGUIDED:-}" ] || instrument=
	"$go" test -c -vet=off ${instrument:+"$instrument"} -o "$logs/$(tr / _ <<<"$package").test" "$package"
}

one() {
	local package=$1 target=$2 log=$3
	if [ -n "${ZOOID_UNTIL:-}" ] && [ "$(date +%s)" -ge "$ZOOID_UNTIL" ]; then
		echo "not run: $package $target"
		printf '{"Package":"%s","Test":"%s","Result":"not run"}\n' "$package" "$target" >>"${ZOOID_RECORD:-/dev/null}"
		return
	fi
	# Minimising is bounded by count: bounded by time it can outlive the run,
	# which go test then reports as a failure of the target.
	for _ in 1 2; do
		if (cd "$package" && "$logs/$(tr / _ <<<"$package").test" -test.run='^$' -test.fuzz="^$target\$" -test.fuzztime="$time" \
			-test.fuzzminimizetime=20x -test.parallel=1 -test.fuzzcachedir="$corpus/$package") >"$log" 2>&1 || ended "$log"; then
			echo "ok    $package $target  $(grep -o 'execs: [0-9]*' "$log" | tail -1)"
			return 0
		fi
		grep -q 'Failing input written' "$log" && break
	done
	echo "FAIL  $package $target"
	cat "$log"
	return 1
}
export -f build one ended
export time go logs corpus
echo "$targets" | cut -d' ' -f1 | uniq | xargs -P 2 -L 1 bash -c 'build "$@"' _
echo "$targets" | awk -v d="$logs" '{print $1, $2, d "/" NR}' | xargs -P 2 -L 1 bash -c 'one "$@"' _
