#!/usr/bin/env bash
# Plants failures into test/compat, which no file keeps, and checks what the ring of real processes makes of them: one that
# fails each time refuses, one that fails every second time lands and is named, one that a digest found refuses at once.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# planted BODY: runs the step compat with TestPlanted alone; says how that ended.
planted() {
	rm -f "$work/once"
	cat >"$work/planted_test.go" <<-END
		package compat

		import (
			"os"
			"testing"

			"github.com/zooid-project/zooid/test/verdict"
		)

		var _, _ = os.Stat, verdict.Final

		func TestPlanted(t *testing.T) { $1 }
	END
	printf '{"Replace": {"%s": "%s"}}' "$PWD/test/compat/planted_test.go" "$work/planted_test.go" >"$work/overlay.json"
	code=0
	STEPS=compat COMPAT="-overlay $work/overlay.json -run ^TestPlanted\$\$" test/ring.sh real >"$work/log" 2>&1 || code=$?
}

# expect CODE LINE...: the ring ended with this code and printed these lines.
expect() {
	local want=$1 line
	shift
	[ "$code" = "$want" ] || { cat "$work/log"; echo "FAIL: exit code $code, want $want"; exit 1; }
	for line in "$@"; do
		grep -qF -- "$line" "$work/log" || { cat "$work/log"; echo "FAIL: the ring doesn't print: $line"; exit 1; }
	done
}

planted 't.Fatal("planted: always")'
expect 1 'TestPlanted, alone' 'TestPlanted failed twice' 'failed:' '|     planted_test.go:12: planted: always' '0 passed, 1 failed, 0 skipped'
echo "ok    a failure each time refuses, after a second run"

planted 'if _, err := os.Stat("'"$work"'/once"); err != nil { os.WriteFile("'"$work"'/once", nil, 0o600); t.Fatal("planted: once") }'
expect 0 'TestPlanted, alone' 'unsteady:' 'planted: once' '1 passed, 0 failed, 0 skipped'
echo "ok    a failure every second time lands, and is named with what it said"

planted 'verdict.Final(t, verdict.Digest); t.Fatal("planted: digests differ")'
expect 3 'found by a digest: the failure is final' 'final:' 'planted: digests differ' '0 passed, 1 failed, 0 skipped'
! grep -q 'TestPlanted, alone' "$work/log" || { echo "FAIL: it ran again"; exit 1; }
echo "ok    a digest's failure refuses at once"
