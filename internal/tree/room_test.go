package tree

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

func createIn(t *testing.T, tr *Tree, path string, data []byte) {
	t.Helper()
	q := Request{
		Op: jute.OpCreate, Body: (&jute.CreateRequest{Path: path, Data: data, ACL: jute.WorldACL(jute.PermAll)}).Append(nil),
	}
	if err := tr.Apply(1, tr.LastIndex()+1, AppendRecord(AppendBatchHeader(nil, 1), &q), nil); err != nil {
		t.Fatal(err)
	}
}

// TestRoomIsEnough: a large reply is refused with NoRoom unless dst has the memory
// already, and what Room says is enough for it.
func TestRoomIsEnough(t *testing.T) {
	t.Parallel()
	tr := New(Options{})
	create := func(path string, data []byte) { createIn(t, tr, path, data) }
	create("/small", make([]byte, 100))
	if tr.LargeValues() {
		t.Error("a small value is taken for a large one")
	}
	create("/large", make([]byte, 200_000))
	if !tr.LargeValues() {
		t.Error("the tree doesn't know that it has a large value")
	}
	create("/list", nil)
	for i := range scanStep + 1 {
		create(fmt.Sprintf("/list/a-name-of-some-length-%06d", i), nil)
	}
	for done, scan := false, (&Scan{Op: jute.OpGetChildren, Path: "/list"}); !done; { // the tree knows the list then
		done, _ = tr.Step(scan)
	}
	multi := func(n int, paths ...string) []byte {
		var ops []jute.MultiOp
		for range n {
			for _, p := range paths {
				ops = append(ops, jute.MultiOp{Op: jute.OpGetData, Path: p}, jute.MultiOp{Op: jute.OpGetChildren, Path: p})
			}
		}
		return jute.AppendMulti(nil, ops)
	}
	path := func(p string) []byte { return jute.AppendString(nil, p) }
	const most = 4 << 20
	for name, tc := range map[string]struct {
		op    jute.Op
		body  []byte
		read  func(dst []byte) ([]byte, jute.Code)
		large bool
		code  jute.Code
	}{
		"a value": {op: jute.OpGetData, body: path("/large"), large: true, read: func(dst []byte) ([]byte, jute.Code) {
			return tr.AppendGetDataInRoom(dst, "/large", nil)
		}},
		"a small one": {op: jute.OpGetData, body: path("/small"), read: func(dst []byte) ([]byte, jute.Code) {
			return tr.AppendGetDataInRoom(dst, "/small", nil)
		}},
		"a list": {op: jute.OpGetChildren, body: path("/list"), large: true, read: func(dst []byte) ([]byte, jute.Code) {
			return tr.AppendGetChildren(dst, "/list", nil)
		}},
		"a list and Stat": {op: jute.OpGetChildren2, body: path("/list"), large: true,
			read: func(dst []byte) ([]byte, jute.Code) {
				return tr.AppendGetChildren2(dst, "/list", nil)
			}},
		"many": {op: jute.OpMultiRead, body: multi(3, "/small", "/large", "/list", "/none"), large: true,
			read: func(dst []byte) ([]byte, jute.Code) {
				return tr.AppendMultiRead(dst, multi(3, "/small", "/large", "/list", "/none"), nil, most)
			}},
		"many small ones": {op: jute.OpMultiRead, body: multi(1000, "/small"), large: true,
			read: func(dst []byte) ([]byte, jute.Code) {
				return tr.AppendMultiRead(dst, multi(1000, "/small"), nil, most)
			}},
		"too many": {op: jute.OpMultiRead, body: multi(21, "/large"), code: TooLong,
			read: func(dst []byte) ([]byte, jute.Code) {
				return tr.AppendMultiRead(dst, multi(21, "/large"), nil, most)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			got, code := tc.read(make([]byte, 20, 24))
			if want := map[bool]jute.Code{true: NoRoom, false: tc.code}[tc.large]; code != want || cap(got) > 2*roomMin {
				t.Fatalf("without memory: code %d in %d bytes, want %d", code, cap(got), want)
			}
			if !tc.large {
				return
			}
			room := tr.Room(tc.op, tc.body, nil, most)
			dst := make([]byte, 20, 20+room)
			if got, code = tc.read(dst); code != jute.OK || &got[:1][0] != &dst[0] {
				t.Errorf("code %d; %d bytes of a room of %d", code, len(got)-20, room)
			}
		})
	}
}

// TestMultiReadBound: the results of a multiRead may have as many bytes as its bound says, neither more nor fewer,
// with memory for them or without.
func TestMultiReadBound(t *testing.T) {
	t.Parallel()
	tr := New(Options{})
	createIn(t, tr, "/v", make([]byte, 100))
	createIn(t, tr, "/empty", nil)
	var ops []jute.MultiOp
	for range 500 {
		for _, p := range []string{"/v", "/empty", "/none"} {
			ops = append(ops, jute.MultiOp{Op: jute.OpGetData, Path: p}, jute.MultiOp{Op: jute.OpGetChildren, Path: p})
		}
	}
	body := jute.AppendMulti(nil, ops)
	all, code := tr.AppendMultiRead(make([]byte, 0, 1<<20), body, nil, 1<<20)
	if code != jute.OK {
		t.Fatal(code)
	}
	results := len(all) - len(jute.AppendMultiEnd(nil))
	if n := tr.Room(jute.OpMultiRead, body, nil, results); n != len(all) {
		t.Errorf("%d bytes of room for a reply of %d", n, len(all))
	}
	for _, room := range []int{0, len(all)} {
		fits := map[bool]jute.Code{true: jute.OK, false: NoRoom}[room > 0]
		for most, want := range map[int]jute.Code{results: fits, results - 1: TooLong} {
			if _, code := tr.AppendMultiRead(make([]byte, 0, room), body, nil, most); code != want {
				t.Errorf("results of %d bytes, of which there may be %d, in a room of %d: code %d, want %d",
					results, most, room, code, want)
			}
		}
	}
}

// TestLongNamesNeedRoom: a read whose reply doesn't fit into roomMin takes no more memory than that before it says so,
// even if the first name alone is longer. Otherwise each of many connections could make a server hold such a name.
func TestLongNamesNeedRoom(t *testing.T) { // not parallel: it counts what the process allocates
	tr := New(Options{})
	for i := range 3 {
		createIn(t, tr, fmt.Sprintf("/%d%s", i, strings.Repeat("n", 800_000)), nil)
	}
	multi := jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetChildren, Path: "/"}})
	for name, read := range map[string]func(dst []byte) ([]byte, jute.Code){
		"getChildren":  func(dst []byte) ([]byte, jute.Code) { return tr.AppendGetChildren(dst, "/", nil) },
		"getChildren2": func(dst []byte) ([]byte, jute.Code) { return tr.AppendGetChildren2(dst, "/", nil) },
		"multiRead":    func(dst []byte) ([]byte, jute.Code) { return tr.AppendMultiRead(dst, multi, nil, 4<<20) },
	} {
		const reads = 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range reads {
			if _, code := read(nil); code != LongRead && code != NoRoom {
				t.Fatalf("%s: code %d", name, code)
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / reads; each > 2*roomMin {
			t.Errorf("%s: a read that needs room takes %d bytes without it", name, each)
		}
	}
}
