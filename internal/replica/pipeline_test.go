package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A pipeline encodes the requests of one client.
type pipeline struct{ xid int32 }

// request appends one request.
func (p *pipeline) request(b []byte, op jute.Op, record func([]byte) []byte) []byte {
	p.xid++
	return jute.AppendRequest(b, p.xid, op, record)
}

func creating(path string, data []byte, mode jute.CreateMode) func([]byte) []byte {
	r := jute.CreateRequest{Path: path, Data: data, ACL: jute.WorldACL(jute.PermAll), Flags: mode}
	return r.Append
}

func setting(path string, data []byte) func([]byte) []byte {
	r := jute.SetDataRequest{Path: path, Data: data, Version: -1}
	return r.Append
}

func reading(path string, watch bool) func([]byte) []byte {
	r := jute.PathWatchRequest{Path: path, Watch: watch}
	return r.Append
}

func deleting(path string) func([]byte) []byte {
	return func(b []byte) []byte { return (&jute.PathVersionRequest{Path: path, Version: -1}).Append(b) }
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never comes to this: %s", what)
}
