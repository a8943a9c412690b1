package crash

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

// spacePatience is how long a server may take to notice that its disk is full,
// or has room again; it looks once a second.
const spacePatience = time.Minute

// A probe is a client that asks one question at a time.
type probe struct {
	t *testing.T
	c *traffic.Client
	n int
}

func (r *Run) probe(t *testing.T, server int, timeout time.Duration) *probe {
	t.Helper()
	p := &probe{t: t, c: traffic.NewClient(r.journal, traffic.ClientOptions{Timeout: timeout}, r.Servers[server].Addr)}
	if err := connect(p.c); err != nil {
		t.Fatalf("a new client on server %d: %v", server+1, err)
	}
	return p
}

// ask sends a request and returns the answer's code; the connection may not end.
func (p *probe) ask(op jute.Op, body []byte) (jute.Code, []byte) {
	p.t.Helper()
	call, err := p.c.Do(op, body)
	if err != nil {
		p.t.Fatal(err)
	}
	return call.Err, call.Body
}

func (p *probe) create(path string, mode jute.CreateMode) jute.Code {
	p.t.Helper()
	q := jute.CreateRequest{Path: path, Data: []byte(path), ACL: jute.WorldACL(jute.PermAll), Flags: mode}
	code, _ := p.ask(jute.OpCreate, q.Append(nil))
	return code
}

func (p *probe) set(path string) jute.Code {
	p.t.Helper()
	p.n++
	q := jute.SetDataRequest{Path: path, Data: fmt.Appendf(nil, "%s-%x-%d", path, p.c.Session(), p.n), Version: -1}
	code, _ := p.ask(jute.OpSetData, q.Append(nil))
	return code
}

func (p *probe) exists(path string) jute.Code {
	p.t.Helper()
	q := jute.PathWatchRequest{Path: path}
	code, _ := p.ask(jute.OpExists, q.Append(nil))
	return code
}

