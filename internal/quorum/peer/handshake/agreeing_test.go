package handshake

import (
	"testing"
	"time"
)

// TestAgreeing: a member that doesn't know the secret is nothing to warn of while a new ensemble agrees on it; it is
// later, and after a restart.
func TestAgreeing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := OpenKeyring(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k.Agreeing() {
		t.Error("nothing is agreed on yet")
	}
	if err := k.Adopt(Secret{1}); err != nil {
		t.Fatal(err)
	}
	if !k.Agreeing() {
		t.Error("others may not have the secret yet")
	}
	k.agreedAt = time.Now().Add(-agreeingFor)
	if k.Agreeing() {
		t.Error("others have had their time")
	}
	if k, err = OpenKeyring(dir, nil); err != nil || !k.Secured() || k.Agreeing() {
		t.Errorf("after a restart: %v", err)
	}
}
