package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

func newExtreme(seed uint64) extreme { return extreme{rand.New(rand.NewPCG(seed, 0))} }

// TestOperations holds the list of operations against all codes that have a name.
func TestOperations(t *testing.T) {
	listed := map[jute.Op]bool{}
	for _, op := range operations {
		listed[op] = true
	}
	for code := jute.Op(-100); code < 1000; code++ {
		if named := !strings.HasPrefix(code.String(), "op("); named && !listed[code] {
			t.Errorf("%v (%d) is never tried", code, code)
		}
	}
}

// TestRecordsAreWellFormed decodes what the generator makes: garbage alone would
// never get past the server's decoder. Nothing may exceed a frame, and a seed must
// give the same bytes again.
func TestRecordsAreWellFormed(t *testing.T) {
	for _, op := range operations {
		x, again := newExtreme(uint64(op)), newExtreme(uint64(op))
		whole, most := 0, 100
		for range most {
			b := x.record(op)
			if !bytes.Equal(b, again.record(op)) {
				t.Fatalf("%v: a seed gives two records", op)
			}
			if len(b) > frameMax-jute.RequestHeaderSize {
				t.Fatalf("%v: a record of %d bytes", op, len(b))
			}
			if decodes(op, b) {
				whole++
			}
		}
		if whole < most*8/10 {
			t.Errorf("%v: only %d of %d records are well formed", op, whole, most)
		}
	}
}

// decodes says whether a record is one of op; others have none.
func decodes(op jute.Op, b []byte) bool {
	d := jute.NewDecoder(b)
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		new(jute.CreateRequest).Decode(d)
	case jute.OpCreateTTL:
		new(jute.CreateTTLRequest).Decode(d)
	case jute.OpDelete, jute.OpCheck:
		new(jute.PathVersionRequest).Decode(d)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		new(jute.PathWatchRequest).Decode(d)
	case jute.OpSetData:
		new(jute.SetDataRequest).Decode(d)
	case jute.OpSetACL:
		new(jute.SetACLRequest).Decode(d)
	case jute.OpReconfig:
		new(jute.ReconfigRequest).Decode(d)
	case jute.OpSetWatches, jute.OpSetWatches2:
		new(jute.SetWatches).Decode(d, op)
	case jute.OpAuth:
		new(jute.AuthPacket).Decode(d)
	case jute.OpMulti, jute.OpMultiRead: // what is mixed or of odd modes is refused as a whole
		return true
	}
	return d.Err() == nil
}

// TestAttackNames holds the list of attacks: a name for each, and none twice.
func TestAttackNames(t *testing.T) {
	seen := map[string]bool{}
	for i := range attacks {
		a := &attacks[i]
		if a.name == "" || a.about == "" || a.run == nil || seen[a.name] {
			t.Errorf("attack %q has no name of its own, no description, or does nothing", a.name)
		}
		seen[a.name] = true
	}
	var out, errs bytes.Buffer
	if code := run([]string{"-list"}, &out, &errs); code != 0 || strings.Count(out.String(), "\n") != len(attacks) {
		t.Errorf("-list ends with %d and prints\n%s%s", code, &out, &errs)
	}
	if code := run([]string{"-attack", "none", "-clients", "127.0.0.1:1"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("an attack that isn't there ends with %d", code)
	}
}

// TestAttacksEnd runs every attack against an address where nobody listens: none
// may fail or go on when its time is over.
func TestAttacksEnd(t *testing.T) {
	for i := range attacks {
		a := &attacks[i]
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			f := newField(ctx, 1, []string{"127.0.0.1:1"}, []string{"127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1"})
			if err := a.run(f); err != nil {
				t.Error(err)
			}
		})
	}
}
