package recipe_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// The fleet tests let Go, Java (Curator) and Python (kazoo) take turns at the same
// recipes. Needed: Debian's libcurator-recipes-java, libcurator-discovery-java, a
// JDK and kazoo, which test/compat/install.sh installs.

// An umpire watches over a fleet. Members tell it before they go in and after they
// have come out, by a line each, and it answers if they shall go on.
type umpire struct {
	t        *testing.T
	listener net.Listener
	leases   int // of the kind "lease", at a time

	mu     sync.Mutex
	inside map[string]int // by kind
	turns  map[string]int // by member
	order  []string       // of turns since all have had one
	want   int            // members
	heard  []string       // other lines
	over   bool
}

func newUmpire(t *testing.T, members int) *umpire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &umpire{t: t, listener: l, leases: 2, inside: map[string]int{}, turns: map[string]int{}, want: members}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go u.listen(conn)
		}
	}()
	return u
}

func (u *umpire) listen(conn net.Conn) {
	defer conn.Close()
	name := ""
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		answer := "go"
		switch what {
		case "name":
			name = rest
		case "in":
			u.in(name, rest)
		case "out":
			if !u.out(rest) {
				answer = "stop"
			}
		default:
			u.mu.Lock()
			u.heard = append(u.heard, lines.Text())
			u.mu.Unlock()
		}
		fmt.Fprintln(conn, answer)
	}
}

func (u *umpire) in(name, kind string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inside[kind]++
	if x, s, l := u.inside["exclusive"], u.inside["shared"], u.inside["lease"]; x > 1 || x == 1 && s > 0 || l > u.leases {
		u.t.Errorf("%s came in: %d exclusive, %d shared, %d leases", name, x, s, l)
	}
	u.turns[name]++
	if len(u.turns) == u.want {
		u.order = append(u.order, name)
	}
}

func (u *umpire) out(kind string) (more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inside[kind]--
	return !u.over
}

func (u *umpire) finish() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}

// fair reports an error unless everybody had a fair share of the turns.
func (u *umpire) fair() {
	u.mu.Lock()
	defer u.mu.Unlock()
	share := map[string]int{}
	for _, name := range u.order {
		share[name]++
	}
	u.t.Logf("turns: %v", share)
	for name, n := range share {
		if n*u.want*4 < len(u.order) {
			u.t.Errorf("%s had %d of %d turns among %d", name, n, len(u.order), u.want)
		}
	}
	if len(u.order) < u.want {
		u.t.Errorf("turns: %v; not everybody had one", u.turns)
	}
}

// A fleet is the members that aren't Go.
type fleet struct {
	*arena
	umpire  *umpire
	classes string
	wg      sync.WaitGroup
}

// fleets runs a test against Zooid and Apache if ZOOID_COMPAT is 1.
func fleets(t *testing.T, members int, test func(f *fleet)) {
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs other clients: set ZOOID_COMPAT=1")
	}
	each(t, func(a *arena) {
		f := &fleet{arena: a, umpire: newUmpire(a.t, members), classes: compiled(a.t)}
		a.t.Cleanup(f.wg.Wait) // programs are killed then
		test(f)
		f.umpire.finish()
		f.wg.Wait()
	})
}

var fleetClasses struct {
	once sync.Once
	dir  string
	err  error
}

// javaPath is where Debian puts what Curator needs.
func javaPath() string {
	var jars []string
	for _, name := range []string{
		"curator-client", "curator-framework", "curator-recipes", "curator-x-discovery", "zookeeper", "zookeeper-jute",
		"guava",
		"failureaccess", "slf4j-api", "slf4j-nop", "netty-all", "netty-handler", "jackson-core", "jackson-databind",
		"jackson-annotations", "snappy-java",
	} {
		jars = append(jars, filepath.Join("/usr/share/java", name+".jar"))
	}
	return strings.Join(jars, ":")
}

func compiled(t *testing.T) string {
	t.Helper()
	c := &fleetClasses
	c.once.Do(func() {
		if c.dir, c.err = os.MkdirTemp("", "zk-fleet-"); c.err != nil {
			return
		}
		if out, err :=
			exec.Command("javac", "-nowarn", "-cp", javaPath(), "-d", c.dir,
				"testdata/Fleet.java").CombinedOutput(); err != nil {
			c.err = fmt.Errorf("compile testdata/Fleet.java (needs a JDK, libcurator-recipes-java and libcurator-discovery-java): %w\n%s",
				err, out)
		}
	})
	if c.err != nil {
		t.Fatal(c.err)
	}
	return c.dir
}

