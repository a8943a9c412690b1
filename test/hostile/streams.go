package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// connectionsAtOnce is how many connections an attack holds: thousands on the
// servers, and within the attacker's own limit of open files.
const connectionsAtOnce = 2000

// attackPipelines sends small requests without waiting for replies.
func attackPipelines(f *field) error {
	f.sessions(20, func(_ int, c *conn, x extreme) {
		for !f.over() {
			var b []byte
			for range 500 {
				op := pick(x, []jute.Op{
					jute.OpExists, jute.OpGetData, jute.OpPing, jute.OpSetData, jute.OpSync, jute.OpGetChildren2, jute.OpWhoAmI,
				})
				q := jute.SetDataRequest{Path: x.shortPath(), Data: []byte("x"), Version: -1}
				record := q.Append(nil)
				if op != jute.OpSetData {
					record = (&jute.PathWatchRequest{Path: q.Path, Watch: true}).Append(nil)
				}
				b = c.appendRequest(b, op, record)
			}
			if c.write(b) != nil {
				break
			}
		}
	})
	return nil
}

// attackSlowReaders asks for large replies and notifications and reads a few
// bytes a second.
func attackSlowReaders(f *field) error {
	large := f.createLarge()
	f.connected(30, 40_000, func(i int, c *conn) {
		c.send(jute.OpAddWatch, (&jute.AddWatchRequest{Path: "/", Mode: jute.AddWatchPersistentRecursive}).Append(nil))
		for n := 0; n < 1000 && !f.over(); n++ {
			if c.send(jute.OpGetData, (&jute.PathWatchRequest{Path: large}).Append(nil)) != nil {
				break
			}
		}
		for b := make([]byte, 10); !f.over(); f.sleep(50 * time.Millisecond) {
			c.nc.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := c.nc.Read(b); errors.Is(err, io.EOF) {
				break
			}
		}
	})
	return nil
}

// attackHalfFrames sends parts of frames and stops, or sends frames byte by byte.
func attackHalfFrames(f *field) error {
	f.workers(100, func(i int, rng *rand.Rand) {
		x := extreme{rng}
		for !f.over() {
			c := states[x.IntN(2)].enter(f, f.addr(i), x)
			if c == nil {
				continue
			}
			op := pick(x, operations)
			frame := c.appendRequest(nil, op, x.record(op))
			frame = frame[:1+x.IntN(min(len(frame), 64<<10))]
			if x.IntN(2) == 0 {
				c.write(frame)
				f.sleep(time.Duration(x.IntN(3000)) * time.Millisecond)
			} else {
				for k := 0; k < len(frame) && !f.over() && c.write(frame[k:k+1]) == nil; k++ {
					f.sleep(5 * time.Millisecond)
				}
			}
			c.close()
		}
	})
	return nil
}

// attackConnects opens and closes connections.
func attackConnects(f *field) error {
	f.workers(16, func(i int, rng *rand.Rand) {
		for n := i; !f.over(); n++ {
			switch rng.IntN(4) {
			case 0:
				if c := orNil(f.connect(f.addr(n), 4000)); c != nil {
					c.close()
				}
			case 1:
				if c := orNil(f.connect(f.addr(n), 4000)); c != nil {
					c.send(jute.OpCloseSession, nil)
					c.close()
				}
			default:
				if nc, err := f.dial(f.addr(n)); err == nil {
					if rng.IntN(2) == 0 {
						nc.(*net.TCPConn).SetLinger(0)
					}
					nc.Close()
				}
			}
		}
	})
	return nil
}

// hold keeps n connections open, spread over the addresses; half of them send
// the beginning of head.
func (f *field) hold(addrs []string, n int, head []byte) error {
	var mu sync.Mutex
	var held []net.Conn
	f.workers(8, func(i int, rng *rand.Rand) {
		for k := i; k < n && !f.over(); k += 8 {
			nc, err := f.dial(addrs[k%len(addrs)])
			if err != nil {
				continue
			}
			if k%2 == 0 {
				nc.Write(head[:rng.IntN(len(head)+1)])
			}
			mu.Lock()
			held = append(held, nc)
			mu.Unlock()
		}
	})
	<-f.ctx.Done()
	for _, nc := range held {
		nc.Close()
	}
	return nil
}

