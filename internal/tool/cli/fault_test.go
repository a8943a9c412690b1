package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// A gate stands between a shell and a server, and does something at one request.
type gate struct {
	net.Listener
	target string
	at     int       // the request, counted from 1 over all connections
	ops    []jute.Op // the requests that count; nil for all
	fault  faultKind
	act    func() // at that request, before the server has it

	mu    sync.Mutex
	seen  int
	fired bool
	dead  bool // takes no more connections
}

type faultKind int

const (
	cutBefore faultKind = iota // the request is lost with the connection
	cutAfter                   // the reply is
	killed                     // as cutBefore, and nobody answers any more
	actOnly                    // act is all that happens
)

var faultNames = map[faultKind]string{
	cutBefore: "request lost", cutAfter: "reply lost", killed: "server killed", actOnly: "act",
}

func newGate(t *testing.T, target string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l, target: target}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go g.serve(in)
		}
	}()
	return g
}

func (g *gate) serve(in net.Conn) {
	defer in.Close()
	g.mu.Lock()
	dead := g.dead
	g.mu.Unlock()
	if dead {
		return
	}
	out, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer out.Close()
	var mu sync.Mutex
	var lost int32
	go func() {
		defer in.Close()
		forward(in, out, func(frame []byte, first bool) bool {
			mu.Lock()
			defer mu.Unlock()
			return first || lost == 0 || int32(binary.BigEndian.Uint32(frame)) != lost
		})
	}()
	forward(out, in, func(frame []byte, first bool) bool {
		if first || int32(binary.BigEndian.Uint32(frame)) <= 0 || !g.hit(jute.Op(binary.BigEndian.Uint32(frame[4:]))) {
			return true
		}
		if g.act != nil {
			g.act()
		}
		mu.Lock()
		defer mu.Unlock()
		if g.fault == cutAfter {
			lost = int32(binary.BigEndian.Uint32(frame))
		}
		return g.fault == cutAfter || g.fault == actOnly
	})
}

// forward passes frames on while pass says so.
func forward(to, from net.Conn, pass func(frame []byte, first bool) bool) {
	for first := true; ; first = false {
		frame, err := jute.ReadFrame(from, nil, 64<<20)
		if err != nil || !pass(frame, first) {
			return
		}
		if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			return
		}
	}
}

// hit counts a request and reports whether it is the one.
func (g *gate) hit(op jute.Op) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fired || g.ops != nil && !slices.Contains(g.ops, op) {
		return false
	}
	if g.seen++; g.seen != g.at {
		return false
	}
	g.fired = true
	g.dead = g.fault == killed
	return true
}

// faulty is a small run of one command.
type faulty struct {
	name, line, goOn string // FROM and TO stand for the places
	target           bool   // there is one before
}

var faulties = []faulty{
	{"cp", "cp FROM TO", "mirror FROM TO", false},
	{"mirror", "mirror -delete -yes FROM TO", "mirror -delete -yes FROM TO", true},
	{"mv", "mv FROM TO", "mirror FROM TO; mv -resume FROM TO", false},
	{"mv in steps", "mv -resume FROM TO", "mirror FROM TO; mv -resume FROM TO", false},
	{"deleteall", "deleteall FROM", "deleteall FROM", false},
	{"rm", "rm -r FROM", "rm -r FROM", false},
}

// faultRun is one run of a command with one fault.
type faultRun struct {
	t        *testing.T
	c        *zk.Client // past the gate, as super
	from, to string
	want     model
	out      string
	exit     int
}

var faultACL = []zk.ACL{{Perms: zk.PermRead | zk.PermDelete | zk.PermAdmin, ID: zk.ID{Scheme: "world", ID: "anyone"}}}

// prepare plants the trees of a run; a's ACL admits no new children.
func prepare(t *testing.T, c *zk.Client, root string, f faulty) *faultRun {
	r := &faultRun{t: t, c: c, from: root + "/from", to: root + "/to"}
	plant(t, c, root, r.from+"=1", r.from+"/a=2", r.from+"/a/b=3", r.from+"/c=4")
	if f.name != "mv" { // which would not be one transaction
		if _, err := c.SetACL(t.Context(), r.from+"/a", faultACL, 0); err != nil {
			t.Fatal(err)
		}
	}
	if f.target {
		plant(t, c, r.to+"=old", r.to+"/c=old", r.to+"/x=extra", r.to+"/x/y=extra")
	}
	r.want, _ = read(t, c, r.from)
	return r
}

// run runs one line at address.
func (r *faultRun) run(ctx context.Context, address, line string) {
	var text bytes.Buffer
	s := newShell(options{access: access.Access{Server: address}, timeout: 10 * time.Second, version: "TEST"},
		screen.New(&text, &text))
	s.single = true
	line = strings.NewReplacer("FROM", r.from, "TO", r.to).Replace(line)
	if err := s.connect(address); err != nil {
		r.t.Fatal(err)
	}
	s.execute(ctx, strings.Fields(line))
	s.close()
	r.out, r.exit = text.String(), s.exit
}

