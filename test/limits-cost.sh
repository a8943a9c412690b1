#!/bin/sh
# What limits of clients, fairness under overload, the memory account, policies and the other checks of each request cost:
# interleaved rounds of the same work on this checkout's server and on the same server built without them. It prints medians,
# with the least and the greatest, of the ratios within a round: operations per second with / without, processor time for each
# without / with, so that 1 is no cost and 0.98 are two percent. It fails if one of those of all work is below LEAST. The machine
# must be quiet. Arguments go to zooid bench compare:
#
#	test/limits-cost.sh -rounds 9 -time 10s
#	LEAST=0 test/limits-cost.sh -rounds 1 -time 1s    # that it works
set -eu
cd "$(dirname "$0")/.."
: "${LEAST:=0.98}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

. test/overlay.sh
# first FUNCTION STATEMENT is an expression that puts a statement before all else of a function.
first() { printf '%s' "s/^func $1(.*{\$/&\\n\\t$2/"; }

# limits of connections, addresses, identities and paths
without internal/replica/receive.go 's/, bounds: r\.bounds\.Load()}/}/' 's/if !t\.r\.auth\.Satisfied(t\.c\.identities()) {/if false {/'
without internal/replica/pace.go "$(first '(r \*Replica) MayConnect' 'return true')" "$(first '(r \*Replica) belongs' 'return true')"
without internal/replica/within.go "$(first '(r \*Replica) mayWatch' 'return true')"
without internal/replica/bounds.go "$(first '(r \*Replica) noteBounds' 'return')" "$(first '(r \*Replica) noteSizes' 'return')"
# overload: signs of it, fairness, what goes first, requests that wait too long or whose client is gone
without internal/replica/overload.go "$(first '(r \*Replica) noteWait' 'return')" "$(first '(r \*Replica) Overloaded' 'return false')" \
	"$(first '(t \*readBatch) holdsBack' 'return false')" "$(first '(t \*readBatch) isFirst' 'return false')" "$(first 'goesFirst' 'return false')"
without internal/replica/overdue.go "$(first '(r \*Replica) EndOverdue' 'return')" "$(first '(c \*Client) stir' 'return')"
without internal/replica/outbox.go "$(first '(o \*outbox) drop' 'return')"
# the memory account, and the disk's
without internal/replica/account.go "$(first '(r \*Replica) AccountMemory' 'return memory.Use{}, memory.RefuseNone')"
without internal/replica/admit.go "$(first '(t \*readBatch) affords' 'return true')" 's/t\.r\.noRoom\.Load() ||/false ||/'
# policies, of which there are none
without internal/tree/policy.go 's/if t\.policy == nil {/if true {/' "$(first '(t \*Tree) grants' 'return true')" "$(first '(t \*Tree) takesPolicy' 'return true')" \
	"$(first '(t \*Tree) notePolicy' 'return')" 's/{ return path == pathLimits .* }$/{ return false }/' 's/return t\.policy == nil ||/return true ||/'

CGO_ENABLED=0 go build -trimpath -pgo=cmd/zooid/load.pgo -o "$dir/with" ./cmd/zooid
CGO_ENABLED=0 go build -trimpath -pgo=cmd/zooid/load.pgo -overlay "$(overlay)" -o "$dir/without" ./cmd/zooid
"$dir/with" bench compare -json -names with,without -profiles get-16x16,set-16x16,mixed-16x16,create-16x16 \
	-a "exec $dir/with server {config}" -b "exec $dir/without server {config}" "$@" >"$dir/trials"
awk -v least="$LEAST" '
function field(name,   at) { # of a line of JSON
	if (!match($0, "\"" name "\":")) return ""
	at = substr($0, RSTART + RLENGTH)
	sub(/[,}].*/, "", at)
	gsub(/"/, "", at)
	return at
}
function show(work, list, n,   i, j, v, x) {
	split(list, v, " ")
	for (i = 2; i <= n; i++) # by insertion
		for (j = i; j > 1 && v[j-1] + 0 > v[j] + 0; j--) { x = v[j]; v[j] = v[j-1]; v[j-1] = x }
	x = (v[int((n+1)/2)] + v[int(n/2)+1]) / 2
	printf "%-44s %.3f (%.3f-%.3f, %d rounds)\n", work, x, v[1], v[n], n
	return x
}
field("ops_per_s") > 0 && field("failed") == "" {
	key = field("profile") " " field("round")
	ops[field("server"), key] = field("ops_per_s")
	cpu[field("server"), key] = field("server_cpu_us_per_op")
	if (field("server") == "without") keys[++count] = key
}
END {
	for (i = 1; i <= count; i++) {
		k = keys[i]
		if (!(("with", k) in ops) || cpu["with", k] <= 0) continue
		split(k, part, " ")
		work = part[1]
		if (!(work in n)) order[++works] = work
		n[work]++; all++
		o = ops["with", k] / ops["without", k]; c = cpu["without", k] / cpu["with", k]
		opsOf[work] = opsOf[work] " " o; cpuOf[work] = cpuOf[work] " " c
		opsAll = opsAll " " o; cpuAll = cpuAll " " c
	}
	if (!all) { print "test/limits-cost.sh: no round has both figures"; exit 1 }
	for (i = 1; i <= works; i++) {
		show(order[i] ": operations per second", opsOf[order[i]], n[order[i]])
		show(order[i] ": processor time", cpuOf[order[i]], n[order[i]])
	}
	o = show("all work: operations per second", opsAll, all)
	c = show("all work: processor time", cpuAll, all)
	if (o < least || c < least) { print "the checks cost more than they may: less than " least; exit 1 }
}' "$dir/trials"
