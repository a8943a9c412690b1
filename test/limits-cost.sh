#!/bin/sh
# What limits of clients, fairness under overload, the memory account, policies and the other checks of each request cost:
# interleaved rounds of the same work on this checkout's server and on the same server built without them (test/cost.sh says
# what it prints, and when it fails). The machine must be quiet. Arguments go to zooid bench compare:
#
#	test/limits-cost.sh -rounds 25 -time 1s
#	LEAST=0 test/limits-cost.sh -rounds 1 -time 1s    # that it works
set -eu
cd "$(dirname "$0")/.."
: "${LEAST:=0.98}"
dir=$(mktemp -d)
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

. test/overlay.sh
. test/cost.sh
# first FUNCTION STATEMENT is an expression that puts a statement before all else of a function.
first() { printf '%s' "s/^func $1(.*{\$/&\\n\\t$2/"; }

# limits of connections, addresses, identities and paths
without internal/replica/receive.go 's/, limits: r\.limiter\.inForce\.Load()}/}/' 's/if !t\.r\.auth\.Satisfied(t\.c\.identities()) {/if false {/'
without internal/replica/pace.go "$(first '(l \*limiter) MayConnect' 'return true')" "$(first '(l \*limiter) belongs' 'return true')"
without internal/replica/pathlimits.go "$(first '(l \*limiter) mayWatch' 'return true')"
without internal/replica/held.go "$(first '(l \*clientLimits) noteWatched' 'return')"
without internal/replica/limiter.go "$(first '(l \*limiter) noteLimits' 'return')" "$(first '(r \*Replica) noteSizes' 'return')"
# overload: signs of it, fairness, what goes first, requests that wait too long or whose client is gone
without internal/replica/overload.go "$(first '(o \*overload) noteWait' 'return')" "$(first '(o \*overload) Overloaded' 'return false')" \
	"$(first '(t \*readBatch) holdsBack' 'return false')" "$(first '(t \*readBatch) isFirst' 'return false')" "$(first 'goesFirst' 'return false')"
without internal/replica/overdue.go "$(first '(r \*Replica) EndOverdue' 'return')" "$(first '(c \*Client) stir' 'return')"
without internal/proposals/queue.go "$(first '(p \*Queue) Gone' 'return')"
# the memory account, and the disk's
without internal/replica/account.go "$(first '(r \*Replica) AccountMemory' 'return memory.Use{}, memory.RefuseNone')"
without internal/replica/admit.go "$(first '(t \*readBatch) affords' 'return true')" "$(first '(t \*readBatch) isLargeEcho' 'return false')" 's/t\.r\.room\.none\.Load() ||/false ||/'
# policies, of which there are none
without internal/tree/policy.go 's/if a\.policy == nil {/if true {/' "$(first '(a \*Access) grants' 'return true')" \
	"$(first '(a \*Access) notePolicy' 'return')" 's/return a\.policy == nil ||/return true ||/'

fits
CGO_ENABLED=0 go build -trimpath -pgo=cmd/zooid/load.pgo -o "$dir/with" ./cmd/zooid
CGO_ENABLED=0 go build -trimpath -pgo=cmd/zooid/load.pgo -overlay "$(overlay)" -o "$dir/without" ./cmd/zooid
serve without "${PORT:-7996}"
without=$started
serve with "$((${PORT:-7996} + 1))"
compare "$started" "$without" get-16x16,set-16x16,mixed-16x16,create-16x16 "$@"
