#!/usr/bin/env bash
# Measures Zooid, a real Apache ZooKeeper and the floor (sockets, framing and a
# synced log, nothing else) in interleaved rounds, and writes the table into
# docs/performance.md.
#   test/bench-compare.sh [ROUNDS] [more flags of zooid bench compare]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5}
shift || true
test/compat/install.sh >&2
cache=${ZOOID_COMPAT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zooid-compat}
jars="$cache/apache-3.9/*"
table=$(mktemp)
trap 'rm -f "$table"' EXIT

./bin/zooid bench compare -rounds "$rounds" -floor -markdown -names zooid,apache \
	-commit "$(git rev-parse --short HEAD)" "$@" \
	-a "exec $PWD/bin/zooid server {port} {dir} 2000 0" \
	-b "exec java -Dzookeeper.admin.enableServer=false -Dzookeeper.extendedTypesEnabled=true -cp '$jars' org.apache.zookeeper.server.quorum.QuorumPeerMain {port} {dir} 2000 0" \
	>"$table.raw"
sed -e "s|$PWD/||g" -e "s|$cache|CACHE|g" "$table.raw" >"$table"
rm -f "$table.raw"
awk -v table="$table" '
	/^<!-- table -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
	/^<!-- end of table -->/ { skip = 0 }
	!skip' docs/performance.md >"$table.new"
mv "$table.new" docs/performance.md
echo "docs/performance.md holds the new table"
