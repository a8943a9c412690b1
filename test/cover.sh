#!/usr/bin/env bash
# Which lines of the core nothing reaches: tests of packages, the simulator, and real servers under test.
#   test/cover.sh CORE [PART...]   CORE is a list of packages with commas; parts are unit, rest, sim, crash and compat; all without any
# What each part reaches goes to bin/cover/PART, and may be there from before: only the parts named run again. The list,
# bin/cover/lines, is of all parts that are there. MOST is the percentage of statements that may be missed.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
core=${1:?name the packages of the core}
shift
parts=${*:-unit rest sim crash compat}
folder=$PWD/bin/cover
mkdir -p "$folder"

# own lists the packages whose tests are the core's own.
own() { "$go" list ${core//,/ } ./internal/server ./internal/quorum/...; }

# tests PACKAGE...: runs their tests, of which the simulator's are few.
tests() { "$go" test -vet=off -cover -coverpkg="$core" "$@" -count=1 -timeout 1h -args -test.gocoverdir="$GOCOVERDIR"; }

# real VARIABLE PACKAGE FLAG...: runs tests whose servers write down what they reach, once a second, since most are killed.
real() {
	local variable=$1 package=$2
	shift 2
	"$go" test -c -o "$folder/real.test" "$package"
	(cd "$package" && env "$variable=1" GOFLAGS="-tags=flushcover -cover -covermode=atomic -coverpkg=$core" \
		"$folder/real.test" -test.count=1 -test.timeout=2h "$@")
}

for part in $parts; do
	rm -rf "${folder:?}/$part"
	mkdir -p "$folder/$part"
	export GOCOVERDIR=$folder/$part
	echo "== $part"
	# A test that fails is for others to judge: what it reached counts.
	case $part in
	unit) tests $(own) || true ;;
	rest) tests $("$go" list ./... | grep -vxF "$(own)") || true ;;
	sim)
		"$go" test -c -vet=off -cover -coverpkg="$core" -o "$folder/sim.test" ./internal/proof/sim
		for profile in '' paced beginnings hanging standing narrow recovering; do # the first has all kinds of faults
			(cd internal/proof/sim && "$folder/sim.test" -test.run='^TestSeeds$' -test.timeout=2h -test.gocoverdir="$GOCOVERDIR" \
				-sim.profile "$profile" -sim.seeds "${SEEDS:-60}" -sim.seconds 60) || true
		done
		;;
	crash) real ZOOID_CRASH ./test/crash || true ;;
	compat) real ZOOID_COMPAT ./test/compat -test.short || true ;;
	*)
		echo "there is no part $part" >&2
		exit 2
		;;
	esac
done
rm -f "$folder"/*.test
of=
for part in unit rest sim crash compat; do
	[ ! -d "$folder/$part" ] || of=$of,$folder/$part
done
"$go" tool covdata textfmt -i="${of#,}" -o="$folder/profile"
"$go" run ./test/cover -most "${MOST:-100}" "$folder/profile" >"$folder/lines" && code=0 || code=$?
cat "$folder/lines"
exit "$code"
