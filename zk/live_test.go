package zk_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// The suite in live*_test.go runs against real servers: those that
// ZOOID_TEST_SERVERS names in a connect string, or an Apache server it starts
// itself if ZOOID_COMPAT is 1. Without either it is skipped. Nothing in it knows
// which server answers.

// apache is the server TestMain started, shared by all live tests.
var apache struct {
	once    sync.Once
	address string
	err     error
	stop    func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if apache.stop != nil {
		apache.stop()
	}
	os.Exit(code)
}

// liveServers returns a connect string without chroot, or skips the test.
func liveServers(t testing.TB) string {
	t.Helper()
	if servers := os.Getenv("ZOOID_TEST_SERVERS"); servers != "" {
		return servers
	}
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs a server: set ZOOID_TEST_SERVERS=host:port, or ZOOID_COMPAT=1 to start Apache's")
	}
	apache.once.Do(func() { apache.address, apache.stop, apache.err = startApache() })
	if apache.err != nil {
		t.Fatal(apache.err)
	}
	return apache.address
}

// apacheClasspath returns Apache's 3.9, or Debian's release if that isn't installed. The folders of other versions, and
// of parts, are beside it.
func apacheClasspath() string {
	dir := os.Getenv("ZOOID_COMPAT_CACHE") // where the compatibility tests install it
	if dir == "" {
		cache, _ := os.UserCacheDir()
		dir = filepath.Join(cache, "zooid-compat")
	}
	if jars, _ := filepath.Glob(filepath.Join(dir, "apache-3.9", "*.jar")); len(jars) > 0 {
		return strings.Join(jars, ":")
	}
	return "/usr/share/java/zookeeper.jar"
}

// startApache starts a server of its own, with more Java properties if given.
func startApache(properties ...string) (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "zk-live-")
	if err != nil {
		return "", nil, err
	}
	ports, release, err := freeport.Reserve(1)
	if err != nil {
		return "", nil, err
	}
	address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	config := fmt.Sprintf("tickTime=500\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n",
		dir, ports[0])
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, err
	}
	args := append(properties, "-Dzookeeper.extendedTypesEnabled=true", "-Xmx256m", "-cp", apacheClasspath(),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	cmd := exec.Command("java", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
		release()
		log.Close()
		os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := zk.Open(ctx, address, zk.Options{})
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		stop()
		return "", nil, fmt.Errorf("Apache did not start: %w\n%s", err, said)
	}
	c.Close()
	return address, stop, nil
}

// patience bounds a test with real servers that would wait for ever. Nothing is judged by it.
const patience = 3 * time.Minute

// live opens a client rooted in a znode of its own, which goes with the test, and
// returns it with the connect string that leads there.
func live(t testing.TB, opt zk.Options) (*zk.Client, string, context.Context) {
	t.Helper()
	servers := liveServers(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	bare, err := zk.Open(ctx, servers, opt)
	if err != nil {
		t.Fatal(err)
	}
	root, err := bare.Create(ctx, "/zk-live-", nil, zk.ModePersistentSequential, world)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sweep(t, servers, root)
		bare.Close()
	})
	c, err := bare.Chroot(root)
	if err != nil {
		t.Fatal(err)
	}
	return c, servers + root, ctx
}

// sweep deletes the tree at root with a client of its own, as the test may have
// closed its client.
func sweep(t testing.TB, servers, root string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := zk.Open(ctx, servers, zk.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if err := c.DeleteAll(ctx, root); err != nil {
		t.Error(err)
	}
}

var world = zk.WorldACL(zk.PermAll)

// A cutter cuts the connections it dialled.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}
