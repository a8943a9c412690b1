// Package verdict marks failures of tests that no second run can excuse.
//
// Tests of real processes fail now and then for want of a processor, so `make real` runs a failed test once more,
// alone (test/rerun). What the order checker, the ledger of promises or a digest reports is different: one history that
// breaks a promise proves a bug, however rare it is. A test that judges by these calls [Final] before it fails.
package verdict

import "testing"

// Key is the attribute that Final sets; test/rerun reads it from the output of go test.
const Key = "final"

// By whom a failure can be found that is final.
const (
	Checker = "the order checker"      // internal/proof/check, or what a test compares with acknowledged writes
	Ledger  = "the ledger of promises" // internal/proof/sim
	Digest  = "a digest"               // of replicated state, or of a tree on both sides of a move
	Crash   = "a crash"                // a panic, a broken invariant or a data race inside a server
)

// Final marks t: if it fails, it isn't run again. by is one of the names above. It doesn't fail the test.
func Final(t testing.TB, by string) {
	t.Helper()
	t.Attr(Key, by)
}
