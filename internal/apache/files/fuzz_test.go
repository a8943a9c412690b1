package files

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/zooid-project/zooid/jute"
)

func FuzzSnapshot(f *testing.F) {
	whole, err := os.ReadFile(filepath.Join(apacheDir(f, nil), Version2, "snapshot.0"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-digestBytes])
	f.Add(whole[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _, offset, err := readSnapshot(bytes.NewReader(b), nil)
		if err == nil && (s.nodes[""] == nil || len(s.order) < len(s.nodes)) ||
			err != nil && (offset < 0 || offset > int64(len(b))) {
			t.Errorf("offset %d, %v", offset, err)
		}
	})
}

func FuzzLog(f *testing.F) {
	log := newLog().add(jute.OpCreateSession, 5, 1, jute.AppendInt(nil, 4000), 9).
		add(jute.OpCreate, 5, 2, createBody("/a", "1", true, 1), 9).add(jute.OpCloseSession, 5, 3,
		jute.AppendStrings(nil, []string{"/a"}), 9)
	f.Add(log.b)
	f.Add(log.b[:60])
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newState()
		s.put(Znode{})
		end, err := readLog(bytes.NewReader(b), func(record []byte) error {
			tx, err := parseTxn(record)
			if err == nil {
				_, err = s.apply(&tx)
			}
			return err
		})
		if end.offset > int64(len(b)) {
			t.Errorf("the end is at %d of %d bytes: %v", end.offset, len(b), err)
		}
	})
}

// FuzzTransaction reaches behind the checksum of a record.
func FuzzTransaction(f *testing.F) {
	for _, seed := range []struct {
		op   jute.Op
		body []byte
	}{
		{jute.OpCreate, createBody("/a", "1", true, 1)}, {jute.OpCloseSession, jute.AppendStrings(nil, []string{"/a"})},
		{jute.OpMulti,
			jute.AppendBuffer(jute.AppendInt(jute.AppendInt(nil, 1), int32(jute.OpCreate2)), createBody("/b", "", false, 1))},
		{jute.OpSetACL, jute.AppendInt(jute.AppendACLs(jute.AppendString(nil, "/"), jute.WorldACL(1)), 1)},
		{jute.OpDelete, jute.AppendString(nil, "/a")},
	} {
		f.Add(int32(seed.op), seed.body)
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		s := newState()
		s.put(Znode{})
		s.create(&createTxn{path: "/a", acl: s.open, cversion: 1, owner: 5})
		tx := txn{session: 5, zxid: 9, op: jute.Op(op), body: body}
		if _, err := s.apply(&tx); err != nil {
			return
		}
		sum := uint64(0)
		for _, z := range s.nodes {
			sum += z.digest()
		}
		if s.Digest() != sum {
			t.Errorf("the digest is %#x, the sum of its parts %#x", s.Digest(), sum)
		}
	})
}

func FuzzSnappy(f *testing.F) {
	f.Add(jute.AppendBuffer(bytes.Clone(snappyHeader), s2.EncodeSnappy(nil, []byte("hello"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decompressed(bytes.NewReader(b), suffixSnappy)
		if err == nil {
			io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		}
	})
}

// FuzzTail: whatever a program has printed, a tail that is taken is printed again as it was. The checksum is made
// right, as it would keep the fuzzer out.
func FuzzTail(f *testing.F) {
	whole := encoded(f, "", TailOf(Tail{After: 7, Accepted: 3, Current: 2, Last: 9}, []byte("one"), []byte("two")))
	f.Add(whole[len(tailMagic) : len(whole)-4])
	f.Add(whole[len(tailMagic):60])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append([]byte(tailMagic), b...)
		sealed := binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		var records [][]byte
		tail, err := parseTail(bytes.NewReader(sealed), 1<<20, func(r []byte) error {
			records = append(records, bytes.Clone(r))
			return nil
		})
		if err != nil {
			return
		}
		if again := encoded(t, "", TailOf(*tail, records...)); !bytes.HasPrefix(sealed, again) {
			t.Errorf("it was %x, and is %x", sealed, again)
		}
	})
}