// tree reads what is at a path, nil for nothing.
func (r *faultRun) tree(path string) model {
	if _, there, err := r.c.Exists(r.t.Context(), path); err != nil {
		r.t.Fatal(err)
	} else if !there {
		return nil
	}
	m, _ := read(r.t, r.c, path)
	return m
}

// judge fails the test if something was lost, or the exit code tells less than the
// whole truth.
func (r *faultRun) judge(f faulty, what string) {
	r.t.Helper()
	from, to := r.tree(r.from), r.tree(r.to)
	fail := func(format string, v ...any) {
		r.t.Helper()
		r.t.Errorf("%s: %s\nexit code %d, printed %s\nsource %q\ntarget %q",
			what, fmt.Sprintf(format, v...), r.exit, r.out, from, to)
	}
	if r.exit != 0 && r.out == "" {
		fail("it failed without a word")
	}
	switch f.line[:2] {
	case "cp", "mi":
		if !equal(from, r.want) {
			fail("the source was changed")
		}
		if r.exit == 0 && !equal(to, r.want) {
			fail("the target isn't like the source")
		}
		if r.exit != 0 && to != nil && to["/a"] != "" && to["/a"] != r.want["/a"] && !strings.Contains(r.out, "ACL") {
			fail("it doesn't say that ACLs are missing")
		}
	case "mv":
		for path := range r.want {
			if from[path] != r.want[path] && dataOf(to[path]) != dataOf(r.want[path]) {
				fail("%q was lost", path)
			}
		}
		if r.exit == 0 && (from != nil || !equal(to, r.want)) {
			fail("it wasn't moved whole")
		}
		if strings.Contains(r.out, "nothing was moved") && (!equal(from, r.want) || to != nil) {
			fail("something was moved")
		}
	case "de", "rm":
		if r.exit == 0 && from != nil {
			fail("it wasn't deleted")
		}
	}
}

func equal(a, b model) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// dataOf leaves out the ACL.
func dataOf(text string) string {
	text, _, _ = strings.Cut(text, " world:")
	text, _, _ = strings.Cut(text, " ip:")
	return text
}

// superClient sees and may do everything.
func superClient(t *testing.T, address string) *zk.Client {
	c := open(t, address)
	if err := c.AddAuth(t.Context(), "digest", []byte("super:test")); err != nil {
		t.Fatal(err)
	}
	return c
}

// everyStep runs a command once for each request at which something can happen,
// until it sends fewer.
func everyStep(t *testing.T, address string, ops []jute.Op, kind faultKind, step func(g *gate, k int)) (steps int) {
	for k := 1; ; k++ {
		g := newGate(t, address)
		g.at, g.fault, g.ops = k, kind, ops
		step(g, k)
		g.Close()
		g.mu.Lock()
		fired := g.fired
		g.mu.Unlock()
		if !fired {
			return k - 1
		}
	}
}

// TestFaultsAtEveryStep cuts the connection before and after every request of each
// command, kills the server there, and interrupts it; then the command is run on.
func TestFaultsAtEveryStep(t *testing.T) {
	t.Parallel()
	kinds := []faultKind{cutAfter, cutBefore, killed, actOnly}
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, f := range faulties {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			address := startZooid(t)
			c := superClient(t, address)
			for _, kind := range kinds {
				n := everyStep(t, address, nil, kind, func(g *gate, k int) {
					root := fmt.Sprintf("/%d-%d", kind, k)
					r := prepare(t, c, root, f)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					switch kind {
					case actOnly:
						g.act = cancel
					case killed:
						g.act = func() { time.AfterFunc(200*time.Millisecond, cancel) } // who waits gives up
					}
					r.run(ctx, g.Addr().String(), f.line)
					what := fmt.Sprintf("%s, %s at request %d", f.name, faultNames[kind], k)
					r.judge(f, what)
					r.goOn(address, f, what)
				})
				t.Logf("%s, %s: %d steps", f.name, faultNames[kind], n)
				if n < 3 {
					t.Errorf("%s sends %d requests only", f.name, n)
				}
			}
		})
	}
}

// goOn does what is left to do, and wants all of it done.
func (r *faultRun) goOn(address string, f faulty, what string) {
	for line := range strings.SplitSeq(f.goOn, "; ") {
		if f.line[:2] != "cp" && f.line[:2] != "mi" && r.tree(r.from) == nil {
			break // done
		}
		r.run(r.t.Context(), address, line)
		if r.exit != 0 {
			r.t.Errorf("%s; then %s: exit code %d, %s", what, line, r.exit, r.out)
		}
	}
	r.exit = 0
	r.judge(f, what+", and gone on")
}

