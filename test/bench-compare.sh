#!/usr/bin/env bash
# Measures Zooid, a real Apache ZooKeeper and the floor (sockets, framing and a
# synced log, nothing else) in interleaved rounds, and writes what was found and
# how far the goals are met into docs/performance.md.
#   test/bench-compare.sh [more flags of zooid bench compare]
# From the environment:
#   PART=throughput|latency|ensemble|sessions|big   only these, separated by blanks; the page is
#               made of all parts measured so far, so that each can be measured anew
#   ROUNDS=5    the median of so many; heavy profiles take fewer
#   QUICK=1     one round, short times, small sizes: to see that all works
#   OUT=zooid-data/bench   where results and data directories go: a real disk, not memory
#   HEAP=4g     of Apache ZooKeeper
#   FLOOR=...   the command of another floor
#   PAGE=docs/performance.md   the page to write, a copy of that one with the new table; a quick
#               run writes OUT/quick/quick.md
set -euo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-zooid-data/bench}
rounds=${ROUNDS:-5}
page=${PAGE:-docs/performance.md}
flags=(-floor)
warms=1s,5s,1s
if [ -n "${FLOOR:-}" ]; then flags=(-floor-command "$FLOOR"); fi
if [ -n "${QUICK:-}" ]; then
	rounds=${ROUNDS:-1}
	out=$out/quick
	page=${PAGE:-$out/quick.md}
	warms=500ms,1s,500ms
	flags+=(-quick)
fi

test/compat/install.sh >&2
cache=${ZOOID_COMPAT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zooid-compat}
apache="$cache/apache-3.9/*"
version=$(cd "$cache/apache-3.9" && ls zookeeper-[0-9]*.jar | sed 's/\.jar$//')
mkdir -p "$out/data"
out=$(cd "$out" && pwd)
cp bin/zooid "$out/zooid" # a build meanwhile must not change what is measured
ulimit -n "$(ulimit -Hn)" # 10 000 sessions on each side
if [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt 16384 ]; then
	echo "bench-compare: $(ulimit -n) open files are too few for 10 000 sessions" >&2
fi
commit=$(git rev-parse --short HEAD)
if ! git diff --quiet HEAD -- . ':!docs'; then commit="$commit with changes"; fi

trap 'rm -rf "$out/data"' EXIT
trap 'exit 1' INT TERM # or an interrupt would only end the part it comes in
failed=
for part in ${PART:-throughput latency ensemble sessions big}; do
	echo "bench-compare: $part, $(date -u +%T)" >&2
	"$out/zooid" bench compare -json -rounds "$rounds" -profiles "$part" -names zooid,apache,floor -warms "$warms" \
		-dir "$out/data" -commit "$commit" "${flags[@]}" "$@" \
		-a "exec $out/zooid server {config}" \
		-b "exec java -Xmx${HEAP:-4g} -cp '$apache' org.apache.zookeeper.server.quorum.QuorumPeerMain {config}" \
		>"$out/$part.new" || failed="$failed $part"
	if [ -s "$out/$part.new" ]; then mv "$out/$part.new" "$out/$part.json"; fi
done
echo "bench-compare: measured, $(date -u +%T)" >&2

if [ "$page" != docs/performance.md ]; then cp docs/performance.md "$page"; fi
files=()
for part in throughput latency ensemble sessions big; do
	if [ -f "$out/$part.json" ]; then files+=("$out/$part.json"); fi
done
"$out/zooid" bench page "${files[@]}" | sed -e "s|$out/||g" -e "s|$cache|CACHE|g" -e "s/^- apache: /&$version, /" >"$out/table"
awk -v table="$out/table" '
	/^<!-- table -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
	/^<!-- end of table -->/ { skip = 0 }
	!skip' "$page" >"$out/page"
mv "$out/page" "$page"
rm "$out/table"
echo "$page holds the new table, $out/*.json what it is made of"
if [ -n "$failed" ]; then
	echo "bench-compare: some trials failed in:$failed" >&2
	exit 1
fi
