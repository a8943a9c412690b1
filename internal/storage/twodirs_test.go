package storage

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// twoDirs fills a data directory and a log directory: 30 entries, and if purged a snapshot of 20 that the log begins
// at.
func twoDirs(t *testing.T, purged bool) *MemFS {
	t.Helper()
	memory := NewMemFS()
	o := smallOptions(memory, 1)
	o.LogDir = "log"
	d := mustOpen(t, o)
	for i := uint64(1); i <= 30; i++ {
		if err := d.Log().Append(hs(1, 0, i-1), batch(i, 1, 1, 600), true); err != nil {
			t.Fatal(err)
		}
	}
	if purged {
		takeSnapshot(t, d, 20, []byte("x"))
		if _, segments, err := d.Purge(1, 0); err != nil || segments == 0 {
			t.Fatalf("%d segments purged, %v", segments, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return memory
}

// move takes the files of one directory away, or to another one.
func move(t *testing.T, memory *MemFS, from, to string, keep func(name string) bool) {
	t.Helper()
	names, err := memory.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if keep != nil && keep(n) {
			continue
		}
		content := []byte(nil)
		memory.Damage(path.Join(from, n), func(b []byte) []byte { content = b; return nil })
		if to != "" {
			memory.Damage(path.Join(to, n), func([]byte) []byte { return content })
		}
	}
}

func notIdentity(name string) bool { return name != identityName }
func notLog(name string) bool      { return !strings.HasSuffix(name, segmentSuffix) }

// TestTwoDirectories loses, empties and mixes up the data directory and the log directory. What is complete is opened,
// what only the last version's layout lacks is made good, and everything else is refused, with nothing changed.
func TestTwoDirectories(t *testing.T) {
	t.Parallel()
	both := func(o *Options) { o.LogDir = "log" }
	for _, c := range []struct {
		name   string
		purged bool
		hurt   func(memory *MemFS)
		want   string // in the error; "" for none
		lacks  string // MissingError.Dir
		told   bool   // Recovery.NewDataDir
		nobody bool   // Recovery.IdentityMissing
	}{
		{name: "nothing happened"},
		{name: "nothing happened, purged", purged: true},
		{name: "the layout of before", purged: true, told: true,
			hurt: func(m *MemFS) { move(t, m, "data", "", notIdentity) }},
		{name: "only the data directory says whose it is", purged: true, nobody: true,
			hurt: func(m *MemFS) { move(t, m, "log", "", notIdentity) }},
		{name: "data directory lost", told: true, hurt: func(m *MemFS) { move(t, m, "data", "", nil) }},
		{name: "data directory lost, purged", purged: true, lacks: "data", want: "snapshots up to there are missing",
			hurt: func(m *MemFS) { move(t, m, "data", "", nil) }},
		{name: "log directory lost", lacks: "log", want: "the log is missing",
			hurt: func(m *MemFS) { move(t, m, "log", "", nil) }},
		{name: "log directory lost, purged", purged: true, lacks: "log", want: "the log is missing",
			hurt: func(m *MemFS) { move(t, m, "log", "", nil) }},
		{name: "segments lost", lacks: "log", want: "the log is missing",
			hurt: func(m *MemFS) { move(t, m, "log", "", notLog) }},
		{name: "log in the data directory", lacks: "log", want: "lies in the data directory",
			hurt: func(m *MemFS) { move(t, m, "log", "data", nil) }},
		{name: "two logs", lacks: "log", want: "both hold log segments",
			hurt: func(m *MemFS) { m.Damage("data/"+segmentName(1), func([]byte) []byte { return []byte("x") }) }},
	} {
		memory := twoDirs(t, c.purged)
		if c.hurt != nil {
			c.hurt(memory)
		}
		o := smallOptions(memory, 2)
		both(&o)
		before := memory.Clone()
		cluster, idErr := ReadIdentity(memory, "data", "log")
		d, err := Open(o)
		if c.want == "" {
			if err != nil || idErr != nil || cluster != testCluster {
				t.Errorf("%s: cluster %d (%v), open: %v", c.name, cluster, idErr, err)
				continue
			}
			if last, _ := d.Log().LastIndex(); last != 30 || d.Recovered().NewDataDir != c.told {
				t.Errorf("%s: last index %d, told of a new data directory: %v", c.name, last, d.Recovered().NewDataDir)
			}
			if got := d.Recovered().IdentityMissing; got != c.nobody {
				t.Errorf("%s: told that IDENTITY is missing: %v", c.name, got)
			}
			for _, dir := range []string{"data", "log"} {
				if id, err := readIdentity(memory, dir); err != nil || id != testCluster {
					t.Errorf("%s: %s is of cluster %d (%v)", c.name, dir, id, err)
				}
			}
			continue
		}
		missing := (*MissingError)(nil)
		if !errors.As(err, &missing) || missing.Dir != c.lacks || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want: %s", c.name, err, c.want)
		}
		if errors.Is(idErr, fs.ErrNotExist) {
			t.Errorf("%s: it is taken for new", c.name)
		}
		if !sameFiles(memory, before) {
			t.Errorf("%s: a refused start has changed files", c.name)
		}
	}
}

// TestIdentityOfNewDirectories: both emptied are new, a crash during the first start leaves a log that says whose it
// is, a directory without the log that was configured away is refused, and so is one of another cluster.
func TestIdentityOfNewDirectories(t *testing.T) {
	t.Parallel()
	memory := twoDirs(t, true)
	move(t, memory, "data", "", nil)
	move(t, memory, "log", "", nil)
	for _, dir := range []string{"log", "nowhere", ""} {
		if _, err := ReadIdentity(memory, "data", dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("new directories data and %q: %v", dir, err)
		}
	}

	memory = twoDirs(t, false)
	move(t, memory, "data", "", nil)
	move(t, memory, "log", "", notIdentity)
	if cluster, err := ReadIdentity(memory, "data", "log"); err != nil || cluster != testCluster {
		t.Errorf("a log without an identity: cluster %d, %v", cluster, err)
	}

	memory = twoDirs(t, true)
	damage := (*DamageError)(nil)
	for name, err := range map[string]error{
		"identity": func() error { _, err := ReadIdentity(memory, "data", ""); return err }(),
		"open":     func() error { _, err := Open(smallOptions(memory, 2)); return err }(),
	} {
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), "dataLogDir") {
			t.Errorf("%s of the data directory alone: %v", name, err)
		}
	}

	other := NewMemFS()
	o := smallOptions(other, 1)
	o.LogDir, o.ClusterID = "log", testCluster+1
	if err := mustOpen(t, o).Close(); err != nil {
		t.Fatal(err)
	}
	var foreign []byte
	other.Damage("data/"+identityName, func(b []byte) []byte { foreign = b; return b })
	memory.Damage("data/"+identityName, func([]byte) []byte { return foreign })
	o = smallOptions(memory, 2)
	o.LogDir = "log"
	cluster := (*ClusterError)(nil)
	if _, err := Open(o); !errors.As(err, &cluster) || cluster.Found != testCluster+1 {
		t.Errorf("a data directory of another cluster: %v", err)
	}
}