// TestWritersAtEveryStep has somebody else write right before each write of a
// command: what was acknowledged must be there afterwards.
func TestWritersAtEveryStep(t *testing.T) {
	t.Parallel()
	acl := zk.WorldACL(zk.PermAll)
	writers := map[string]func(ctx context.Context, c *zk.Client, r *faultRun) (string, error){
		"set": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			_, err := c.Set(ctx, r.from+"/a/b", []byte("W"), zk.AnyVersion)
			return "/a/b", err
		},
		"create": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			_, err := c.Create(ctx, r.from+"/a/new", []byte("W"), zk.ModePersistent, acl)
			return "/a/new", err
		},
		"ephemeral": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			_, err := c.Create(ctx, r.from+"/c/eph", []byte("W"), zk.ModeEphemeral, acl)
			return "/c/eph", err
		},
		"again": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			if err := c.Delete(ctx, r.from+"/c", zk.AnyVersion); err != nil {
				return "", err
			}
			_, err := c.Create(ctx, r.from+"/c", []byte("W"), zk.ModePersistent, acl)
			return "/c", err
		},
		"set target": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			_, err := c.Set(ctx, r.to+"/c", []byte("W"), zk.AnyVersion)
			return "/c", err
		},
		"create target": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			_, err := c.Create(ctx, r.to+"/x/new", []byte("W"), zk.ModePersistent, acl)
			return "/x/new", err
		},
		"set extra": func(ctx context.Context, c *zk.Client, r *faultRun) (string, error) {
			_, err := c.Set(ctx, r.to+"/x/y", []byte("W"), zk.AnyVersion)
			return "/x/y", err
		},
	}
	for _, f := range faulties {
		for name, write := range writers {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				address := startZooid(t)
				c := superClient(t, address)
				ops := []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpSetData, jute.OpSetACL, jute.OpMulti}
				if r := f.line[:2]; (r == "cp" || r == "mv") && !strings.Contains(name, "target") {
					ops = nil // the source is nowhere to be written over
				}
				if name == "again" {
					// No transaction can name a czxid: what comes between the last look and it is lost.
					ops = []jute.Op{jute.OpExists}
				}
				everyStep(t, address, ops, actOnly, func(g *gate, k int) {
					r := prepare(t, c, fmt.Sprintf("/w%d", k), f)
					written := ""
					g.act = func() {
						if path, err := write(t.Context(), c, r); err == nil {
							written = path
						}
					}
					r.run(t.Context(), g.Addr().String(), f.line)
					if written == "" {
						return
					}
					from, to := r.tree(r.from), r.tree(r.to)
					if !strings.Contains(from[written], `"W"`) && !strings.Contains(to[written], `"W"`) {
						t.Errorf("%s at write %d, at %s: lost; exit code %d, printed %s\nsource %q\ntarget %q",
							name, k, written, r.exit, r.out, from, to)
					}
				})
			})
		}
	}
}

// TestSetACLBelowKeepsAnothers has somebody else change an ACL after setAcl -R has
// listed the znodes.
func TestSetACLBelowKeepsAnothers(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c := superClient(t, address)
		r := prepare(t, c, "/r", faulties[0])
		g := newGate(t, address)
		defer g.Close()
		theirs := zk.WorldACL(zk.PermRead | zk.PermAdmin)
		g.at, g.ops, g.fault = 1, []jute.Op{jute.OpSetACL}, actOnly
		g.act = func() {
			if _, err := c.SetACL(t.Context(), r.from+"/c", theirs, zk.AnyVersion); err != nil {
				t.Error(err)
			}
		}
		// A gate holds all later requests while it acts, and the first is for the top.
		r.run(t.Context(), g.Addr().String(), "setAcl -R FROM world:anyone:cdrwa")
		acl, _, err := c.GetACL(t.Context(), r.from+"/c")
		if err != nil || r.exit != exitFailed || !sameACL(acl, theirs) {
			t.Errorf("exit code %d, printed %s; the ACL is %v, %v", r.exit, r.out, acl, err)
		}
	})
}

// TestTwoDelete has somebody else delete a part of what deleteall is about to.
func TestTwoDelete(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := superClient(t, address)
	r := prepare(t, c, "/r", faulties[0])
	g := newGate(t, address)
	defer g.Close()
	g.at, g.ops, g.fault = 1, []jute.Op{jute.OpMulti}, actOnly
	g.act = func() {
		if err := c.Delete(t.Context(), r.from+"/a/b", zk.AnyVersion); err != nil {
			t.Error(err)
		}
	}
	r.run(t.Context(), g.Addr().String(), "deleteall FROM")
	if left := r.tree(r.from); r.exit != 0 || left != nil {
		t.Errorf("exit code %d, printed %s; %q is left", r.exit, r.out, left)
	}
}
