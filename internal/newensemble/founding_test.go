package newensemble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestRefoundCutShort has each rename of a founding fail, as if the power went. The server's next start finishes it, or
// has all that it had.
func TestRefoundCutShort(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"one directory", "two"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			cut := errors.New("cut short")
			for steps, done := 0, false; !done; steps++ {
				p := places(t)[which]
				lay(t, p, 3, lastEntry)
				s, err := Read(p)
				if err != nil {
					t.Fatal(err)
				}
				act, err := NewAct(ActFounded, 1, s, "", "lines", time.UnixMilli(1e12))
				if err != nil {
					t.Fatal(err)
				}
				e, err := beginExchange(p.DataDir, p.LogDir)
				if err != nil {
					t.Fatal(err)
				}
				left := steps
				e.rename = func(from, to string) error {
					if left--; left < 0 {
						return cut
					}
					return os.Rename(from, to)
				}
				err = e.refound(0xdef, act, func(d *storage.Dir) error { return Begin(d, s.tree, 1, 2) })
				if done = err == nil; !done && !errors.Is(err, cut) {
					t.Fatal(err)
				}
				if Begun(p.DataDir, p.LogDir) {
					t.Fatalf("after %d renames a server would refuse to start", steps)
				}
				if err := finishFounding(p.DataDir, p.LogDir); err != nil {
					t.Fatalf("after %d renames: %v", steps, err)
				}
				again, err := Read(p)
				if err != nil {
					t.Fatalf("after %d renames: %v", steps, err)
				}
				known := again.Cluster == oldCluster || again.Cluster == 0xdef
				if !known || again.Znodes != s.Znodes || unfinished(p.DataDir, p.LogDir) {
					t.Errorf("after %d renames: cluster %x with %d znodes of %d", steps, again.Cluster, again.Znodes, s.Znodes)
				}
				if done && again.Cluster != 0xdef {
					t.Errorf("it is done, and the cluster is %x", again.Cluster)
				}
			}
		})
	}
}

// TestFoundingOrder: an order is recorded when it is carried out, and is gone afterwards, or when it is dropped.
func TestFoundingOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, why := range []string{"", "  ", strings.Repeat("x", WhyMax+1)} {
		if OrderFounding(dir, "ann", why) == nil || FoundingOrdered(dir) {
			t.Errorf("an order without a usable reason (%d bytes) is accepted", len(why))
		}
	}
	if err := EndFoundingOrder(dir, 1, "7", time.UnixMilli(1e12)); err != nil {
		t.Errorf("without an order: %v", err)
	}
	if dropped, err := DropFoundingOrder(dir); dropped || err != nil {
		t.Errorf("without an order: dropped %v, %v", dropped, err)
	}
	for _, carriedOut := range []bool{true, false} {
		if err := OrderFounding(dir, "ann", "server 3 is gone"); err != nil || !FoundingOrdered(dir) {
			t.Fatal(err)
		}
		if st, err := os.Stat(filepath.Join(dir, orderName)); err != nil || st.Mode().Perm() != 0o644 {
			t.Errorf("a server that runs as another user can't read the order: %v, %v", st.Mode(), err)
		}
		if carriedOut {
			if err := EndFoundingOrder(dir, 1, "00000000000000ff", time.UnixMilli(1e12)); err != nil {
				t.Fatal(err)
			}
		} else if dropped, err := DropFoundingOrder(dir); !dropped || err != nil {
			t.Errorf("dropped %v, %v", dropped, err)
		}
		if FoundingOrdered(dir) {
			t.Error("the order is still there")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, RecordName))
	text := string(b)
	if err != nil || strings.Count(text, "server 3 is gone") != 1 || !strings.Contains(text, "00000000000000ff") {
		t.Errorf("the record is %s, %v", b, err)
	}
}

// cutShort appends to a record what a crash or a full disk leaves of an act: it is longer than a whole one.
func cutShort(t *testing.T, record string) {
	t.Helper()
	f, err := os.OpenFile(record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"what":"` + strings.Repeat("x", 1000)); err != nil {
		t.Fatal(err)
	}
}

// TestSetAsideLast: only the last act says whether a server is to join, whatever was cut short before or after it.
func TestSetAsideLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		what  string
		aside bool
	}{{"", false}, {ActAside, true}, {ActNew, false}, {ActAside, true}, {ActOrdered, false}} {
		if c.what != "" {
			a, err := NewAct(c.what, 1, &Survivor{}, "ann", "why", time.UnixMilli(1e12))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.record(dir); err != nil {
				t.Fatal(err)
			}
		}
		if aside, err := SetAsideLast(dir); aside != c.aside || err != nil {
			t.Errorf("after %q: set aside last %v, %v", c.what, aside, err)
		}
		cutShort(t, filepath.Join(dir, RecordName))
		if aside, err := SetAsideLast(dir); aside != c.aside || err != nil {
			t.Errorf("after %q, and an act that was cut short: set aside last %v, %v", c.what, aside, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, RecordName), []byte("{\"what\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SetAsideLast(dir); err == nil {
		t.Error("a damaged record tells something")
	}
}
