package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// txnBytes is a transaction as logs and proposals have it.
func txnBytes(session, zxid int64, op jute.Op, body []byte) []byte {
	b := jute.AppendInt(jute.AppendLong(nil, session), 1)
	b = jute.AppendInt(jute.AppendLong(jute.AppendLong(b, zxid), 1000+zxid), int32(op))
	return append(b, body...)
}

func createBytes(path string, data []byte, acl []jute.ACL, ephemeral bool, cversion int32) []byte {
	b := jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, path), data), acl)
	return jute.AppendInt(jute.AppendBool(b, ephemeral), cversion)
}

// randomTxn returns a transaction that may come next.
func randomTxn(rnd *rand.Rand, s *State, zxid int64) []byte {
	path := fmt.Sprintf("/n%d", rnd.IntN(60))
	if rnd.IntN(3) == 0 && s.nodes[path] != nil {
		path += fmt.Sprintf("/c%d", rnd.IntN(20))
	}
	z := s.nodes[path]
	session := int64(1 + rnd.IntN(5))
	acl := []jute.ACL{{Perms: jute.Perm(1 + rnd.IntN(31)), ID: jute.ID{Scheme: "world", ID: "anyone"}}}
	switch n := rnd.IntN(10); {
	case n == 0:
		if _, ok := s.Sessions[session]; ok {
			return txnBytes(session, zxid, jute.OpCloseSession,
				jute.AppendStrings(nil, append([]string{}, s.Ephemerals(session, "")...)))
		}
		return txnBytes(session, zxid, jute.OpCreateSession, jute.AppendInt(nil, 4000))
	case z == nil:
		parent, _ := SplitPath(path)
		_, there := s.Sessions[session]
		ephemeral := there && rnd.IntN(4) == 0 && parent != ""
		return txnBytes(session, zxid, jute.OpCreate2,
			createBytes(path, []byte(path), acl, ephemeral, s.nodes[parent].Stat.Cversion+1))
	case n < 3 && len(z.children) == 0:
		return txnBytes(session, zxid, jute.OpDelete, jute.AppendString(nil, path))
	case n < 4:
		return txnBytes(session, zxid, jute.OpSetACL,
			jute.AppendInt(jute.AppendACLs(jute.AppendString(nil, path), acl), z.Stat.Aversion+1))
	}
	return txnBytes(session, zxid, jute.OpSetData,
		jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), fmt.Append(nil, zxid)), z.Stat.Version+1))
}

// withDigest adds the digest that the tree has after a transaction.
func withDigest(t *testing.T, s *State, record []byte) []byte {
	t.Helper()
	if _, err := s.Apply(record); err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.AppendUint64(jute.AppendInt(record, DigestVersion), s.Digest())
}

// TestLiveFiles: what a live state writes while it changes is what Load reads, digests and all.
func TestLiveFiles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, Version2), 0o755); err != nil {
			t.Fatal(err)
		}
		s := NewLive()
		var log *LogWriter
		var walk *SnapshotWalk
		var file bytes.Buffer
		snapshots := 0
		for zxid := int64(1); zxid <= 1500; zxid++ {
			if zxid == 1 || rnd.IntN(300) == 0 && walk == nil { // the log that follows begins with what comes next
				if log != nil {
					if err := log.Close(); err != nil {
						t.Fatal(err)
					}
				}
				var err error
				if log, err = CreateLog(dir, zxid); err != nil {
					t.Fatal(err)
				}
				walk = s.Walk()
				file.Reset()
			}
			if walk != nil {
				// A few znodes at a time, as a large tree has it.
				end := walk.end
				walk.end = min(walk.at+1+rnd.IntN(3), end)
				walk.Step()
				walk.end = end
				if err := walk.Flush(&file); err != nil {
					t.Fatal(err)
				}
				if walk.at == end {
					file.Write(walk.Finish())
					if err := os.WriteFile(SnapshotPath(dir, walk.Zxid), file.Bytes(), 0o600); err != nil {
						t.Fatal(err)
					}
					if err := Purge(dir, walk.Zxid, func(string) bool { return true }); err != nil {
						t.Fatal(err)
					}
					walk = nil
					snapshots++
				}
			}
			if err := log.Append(withDigest(t, s, randomTxn(rnd, s, zxid))); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(log.Close(), WriteEpochs(dir, 7, 6)); err != nil {
			t.Fatal(err)
		}
		read, report, err := Load(Options{Dir: dir})
		if err != nil || report.Mismatch != nil || report.Compared == 0 || report.Uncovered != 0 || report.Orphans != 0 ||
			read.Digest() != s.Digest() || read.Zxid != s.Zxid || report.Epoch != 7 {
			t.Fatalf("seed %d: %v, %+v; digest %#x, want %#x", seed, err, report, read.Digest(), s.Digest())
		}
		if files, _, err := Files(dir); err != nil || files != 1 || snapshots < 2 {
			t.Errorf("seed %d: %d snapshots are left of %d, %v", seed, files, snapshots, err)
		}
		read.GoLive()
		equalLive(t, s, read)
	}
}