func (f *fleet) java(name, recipe, path string) {
	f.program(exec.CommandContext(f.ctx, "java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f.classes+":"+javaPath(),
		"Fleet",
		f.connect, f.umpire.listener.Addr().String(), name, recipe, path))
}

func (f *fleet) python(name, recipe, path string) {
	python := "python3"
	own := filepath.Join(compatCache(), "kazoo", "bin", "python")
	if _, err := os.Stat(own); err == nil {
		python = own
	}
	f.program(exec.CommandContext(f.ctx, python, "testdata/fleet.py", f.connect, f.umpire.listener.Addr().String(), name,
		recipe, path))
}

func (f *fleet) program(cmd *exec.Cmd) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	f.wg.Go(func() {
		if err := cmd.Run(); err != nil && f.t.Context().Err() == nil {
			f.t.Errorf("%s: %v\n%s", strings.Join(cmd.Args[len(cmd.Args)-3:], " "), err, &said)
		}
	})
}

// member takes turns until the umpire ends it.
func (f *fleet) member(name, kind string, turn func(inside func()) error) {
	f.wg.Go(func() {
		for more := true; more; {
			err := turn(func() {
				f.umpire.in(name, kind)
				time.Sleep(time.Millisecond)
				more = f.umpire.out(kind)
			})
			if err != nil {
				f.t.Errorf("%s: %v", name, err)
				return
			}
		}
	})
}

// locking is a member that goes in under a lock.
func (f *fleet) locking(name, kind string, lock func(context.Context) (*recipe.Held, error)) {
	f.member(name, kind, func(inside func()) error {
		held, err := lock(f.ctx)
		if err != nil {
			return err
		}
		inside()
		return held.Unlock(f.ctx)
	})
}

// contend lets the fleet run for a while, and then looks for who was starved.
func (f *fleet) contend() {
	f.run()
	f.umpire.fair()
}

// run lets the fleet run for a while after everybody has had a turn.
func (f *fleet) run() {
	f.eventually("everybody has had a turn", func() bool {
		f.umpire.mu.Lock()
		defer f.umpire.mu.Unlock()
		return len(f.umpire.turns) == f.umpire.want || f.t.Failed()
	})
	<-f.storm(func() {})
	f.umpire.finish()
	f.wg.Wait()
}

func TestFleetLock(t *testing.T) {
	fleets(t, 5, func(f *fleet) {
		for _, name := range []string{"go 1", "go 2"} {
			f.locking(name, "exclusive", recipe.NewMutex(f.client(), "/lock", recipe.Options{}).Lock)
		}
		f.java("java 1", "lock", "/lock")
		f.java("java 2", "lock", "/lock")
		f.python("python", "lock", "/lock")
		f.contend()
	})
}

