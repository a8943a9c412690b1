package handshake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keyring returns what a server without a configured secret has in a data directory,
// "" for none.
func keyring(t *testing.T, dir string) *Keyring {
	t.Helper()
	k, err := OpenKeyring(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestDamagedKeyring: a server doesn't start as if it knew no secret.
func TestDamagedKeyring(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "x", keyringHead + "\nagreed 00\n", keyringHead + "\nagred " + strings.Repeat("00", 32) + "\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, keyringName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKeyring(dir, nil); err == nil || !strings.Contains(err.Error(), "zooid allow-join") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestKeyringLimits: candidates and configured secrets are bounded, and the choice is
// the lowest whatever comes.
func TestKeyringLimits(t *testing.T) {
	t.Parallel()
	k := keyring(t, "")
	lowest, err := k.Choice()
	if err != nil {
		t.Fatal(err)
	}
	for i := range candidatesMax - 1 {
		theirs := SecretOf(string(rune('a' + i)))
		lowest = min2(lowest, theirs)
		if got, err := k.Merge(theirs); err != nil || got != lowest {
			t.Fatalf("candidate %d: the choice is not the lowest, %v", i+2, err)
		}
	}
	if _, err := k.Merge(SecretOf("one more")); err == nil || len(k.Offers()) != candidatesMax {
		t.Errorf("%d candidates are kept, %v", len(k.Offers()), err)
	}
	if _, err := OpenKeyring("", make([]Secret, secretsMax+1)); err == nil {
		t.Errorf("%d secrets are taken", secretsMax+1)
	}
}

// TestPermissionEnds: what an operator allowed long ago allows nothing.
func TestPermissionEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := keyring(t, dir)
	for age, want := range map[time.Duration]bool{0: true, admitWindow + time.Second: false} {
		if _, err := AllowJoin(dir, 3, ""); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, admitName(3)), at, at); err != nil {
			t.Fatal(err)
		}
		if k.Admits(4) || k.Admits(3) != want || k.Admits(3) {
			t.Errorf("a permission %v old doesn't hold as it should", age)
		}
	}
	k.Admit(5)
	k.Entered(5)
	if k.Admits(5) {
		t.Error("a server that knows the secret may have it again")
	}
}

func min2(a, b Secret) Secret {
	if string(a[:]) < string(b[:]) {
		return a
	}
	return b
}

// TestAdmittedAddress: an operator lets a server in at an address of up to admitAddrMax bytes.
func TestAdmittedAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for size, taken := range map[int]bool{admitAddrMax: true, admitAddrMax + 1: false} {
		addr := strings.Repeat("x", size-len(":2888")) + ":2888"
		if _, err := AllowJoin(dir, 3, addr); err != nil {
			t.Fatal(err)
		}
		if got := keyring(t, dir).AdmittedAt(3); got == addr != taken {
			t.Errorf("of an address of %d bytes %q is left", size, got)
		}
	}
}
