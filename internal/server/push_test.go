package server

import (
	"strconv"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// A hearer watches a znode over and over, and reads it in between.
type hearer struct {
	*rawClient
	armed   int  // version that the watch was left at
	waiting bool // the watch hasn't fired
	zxid    int64
	armXid  int32
}

// ask leaves the watch again if it fired, and sends some reads behind it.
func (h *hearer) ask() error {
	const reads = 3
	var b []byte
	if !h.waiting {
		b = h.request(b, jute.OpGetData, reading("/w", true))
		h.armXid = h.xid
	}
	for range reads {
		b = h.request(b, jute.OpGetData, reading("/w", false))
	}
	_, err := h.conn.Write(b)
	return err
}

// listen takes frames up to the reply to the last request, and returns the version
// that shows.
func (h *hearer) listen(t *testing.T) (version int) {
	for {
		header, body := h.reply()
		if header.Zxid < h.zxid {
			t.Errorf("zxid %x after %x", header.Zxid, h.zxid)
		}
		h.zxid = header.Zxid
		if header.Xid == jute.XidNotification {
			if !h.waiting {
				t.Error("one watch fired twice")
			}
			h.waiting = false
			continue
		}
		d := jute.NewDecoder(body)
		version, _ = strconv.Atoi(string(d.Buffer()))
		switch {
		case header.Xid == h.armXid:
			h.armed, h.waiting = version, true
		case h.waiting && version != h.armed:
			t.Errorf("a reply shows version %d, a watch left at version %d hasn't fired", version, h.armed)
		}
		if header.Xid == h.xid {
			return version
		}
	}
}

// TestManyHearBeforeTheyRead changes a znode that more connections watch than are
// written to one by one, while all of them read it: each hears of the change before
// it sees it, and none is left out.
func TestManyHearBeforeTheyRead(t *testing.T) {
	t.Parallel()
	const changes = 20
	addr := open(t, Options{}).Addrs()[0].String()
	writer := connect(t, addr, 0, nil)
	if h, _ := writer.call(jute.OpCreate, creating("/w", []byte("0"), 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	var hearers []*hearer
	for range 2*32 + 1 {
		hearers = append(hearers, &hearer{rawClient: connect(t, addr, 0, nil)})
	}
	for i := range changes {
		var wg sync.WaitGroup
		for _, h := range hearers {
			wg.Go(func() {
				for version := -1; version < i; { // until the change before is seen
					if err := h.ask(); err != nil {
						t.Error(err)
						return
					}
					version = h.listen(t)
				}
			})
		}
		wg.Wait()
		for _, h := range hearers { // these reads race with the change
			if err := h.ask(); err != nil {
				t.Fatal(err)
			}
		}
		if h, _ := writer.call(jute.OpSetData, setting("/w", []byte(strconv.Itoa(i+1)))); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		for _, h := range hearers {
			h.listen(t)
			if !h.waiting {
				continue
			}
			// Nothing is asked any more: what comes now is the notification.
			if header, _ := h.reply(); header.Xid != jute.XidNotification {
				t.Fatalf("xid %d where a notification was due", header.Xid)
			}
			h.waiting = false
		}
	}
}