// fourLetterWords are all four-letter words, and some that don't exist.
var fourLetterWords = []string{
	"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst", "srvr", "stat", "stmk",
	"wchc", "wchp", "wchs", "lead", "kill", "nope", "RUOK", "\x00\x00\x00\x00",
}

// attackWords sends four-letter words from many connections; half of those don't read the answer.
func attackWords(f *field) error {
	f.workers(64, func(i int, rng *rand.Rand) {
		for n := i; !f.over(); n++ {
			nc, err := f.dial(f.addr(n))
			if err != nil {
				continue
			}
			word := fourLetterWords[rng.IntN(len(fourLetterWords))]
			if word == "crst" || word == "srst" { // these reset numbers that the test checks
				word = "mntr"
			}
			f.counts.requests.Add(1)
			nc.SetDeadline(time.Now().Add(4 * sendPatience))
			io.WriteString(nc, word+[]string{"", "\n", "\r\nmore"}[rng.IntN(3)])
			if rng.IntN(2) == 0 {
				io.Copy(io.Discard, nc)
				f.counts.replies.Add(1)
			}
			nc.Close()
		}
	})
	return nil
}

// greetings are the first bytes of clients of other protocols.
var greetings = []string{
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", // TLS
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "SSH-2.0-x\r\n", "*1\r\n$4\r\nPING\r\n",
	"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", "\x00", "ZOOIDPEER",
	"\x7f\xff\xff\xff", "\xff\xff\xff\xff", "\x80\x00\x00\x00", "\x00\x00\x10\x00", "\x00\x00\x00\x00", "\x00\x00\x00\x2c",
}

func attackGarbage(f *field) error { return f.babble(f.clients) }

// babble sends garbage, before and within a session.
func (f *field) babble(addrs []string) error {
	f.workers(16, func(i int, rng *rand.Rand) {
		for n := i; !f.over(); n++ {
			nc, err := f.dial(addrs[n%len(addrs)])
			if err != nil {
				continue
			}
			nc.SetDeadline(time.Now().Add(sendPatience))
			noise := make([]byte, rng.IntN(2000))
			for i := range noise {
				noise[i] = byte(rng.Uint32())
			}
			b := append([]byte(greetings[rng.IntN(len(greetings))]), noise...)
			if rng.IntN(3) == 0 {
				b = noise
			}
			if rng.IntN(3) == 0 {
				q := jute.ConnectRequest{Timeout: 4000, Passwd: make([]byte, jute.PasswdSize)}
				b = append(jute.AppendFrame(nil, q.Append), b...)
			}
			f.pace(len(b))
			nc.Write(b)
			if rng.IntN(2) == 0 {
				io.CopyN(io.Discard, nc, 4<<10)
			}
			nc.Close()
		}
	})
	return nil
}

// attackWatches leaves hundreds of thousands of watches, on paths that exist
// and on others, and removes some.
func attackWatches(f *field) error {
	f.sessions(6, func(_ int, c *conn, x extreme) {
		for n := 0; n < 10 && !f.over(); n++ {
			var w jute.SetWatches
			w.RelativeZxid = x.long()
			list := make([]string, 50_000)
			for k := range list {
				list[k] = fmt.Sprintf("/w/%d/%d", n, k)
			}
			switch x.IntN(5) {
			case 0:
				w.Data = list
			case 1:
				w.Exist = list
			case 2:
				w.Child = list
			case 3:
				w.Persistent = list
			default:
				w.PersistentTree = list
			}
			c.send(jute.OpSetWatches2, w.Append(nil, jute.OpSetWatches2))
			c.send(jute.OpAddWatch, (&jute.AddWatchRequest{Path: "/", Mode: jute.AddWatchPersistentRecursive}).Append(nil))
			c.send(jute.OpRemoveWatches, (&jute.WatchesRequest{Path: list[0], Type: jute.WatcherAny}).Append(nil))
		}
		f.sleep(time.Duration(x.IntN(500)) * time.Millisecond)
	})
	return nil
}
