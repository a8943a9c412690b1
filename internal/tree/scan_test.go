package tree

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestScanIsBounded: a list longer than ReplyBytesMax is an error, and no more than
// that is gathered.
func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	const size = 900_000
	name := strings.Repeat("n", size)
	for i := range uint64(ReplyBytesMax/size + 1) {
		q := Request{
			Op:   jute.OpCreate,
			Body: (&jute.CreateRequest{Path: fmt.Sprintf("/%03d%s", i, name), ACL: jute.WorldACL(jute.PermAll)}).Append(nil),
		}
		if err := tree.Apply(1, i+1, AppendRecord(AppendBatchHeader(nil, 1), &q), nil); err != nil {
			t.Fatal(err)
		}
	}
	scan := Scan{Op: jute.OpGetChildren, Path: "/"}
	for {
		done, code := tree.Step(&scan)
		if !done {
			continue
		}
		if code != TooLong || len(scan.Body) > ReplyBytesMax+size+4 {
			t.Errorf("%v with %d bytes", code, len(scan.Body))
		}
		return
	}
}

// TestScanInRoom: a scan has its list where the room is that of the whole reply, and goes on with more where it isn't.
func TestScanInRoom(t *testing.T) {
	t.Parallel()
	tree, _ := grown(t, 100)
	whole := Scan{Op: jute.OpGetChildren2, Path: "/service-000000"}
	if done, code := tree.Step(&whole); !done || code != jute.OK {
		t.Fatal(done, code)
	}
	for less := range 3 {
		s := Scan{Op: jute.OpGetChildren2, Path: whole.Path, Room: len(whole.Body) - less}
		done, code := tree.Step(&s)
		if enough := less == 0; done != enough || (code == NoRoom) == enough || len(s.Body) > s.Room {
			t.Errorf("%d bytes less room than the reply takes: done %v, %v, %d bytes", less, done, code, len(s.Body))
		}
		if s.Room = len(whole.Body); !done {
			done, code = tree.Step(&s)
		}
		if !done || code != jute.OK || !bytes.Equal(s.Body, whole.Body) {
			t.Errorf("with enough room after %d bytes too few: %v, %d of %d bytes", less, code, len(s.Body), len(whole.Body))
		}
	}
}

// TestScanBeginsAnew changes a list between the steps of a scan: what it returns is
// the list of the last step, whatever it has gathered before, and it ends even if
// the list never rests.
func TestScanBeginsAnew(t *testing.T) {
	t.Parallel()
	const size, session = 4 * scanStep, 7
	for name, tc := range map[string]struct {
		op     jute.Op
		always bool
	}{
		"children":              {jute.OpGetChildren, false},
		"children and Stat":     {jute.OpGetChildren2, false},
		"ephemerals":            {jute.OpGetEphemerals, false},
		"children, no rest":     {jute.OpGetChildren, true},
		"ephemerals, no rest":   {jute.OpGetEphemerals, true},
		"with Stat and no rest": {jute.OpGetChildren2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, index := New(Options{}), uint64(0)
			apply := func(q Request) {
				index++
				if err := tree.Apply(1, index, AppendRecord(AppendBatchHeader(nil, 1), &q), nil); err != nil {
					t.Fatal(err)
				}
			}
			write := func(op jute.Op, body []byte) {
				apply(Request{Op: op, Session: session, Cnx: 1, Seq: int64(index), Body: body})
			}
			remove := func(i int) {
				write(jute.OpDelete, (&jute.PathVersionRequest{Path: fmt.Sprintf("/l/%06d", i), Version: -1}).Append(nil))
			}
			apply(Request{
				Op: jute.OpCreateSession, Session: session, Cnx: 1, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000),
					make([]byte, jute.PasswdSize)),
			})
			create := jute.CreateRequest{Path: "/l", ACL: jute.WorldACL(jute.PermAll)}
			write(jute.OpCreate, create.Append(nil))
			create.Flags = jute.ModeEphemeral
			for i := range size {
				create.Path = fmt.Sprintf("/l/%06d", i)
				write(jute.OpCreate, create.Append(nil))
			}
			scan := Scan{Op: tc.op, Path: "/l", Session: session, Body: []byte("head")}
			steps, removed := 0, 0
			for done := false; !done; steps++ {
				var code jute.Code
				if done, code = tree.Step(&scan); code != jute.OK {
					t.Fatal(code)
				}
				if !done && (tc.always || steps == 2) {
					remove(removed) // which the scan has seen
					removed++
				}
			}
			names := jute.NewDecoder(scan.Body[len("head"):]).Strings()
			if len(names) != size-removed || !strings.HasSuffix(names[0], fmt.Sprintf("%06d", removed)) {
				t.Errorf("%d names from %.20s, want %d from %06d", len(names), names[0], size-removed, removed)
			}
			if want := map[bool]int{false: 7, true: scanRestartsMax + 1}[tc.always]; steps != want {
				t.Errorf("%d steps, want %d", steps, want)
			}
		})
	}
}

// TestScanOfAnotherTree goes on with a scan on a tree that holds the same list in other slots: it begins anew.
func TestScanOfAnotherTree(t *testing.T) {
	t.Parallel()
	const size = 2 * scanStep
	var trees [2]*Tree
	for i, second := range []string{"/gone", "/none"} { // a slot becomes free before the list is made, or doesn't
		tree, index := New(Options{}), uint64(0)
		write := func(op jute.Op, body []byte) {
			index++
			q := Request{Op: op, Body: body}
			if err := tree.Apply(1, index, AppendRecord(AppendBatchHeader(nil, 1), &q), nil); err != nil {
				t.Fatal(err)
			}
		}
		write(jute.OpCreate, createOf("/l", 1))
		write(jute.OpCreate, createOf("/gone", 1))
		write(jute.OpDelete, deleteOf(second))
		for n := range size {
			write(jute.OpCreate, createOf(fmt.Sprintf("/l/%06d", n), 1))
		}
		trees[i] = tree
	}
	scan := Scan{Op: jute.OpGetChildren, Path: "/l"}
	if done, code := trees[0].Step(&scan); done || code != jute.OK {
		t.Fatal(done, code)
	}
	for done, code := false, jute.OK; !done; {
		if done, code = trees[1].Step(&scan); code != jute.OK {
			t.Fatal(code)
		}
	}
	for i, name := range jute.NewDecoder(scan.Body).Strings() {
		if name != fmt.Sprintf("%06d", i) {
			t.Fatalf("name %d is %s", i, name)
		}
	}
	if list := trees[1].lists.get(trees[1].find("/l")); !bytes.Equal(list, scan.Body) {
		t.Errorf("a list of %d bytes is cached, the scan has brought %d", len(list), len(scan.Body))
	}
}
