package moving

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// A load is a group of clients that write at random until it is stopped.
type load struct {
	addr   string
	long   bool // sessions time out after two minutes, and there are no short TTLs
	stop   context.CancelFunc
	done   sync.WaitGroup
	held   sync.RWMutex // each write holds it for reading
	mu     sync.Mutex
	writes int
}

// begun returns the number of writes started so far.
func (l *load) begun() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// goOn waits until the load has begun so many more writes.
func (l *load) goOn(t *testing.T, writes int) {
	t.Helper()
	before := l.begun()
	if !awaited(func() bool { return l.begun() >= before+writes }) {
		t.Fatalf("the load has begun only %d writes of %d", l.begun()-before, writes)
	}
}

// loadClients is the number of concurrent clients.
const loadClients = 6

func startLoad(addr string, seed uint64, long bool) *load {
	ctx, stop := context.WithCancel(context.Background())
	l := &load{addr: addr, long: long, stop: stop}
	for n := range loadClients {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		l.done.Go(func() {
			for ctx.Err() == nil {
				l.session(ctx, rnd)
			}
		})
	}
	return l
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// session writes for some time in one session, and then closes it or leaves it to expire.
func (l *load) session(ctx context.Context, rnd *rand.Rand) {
	open, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	timeout := time.Duration(1+rnd.IntN(9)) * time.Second
	if l.long {
		timeout = 2 * time.Minute
	}
	c, err := zk.Open(open, l.addr,
		zk.Options{SessionTimeout: timeout, Auth: []zk.Auth{zk.DigestAuth("super", superPassword)}})
	if err != nil {
		return
	}
	for range 20 + rnd.IntN(400) {
		if err := l.write(ctx, c, rnd); errors.Is(err, context.Canceled) || zk.SessionLost(err) {
			break
		}
	}
	if rnd.IntN(4) == 0 {
		c.Detach()
		return
	}
	c.Close()
}

func loadPath(rnd *rand.Rand) string {
	path := fmt.Sprintf("/n%d", rnd.IntN(40))
	for rnd.IntN(3) > 0 {
		path += fmt.Sprintf("/c%d", rnd.IntN(12))
	}
	return path
}

func loadData(rnd *rand.Rand) []byte {
	switch n := rnd.IntN(20); n {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return make([]byte, rnd.IntN(50_000))
	default:
		b := make([]byte, rnd.IntN(300))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
}

func loadACL(rnd *rand.Rand) []zk.ACL {
	switch rnd.IntN(8) {
	case 0:
		return []zk.ACL{{Perms: 1, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	case 1:
		return []zk.ACL{
			{Perms: 31, ID: zk.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:abcdefghijklmnopqrstuvwxyz0=", rnd.IntN(30))}},
		}
	case 2:
		return []zk.ACL{
			{Perms: 7, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}}, {Perms: 31, ID: zk.ID{Scheme: "world", ID: "anyone"}},
		}
	}
	return []zk.ACL{{Perms: 31, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
}

var loadModes = []zk.CreateMode{
	zk.ModePersistent, zk.ModePersistent, zk.ModePersistent, zk.ModePersistentSequential, zk.ModeEphemeral,
	zk.ModeEphemeralSequential, zk.ModeContainer,
}

// write does one random write. Its error matters only if the session is over.
func (l *load) write(ctx context.Context, c *zk.Client, rnd *rand.Rand) (err error) {
	l.held.RLock()
	defer l.held.RUnlock()
	l.mu.Lock()
	l.writes++
	l.mu.Unlock()
	path := loadPath(rnd)
	switch n := rnd.IntN(100); {
	case n < 45:
		_, err = c.Create(ctx, path, loadData(rnd), loadModes[rnd.IntN(len(loadModes))], loadACL(rnd))
	case n < 50:
		mode := []zk.CreateMode{zk.ModePersistentWithTTL, zk.ModePersistentSequentialWithTTL}[rnd.IntN(2)]
		ttl := []time.Duration{200 * time.Millisecond, time.Hour}[rnd.IntN(2)]
		if l.long {
			ttl = time.Hour
		}
		_, _, err = c.CreateTTL(ctx, path, loadData(rnd), mode, loadACL(rnd), ttl)
	case n < 65:
		_, err = c.Set(ctx, path, loadData(rnd), -1)
	case n < 80:
		err = c.Delete(ctx, path, -1)
	case n < 83:
		err = c.DeleteAll(ctx, path)
	case n < 88:
		_, err = c.SetACL(ctx, path, loadACL(rnd), -1)
	case n < 90:
		err = l.quota(ctx, c, rnd)
	default:
		var ops []zk.MultiOp
		for range 1 + rnd.IntN(6) {
			p := loadPath(rnd)
			switch rnd.IntN(6) {
			case 0, 1, 2:
				ops = append(ops, zk.CreateOp(p, loadData(rnd), loadModes[rnd.IntN(len(loadModes))], loadACL(rnd)))
			case 3:
				ops = append(ops, zk.SetOp(p, loadData(rnd), -1))
			case 4:
				ops = append(ops, zk.DeleteOp(p, -1))
			case 5:
				ops = append(ops, zk.CheckOp(p, -1))
			}
		}
		_, err = c.Multi(ctx, ops...)
	}
	return err
}

// quota sets or removes the quota of a znode in a single multi: Apache doesn't count changes while there are stats
// without limits.
func (l *load) quota(ctx context.Context, c *zk.Client, rnd *rand.Rand) error {
	at := fmt.Sprintf("/zookeeper/quota/n%d", rnd.IntN(10))
	limits, stats := at+"/zookeeper_limits", at+"/zookeeper_stats"
	ops := []zk.MultiOp{zk.DeleteOp(stats, -1), zk.DeleteOp(limits, -1), zk.DeleteOp(at, -1)}
	if rnd.IntN(3) > 0 {
		create := func(path, data string) zk.MultiOp {
			return zk.CreateOp(path, []byte(data), zk.ModePersistent, zk.OpenACL())
		}
		ops = []zk.MultiOp{create(at, ""), create(limits, "count=5,bytes=-1"), create(stats, "count=0,bytes=0")}
	}
	_, err := c.Multi(ctx, ops...)
	return err
}