// equalLive compares what clients see.
func equalLive(t *testing.T, want, have *State) {
	t.Helper()
	if want.Len() != have.Len() || want.Digest() != have.Digest() {
		t.Fatalf("%d znodes, digest %#x; want %d, %#x", have.Len(), have.Digest(), want.Len(), want.Digest())
	}
	err := want.Znodes(func(z *Znode) error {
		other := have.Find(z.Path)
		if other == nil || have.Visible(other) != want.Visible(z) || !slices.Equal(other.ACL.List, z.ACL.List) ||
			!slices.Equal(slices.Sorted(z.Children()), slices.Sorted(other.Children())) {
			return fmt.Errorf("%q is %+v; want %+v", z.Path, other, z)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// received is a state as a leader sends it.
func received(s *State) []byte {
	walk := s.Walk()
	var b bytes.Buffer
	for more := true; more; {
		more = walk.Step()
		walk.Flush(&b)
	}
	walk.Finish()
	sent := b.Bytes()[16:] // no header
	return jute.AppendString(jute.AppendString(slices.Clone(sent), "/"), receivedEnd)
}

// TestReceive: a snapshot from a leader, what follows it, and each cut of it.
func TestReceive(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 1))
	s := NewLive()
	for zxid := int64(1); zxid <= 300; zxid++ {
		withDigest(t, s, randomTxn(rnd, s, zxid))
	}
	sent := received(s)
	have, rest, err := Receive(bytes.NewReader(append(slices.Clone(sent), "more"...)), ReceivedBytesMax, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := have.Settled(); err != nil {
		t.Error(err)
	}
	if more, err := io.ReadAll(rest); err != nil || string(more) != "more" {
		t.Errorf("behind it: %q, %v", more, err)
	}
	equalLive(t, s, have)
	for cut := 0; cut < len(sent); cut += 1 + cut/16 {
		if _, _, err := Receive(bytes.NewReader(sent[:cut]), ReceivedBytesMax, nil); err == nil {
			t.Fatalf("%d of %d bytes are taken", cut, len(sent))
		}
	}
	if _, _, err := Receive(bytes.NewReader(sent), int64(len(sent)-1), nil); !errors.Is(err, errTooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
	wrong := slices.Clone(sent)
	wrong[len(wrong)-1] ^= 1
	if _, _, err := Receive(bytes.NewReader(wrong), ReceivedBytesMax, nil); err == nil {
		t.Error("another end is taken")
	}
}

// TestLiveGivesBack: what is gone takes no memory for ever.
func TestLiveGivesBack(t *testing.T) {
	t.Parallel()
	s := NewLive()
	for n := range int64(30_000) {
		acl := []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "ip", ID: fmt.Sprint(n)}}}
		for i, record := range [][]byte{
			txnBytes(1, 3*n+1, jute.OpCreate2, createBytes("/a", nil, acl, true, int32(n+1))),
			txnBytes(1, 3*n+2, jute.OpDelete, jute.AppendString(nil, "/a")),
			txnBytes(1, 3*n+3, jute.OpSetACL, jute.AppendInt(jute.AppendACLs(jute.AppendString(nil, "/zookeeper"), acl), 1)),
		} {
			if _, err := s.Apply(record); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	if len(s.order) > 3*goneZnodes || len(s.acls) > 3*goneACLs || len(s.owned[1]) > 3*goneZnodes {
		t.Errorf("%d znodes, %d ACLs, %d owned are kept; there are %d", len(s.order), len(s.acls), len(s.owned[1]), s.Len())
	}
}

// TestLiveQuota: the stats of a quota are those of now.
func TestLiveQuota(t *testing.T) {
	t.Parallel()
	s := NewLive()
	acl := jute.WorldACL(jute.PermAll)
	for i, path := range []string{
		"/a", "/a/b", "/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats",
	} {
		if _, err := s.Apply(txnBytes(1, int64(i+1), jute.OpCreate2,
			createBytes(path, []byte("12345"), acl, false, 1))); err != nil {
			t.Fatal(err)
		}
	}
	stats := s.Find("/zookeeper/quota/a/zookeeper_stats")
	if data := s.VisibleData(stats); string(data) != "count=2,bytes=10" {
		t.Errorf("%q", data)
	}
	if st := s.Visible(stats); st.DataLength != int32(len("count=2,bytes=10")) {
		t.Errorf("the Stat says %d bytes", st.DataLength)
	}
	if data := s.VisibleData(s.Find("/a")); string(data) != "12345" {
		t.Errorf("%q", data)
	}
}