// fence counts in a znode: whoever is refused isn't alone.
func fence(ctx context.Context, c *zk.Client, path, mark string) error {
	old, stat, err := c.Get(ctx, path)
	if err != nil {
		return err
	}
	number, _, _ := strings.Cut(string(old), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	mine := fmt.Sprintf("%d %s", n+1, mark)
	for {
		_, err = c.Set(ctx, path, []byte(mine), stat.Version)
		if err == nil || !zk.MaybeApplied(err) {
			break
		}
	}
	if errors.Is(err, zk.ErrBadVersion) { // the reply to an earlier attempt may be lost
		now, _, errGet := c.Get(ctx, path)
		if errGet == nil && string(now) != mine {
			return fmt.Errorf("fence: %q became %q, not %q", old, now, mine)
		}
		err = errGet
	}
	return err
}

// Connections are cut while Go, Java and Python take turns. Each holder counts in a
// znode; no count may be refused, and at the end there are as many as turns.
func TestFleetLockUnderCuts(t *testing.T) {
	fleets(t, 4, func(f *fleet) {
		judge := f.client()
		_, err := judge.Create(f.ctx, "/lock-fence", []byte("0 nobody"), zk.ModePersistent, zk.WorldACL(zk.PermAll))
		f.must(err)
		for _, name := range []string{"go 1", "go 2"} {
			c := f.client()
			lock := recipe.NewMutex(c, "/lock", recipe.Options{}).Lock
			f.wg.Go(func() {
				for turn, more := 1, true; more; turn++ {
					held, err := lock(f.ctx)
					if err == nil {
						f.umpire.in(name, "exclusive")
						err = fence(f.ctx, c, "/lock-fence", fmt.Sprintf("%s %d", name, turn))
						more = f.umpire.out("exclusive")
					}
					if err == nil {
						err = held.Unlock(f.ctx)
					}
					if err != nil {
						f.t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
		f.java("java", "fenced", "/lock")
		f.python("python", "fenced", "/lock")
		f.eventually("everybody has had a turn", func() bool {
			f.umpire.mu.Lock()
			defer f.umpire.mu.Unlock()
			return len(f.umpire.turns) == f.umpire.want || f.t.Failed()
		})
		for end := time.Now().Add(*stormFor + fleetCuts*fleetPause); time.Now().Before(end); time.Sleep(fleetPause) {
			f.cut()
		}
		f.umpire.finish()
		f.wg.Wait()
		turns := 0
		for _, n := range f.umpire.turns {
			turns += n
		}
		data, _, err := judge.Get(f.ctx, "/lock-fence")
		f.must(err)
		t.Logf("turns under cuts: %v; the last count is %s", f.umpire.turns, data)
		if number, _, _ := strings.Cut(string(data), " "); number != strconv.Itoa(turns) {
			t.Errorf("the last count is %s after %d turns", data, turns)
		}
		f.eventually("nothing is left in line", func() bool { return len(f.children(judge, "/lock")) == 0 })
	})
}

// fleetPause spaces the cuts: other clients wait up to a second before they connect
// again. There are at least fleetCuts of them.
const (
	fleetPause = 1500 * time.Millisecond
	fleetCuts  = 8
)

// Unchanged but for the pattern it looks for, kazoo's lock shares with ours.
func TestFleetPlainKazooLock(t *testing.T) {
	fleets(t, 3, func(f *fleet) {
		for _, name := range []string{"go 1", "go 2"} {
			f.locking(name, "exclusive", recipe.NewMutex(f.client(), "/lock", recipe.Options{}).Lock)
		}
		f.python("python", "plainlock", "/lock")
		f.contend()
	})
}

func TestFleetElection(t *testing.T) {
	fleets(t, 4, func(f *fleet) {
		for _, name := range []string{"go 1", "go 2"} {
			e := recipe.NewElection(f.source(), "/election", recipe.Options{Data: []byte(name)})
			f.member(name, "exclusive", func(inside func()) error {
				return e.Run(f.ctx, func(context.Context, *recipe.Held) error {
					inside()
					return nil
				})
			})
		}
		f.java("java", "election", "/election")
		f.python("python", "election", "/election")
		f.contend()
	})
}

func TestFleetLatch(t *testing.T) {
	fleets(t, 2, func(f *fleet) {
		s := f.source()
		f.member("go", "exclusive", func(inside func()) error {
			l := recipe.NewLatch(s, "/latch", recipe.Options{Data: []byte("go")})
			defer l.Close()
			_, err := l.Wait(f.ctx)
			inside()
			return err
		})
		f.java("java", "latch", "/latch")
		f.contend()
	})
}

func TestFleetRWLock(t *testing.T) {
	fleets(t, 4, func(f *fleet) {
		l := recipe.NewRWLock(f.client(), "/rw", recipe.Options{})
		f.locking("go reader", "shared", l.Reader().Lock)
		f.locking("go writer", "exclusive", l.Writer().Lock)
		f.java("java reader", "reader", "/rw")
		f.java("java writer", "writer", "/rw")
		f.contend()
	})
}

// kazoo shares a read/write lock with us if it is told the names.
func TestFleetKazooRWLock(t *testing.T) {
	fleets(t, 4, func(f *fleet) {
		l := recipe.NewRWLock(f.client(), "/rw", recipe.Options{})
		f.locking("go reader", "shared", l.Reader().Lock)
		f.locking("go writer", "exclusive", l.Writer().Lock)
		f.python("python reader", "reader", "/rw")
		f.python("python writer", "writer", "/rw")
		f.contend()
	})
}

func TestFleetSemaphore(t *testing.T) {
	fleets(t, 4, func(f *fleet) {
		for _, name := range []string{"go 1", "go 2", "go 3"} {
			f.locking(name, "lease", recipe.NewSemaphore(f.client(), "/sem", 2, recipe.Options{}).Acquire)
		}
		f.java("java", "semaphore", "/sem")
		f.contend()
	})
}

func TestFleetCounter(t *testing.T) {
	fleets(t, 2, func(f *fleet) {
		n := recipe.NewCounter(f.client(), "/n", recipe.Options{})
		f.member("go", "counted", func(inside func()) error {
			_, err := n.Add(f.ctx, 1)
			inside()
			return err
		})
		f.java("java", "counter", "/n")
		f.run() // who is faster has more turns: nobody waits in line
		want := int64(f.umpire.turns["go"] + 1000*f.umpire.turns["java"])
		if sum, err := n.Get(f.ctx); err != nil || sum != want {
			t.Errorf("sum %d, %v; want %d", sum, err, want)
		}
	})
}

func TestFleetDoubleBarrier(t *testing.T) {
	fleets(t, 2, func(f *fleet) {
		f.java("java", "barrier", "/b")
		f.java("java 2", "barrier", "/b")
		c := f.client()
		for round := range 5 {
			b := recipe.NewDoubleBarrier(c, fmt.Sprintf("/b/%d", round), 3, recipe.Options{})
			f.must(b.Enter(f.ctx))
			f.must(b.Leave(f.ctx))
		}
	})
}

func TestFleetQueue(t *testing.T) {
	fleets(t, 1, func(f *fleet) {
		c := f.client()
		out := recipe.NewQueue(c, "/q/from", recipe.Options{})
		for i := range 20 {
			f.must(out.Put(f.ctx, fmt.Appendf(nil, "go %d", i)))
		}
		f.java("java", "queue", "/q")
		in := recipe.NewQueue(c, "/q/to", recipe.Options{})
		for i := range 20 {
			items, err := in.Take(f.ctx)
			if want := fmt.Sprintf("java %d", i); err != nil || len(items) != 1 || string(items[0]) != want {
				t.Fatalf("took %q, %v; want %q", items, err, want)
			}
		}
		f.eventually("both urgent items are there", func() bool { return len(f.children(c, "/q/urgent")) == 2 })
		urgent := recipe.NewPriorityQueue(c, "/q/urgent", recipe.Options{})
		for _, want := range []string{"early", "late"} {
			if items, err := urgent.Take(f.ctx); err != nil || string(items[0]) != want {
				t.Errorf("took %q, %v; want %q", items, err, want)
			}
		}
		var heard []string
		f.eventually("Java has taken all", func() bool {
			f.umpire.mu.Lock()
			defer f.umpire.mu.Unlock()
			heard = slices.Clone(f.umpire.heard)
			return len(heard) == 20
		})
		f.umpire.finish()
		slices.Sort(heard)
		if len(slices.Compact(heard)) != 20 {
			t.Errorf("Java took %q", heard)
		}
	})
}

func TestFleetDiscovery(t *testing.T) {
	fleets(t, 1, func(f *fleet) {
		port := 8
		d := recipe.NewDiscovery(f.source(), "/services", recipe.Options{})
		r, err := d.Register(&recipe.Instance{
			Name: "fleet", ID: "go", Address: "10.0.0.8", Port: &port, Payload: json.RawMessage(`"hi"`),
		})
		f.must(err)
		defer r.Close()
		p := d.Provider("fleet")
		defer p.Close()
		f.java("java", "discovery", "/services")
		f.eventually("Go knows both", func() bool { return len(p.All()) == 2 })
		if i := p.All()[1]; i.ID != "java" || i.Address != "10.0.0.9" || *i.Port != 99 || string(i.Payload) != `"hello"` ||
			i.Type != "DYNAMIC" {
			t.Errorf("Java's instance: %+v", i)
		}
		f.eventually("Java knows Go's", func() bool {
			f.umpire.mu.Lock()
			defer f.umpire.mu.Unlock()
			return slices.Contains(f.umpire.heard, "found 10.0.0.8 8 hi true")
		})
		f.umpire.finish()
	})
}