// until asks again and again until the answer is want.
func (p *probe) until(what string, want jute.Code, ask func() jute.Code) {
	p.t.Helper()
	deadline := time.Now().Add(spacePatience)
	for {
		got := ask()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: %v for %v, want %v", what, got, spacePatience, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestFullDisk fills the file system of a server alone: writes are refused with a
// clear error, everything else goes on, also over a kill, and writes are
// accepted again by themselves when there is room. No room is no bytes, no inodes, or no more of
// a quota.
func TestFullDisk(t *testing.T) {
	seed, _ := hurtful(t)
	for _, kind := range smallDisks {
		t.Run(kind.name, func(t *testing.T) {
			if kind.nightly && !*long {
				t.Skip("runs with -long")
			}
			dir, f := kind.mount(t)
			o := trio(seed, 500)
			o.Servers, o.Pulses, o.Disk = 1, false, filepath.Join(dir, "zooid")
			o.Allowed = []jute.Code{jute.ErrThrottledOp}
			r := Begin(t, o)
			for _, free := range kind.leaves {
				r.full(t, f, free)
			}
			r.Verdict()
		})
	}
}

// full fills the disk of the first server but for some bytes, and empties it.
func (r *Run) full(t *testing.T, f hog, free int64) {
	t.Helper()
	s := r.Servers[0]
	logged := len(s.Log())
	r.WaitAnswered(200)
	p := r.probe(t, 0, sessionTimeout)
	path := fmt.Sprintf("%s/full%d", root, free)
	if code := p.create(path, jute.ModePersistent); code != jute.OK {
		t.Fatalf("create %s: %v", path, code)
	}
	mortal := r.mortal(path + "-mortal")
	f.fill(free)
	p.until("set on a full disk", jute.ErrThrottledOp, func() jute.Code { return p.set(path) })
	if said := s.Log()[logged:]; !strings.Contains(said, "refuses its clients' writes until there is room") {
		t.Errorf("the log doesn't say that the disk is full:\n%s", said)
	}
	if code := p.create(path+"-no", jute.ModePersistent); code != jute.ErrThrottledOp {
		t.Errorf("create on a full disk: %v, want %v", code, jute.ErrThrottledOp)
	}
	if code := p.exists(path); code != jute.OK {
		t.Errorf("exists on a full disk: %v", code)
	}
	// Sessions begin, expire and are closed as ever.
	if code := p.exists(path + "-mortal"); code != jute.OK {
		t.Logf("a session of %v ended on the full disk before its client went: %v", mortalTimeout, code)
	}
	mortal.Drop()
	p.until("the expiry of a session on a full disk", jute.ErrNoNode,
		func() jute.Code { return p.exists(path + "-mortal") })
	if err := r.probe(t, 0, sessionTimeout).c.Close(); err != nil {
		t.Errorf("close a session on a full disk: %v", err)
	}
	s.Kill()
	r.Collect(0)
	r.Restart(0)
	for err := p.c.Connect(); err != nil; err = p.c.Connect() {
		if time.Sleep(redialPause); !s.Running() {
			t.Fatalf("the server ended on a full disk:\n%s", s.LogEnd())
		}
	}
	p.until("set on a full disk after a restart", jute.ErrThrottledOp, func() jute.Code { return p.set(path) })
	if code := p.exists(path); code != jute.OK {
		t.Errorf("exists on a full disk after a restart: %v", code)
	}
	f.empty()
	p.until("set when there is room again", jute.OK, func() jute.Code { return p.set(path) })
	r.WaitAnswered(200)
	if err := p.c.Close(); err != nil {
		t.Error(err)
	}
}

// mortalTimeout is that of a session which is to expire within a test.
const mortalTimeout = 2 * time.Second

// mortal opens a session that soon expires without its client, and makes an ephemeral znode
// with it. If the machine keeps the client waiting until the session has expired, it opens another.
func (r *Run) mortal(path string) *traffic.Client {
	r.t.Helper()
	c := traffic.NewClient(r.journal, traffic.ClientOptions{Timeout: mortalTimeout}, r.Servers[0].Addr)
	q := jute.CreateRequest{Path: path, Data: []byte(path), ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral}
	for deadline := time.Now().Add(spacePatience); ; time.Sleep(redialPause) {
		err := c.Connect()
		if err == nil {
			var call *traffic.Call
			if call, err = c.Do(jute.OpCreate, q.Append(nil)); err == nil && call.Err == jute.OK {
				return c
			}
			if err == nil {
				err = call.Err
			}
			c.Drop()
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("create the ephemeral %s: %v", path, err)
		}
	}
}

// TestFullDiskOfTheLeader fills the file system of one of three: it hands the
// leadership over, refuses its own clients' writes, and the others' go on.
func TestFullDiskOfTheLeader(t *testing.T) {
	seed, _ := hurtful(t)
	dir, f := smallDisks[0].mount(t)
	o := trio(seed, 500)
	o.Pulses, o.Disk = false, filepath.Join(dir, "zooid")
	o.Allowed = []jute.Code{jute.ErrThrottledOp}
	r := Begin(t, o)
	for i := r.leader(); i != 0; i = r.leader() {
		r.Servers[i].Stop()
		if _, err := r.LeaderOtherThan(i); err != nil {
			t.Fatal(err)
		}
		r.Restart(i)
	}
	var probes []*probe
	for i := range r.Servers {
		p := r.probe(t, i, sessionTimeout)
		probes = append(probes, p)
		if code := p.create(fmt.Sprintf("%s/full%d", root, i), jute.ModePersistent); code != jute.OK {
			t.Fatal(code)
		}
	}
	f.fill(0)
	set := func(i int) func() jute.Code {
		return func() jute.Code { return probes[i].set(fmt.Sprintf("%s/full%d", root, i)) }
	}
	probes[0].until("set over a server with a full disk", jute.ErrThrottledOp, set(0))
	next, err := r.LeaderOtherThan(0)
	if err != nil {
		t.Errorf("a leader with a full disk: %v", err)
	}
	t.Logf("server %d leads instead", next+1)
	for i := 1; i < len(probes); i++ {
		probes[i].until("set over another server", jute.OK, set(i))
	}
	f.empty()
	probes[0].until("set when there is room again", jute.OK, set(0))
	r.WaitAnswered(100)
	for _, p := range probes {
		if err := p.c.Close(); err != nil {
			t.Error(err)
		}
	}
	r.Verdict()
}

// TestFullDiskOfAFollower fills the file system of a follower, and the others' clients write until
// its log has no room at all. It doesn't end, and catches up by itself when there is room.
func TestFullDiskOfAFollower(t *testing.T) {
	seed, _ := hurtful(t)
	for _, kind := range smallDisks {
		t.Run(kind.name, func(t *testing.T) {
			if !kind.follower && !*long {
				t.Skip("runs with -long")
			}
			dir, f := kind.mount(t)
			o := trio(seed, 500)
			o.Pulses, o.Disk, o.Expiring = false, filepath.Join(dir, "zooid"), true
			o.Allowed = []jute.Code{jute.ErrThrottledOp}
			r := Begin(t, o)
			if r.leader() == 0 {
				r.Servers[0].Stop()
				if _, err := r.LeaderOtherThan(0); err != nil {
					t.Fatal(err)
				}
				r.Restart(0)
			}
			path := root + "/large"
			writer := r.probe(t, 1, sessionTimeout)
			if code := writer.create(path, jute.ModePersistent); code != jute.OK {
				t.Fatal(code)
			}
			r.WaitAnswered(200)
			f.fill(0)
			exhausted := time.Now()
			for large := make([]byte, 256<<10); !strings.Contains(r.Servers[0].Log(), "no room is left for the log"); {
				if writer.n++; time.Since(exhausted) > spacePatience {
					t.Fatalf("after %d large writes over another server the log has room still:\n%s", writer.n, r.Servers[0].LogEnd())
				}
				if writer.n%8 == 0 {
					f.fill(0) // what a snapshot and the purge after it have freed
				}
				copy(large, fmt.Sprintf("%x-%d", writer.c.Session(), writer.n))
				q := jute.SetDataRequest{Path: path, Data: large, Version: -1}
				if code, _ := writer.ask(jute.OpSetData, q.Append(nil)); code != jute.OK {
					t.Fatalf("set over a server whose disk has room: %v", code)
				}
			}
			t.Logf("the log was out of room %v after the disk, by %d large writes",
				time.Since(exhausted).Round(time.Millisecond), writer.n)
			writer.until("set beside a log without room", jute.OK, func() jute.Code { return writer.set(path) })
			if !r.Servers[0].Running() {
				t.Fatalf("the server ended:\n%s", r.Servers[0].LogEnd())
			}
			f.empty()
			healed := r.probe(t, 0, spacePatience)
			healed.until("set when there is room again", jute.OK, func() jute.Code { return healed.set(path) })
			if !strings.Contains(r.Servers[0].Log(), "the log has room again") {
				t.Error("the log of the server doesn't say that it goes on")
			}
			r.WaitAnswered(100)
			r.Verdict()
		})
	}
}
