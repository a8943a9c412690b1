package moving

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// startZooid starts a server on a data directory, with more lines in its configuration.
func startZooid(t *testing.T, program, dir string, lines ...string) *server {
	t.Helper()
	addr := freeport.Address(t)
	_, port, _ := strings.Cut(addr, ":")
	admin := freeport.Address(t)
	_, adminPort, _ := strings.Cut(admin, ":")
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxSessionTimeout=120000\nmaxClientCnxns=0\n"+
		"admin.enableServer=true\nadmin.serverPort=%s\nadmin.rateLimiterIntervalInMS=0\n%s\n", dir, port, adminPort,
		strings.Join(lines, "\n"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{addr: addr, admin: admin, dir: dir, exited: make(chan struct{}), output: &bytes.Buffer{}}
	s.cmd = exec.Command(program, "server", config,
		"-Dzookeeper.extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=3600000",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.kill)
	return s
}

// command runs one of zooid's commands, which must succeed.
func command(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("zooid %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func open(t *testing.T, s *server, o zk.Options) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	o.Auth = []zk.Auth{zk.DigestAuth("super", superPassword)}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = time.Minute
	}
	c, err := zk.Open(ctx, s.addr, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.output)
	}
	t.Cleanup(func() { c.Detach() })
	return c
}

// readers is how many znodes readOut reads at once.
const readers = 8

// readOut returns every reply that tells something of a znode, for all of them.
func readOut(t *testing.T, s *server) map[string]string {
	t.Helper()
	c := open(t, s, zk.Options{ReadOnly: true})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	all := map[string]string{}
	for level := []string{"/"}; len(level) > 0; {
		told, below := make([]string, len(level)), make([][]string, len(level))
		var wait sync.WaitGroup
		for r := range readers {
			wait.Go(func() {
				for i := r; i < len(level); i += readers {
					told[i], below[i] = readZnode(ctx, c, level[i])
				}
			})
		}
		wait.Wait()
		for i, path := range level {
			all[path] = told[i]
		}
		level = slices.Concat(below...)
	}
	return all
}

// readZnode returns the replies of one znode, and the paths of its children. If the connection is lost, it reads again.
func readZnode(ctx context.Context, c *zk.Client, path string) (told string, below []string) {
	data, stat, err := c.Get(ctx, path)
	names, childStat, childErr := c.Children(ctx, path)
	acl, aclStat, aclErr := c.GetACL(ctx, path)
	existsStat, there, existsErr := c.Exists(ctx, path)
	if slices.ContainsFunc([]error{err, childErr, aclErr, existsErr}, zk.Retryable) && ctx.Err() == nil {
		return readZnode(ctx, c, path)
	}
	slices.Sort(names)
	for _, name := range names {
		below = append(below, strings.TrimSuffix(path, "/")+"/"+name)
	}
	return fmt.Sprintf("%x %t %+v %v; %v %+v %v; %v %+v %v; %+v %t %v", data, data == nil, stat, err, names, childStat,
		childErr,
		acl, aclStat, aclErr, existsStat, there, existsErr), below
}

func compareReadOuts(t *testing.T, want, have map[string]string) {
	t.Helper()
	if !maps.Equal(want, have) {
		verdict.Final(t, verdict.Digest)
	}
	shown := 0
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if have[path] != want[path] && shown < 5 {
			t.Errorf("%s:\nwant %.600s\nhave %.600s", path, want[path], have[path])
			shown++
		}
	}
	if len(want) != len(have) {
		t.Errorf("%d znodes instead of %d", len(have), len(want))
	}
}

// quietly has Apache delete nothing by itself.
const quietly = "-Dznode.container.checkIntervalMs=3600000"

// oneSnapshot has Apache write a snapshot only when it starts, while no client writes. When Apache starts again on one
// that was written under load, it may make something else of it than it had acknowledged (ZOOKEEPER-3306: 3.5.10 gives
// a znode the ACL of another, or none). TestHistories judges those.
const oneSnapshot = "-Dzookeeper.snapCount=1000000"

// TestThereAndBack moves a tree from each version to Zooid, and from Zooid, from a running server and from its data
// directory, to it, and compares all that clients can read. A session goes on in Zooid with its ephemeral znode.
func TestThereAndBack(t *testing.T) {
	need(t)
	program := zooid(t)
	for i, version := range tried(versions, versions[0], versions[len(versions)-1]) {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			apache := startApache(t, version, dir, quietly, oneSnapshot)
			l := startLoad(apache.addr, *firstSeed+uint64(i), true)
			l.goOn(t, 1000)
			l.end()
			apache.kill()
			apache = startApache(t, version, dir, quietly, oneSnapshot)
			mine := open(t, apache, zk.Options{})
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if _, err := mine.Create(ctx, "/mine", []byte("x"), zk.ModeEphemeral,
				[]zk.ACL{{Perms: 31, ID: zk.ID{Scheme: "world", ID: "anyone"}}}); err != nil {
				t.Fatal(err)
			}
			l = startLoad(apache.addr, *firstSeed+50+uint64(i), true)
			l.goOn(t, 500)
			l.end()
			session := mine.Detach()
			apache.kill()
			files := names(t, dir)

			imported := filepath.Join(t.TempDir(), "zooid")
			told := command(t, program, "import", dir, imported)
			t.Log(told)
			if strings.Contains(told, "/snapshot.0 ") || !strings.Contains(told, " transactions of ") ||
				strings.Contains(told, " 0 transactions of ") {
				t.Error("the import is to read a snapshot and what was logged after it")
			}
			if now := names(t, dir); !maps.Equal(now, files) {
				t.Errorf("Apache's directory has changed: %v instead of %v", now, files)
			}
			// Apache's own restart, on a copy.
			copied := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			again := startApache(t, version, copied, quietly)
			want := readOut(t, again)
			z := startZooid(t, program, imported, "tickTime=500")
			compareReadOuts(t, without(want), without(readOut(t, z)))
			compareTrees(t, program, again, z)
			again.kill()
			if len(want) < 50 {
				t.Errorf("the load made only %d znodes", len(want))
			}

			resumed := open(t, z, zk.Options{Resume: session})
			stat, err := resumed.Set(ctx, "/mine", []byte("y"), -1)
			if err != nil || stat.EphemeralOwner != session.ID || stat.Mzxid <= stat.Czxid {
				t.Errorf("the session's ephemeral znode has %+v, %v; the session is %#x", stat, err, session.ID)
			}

			l = startLoad(z.addr, *firstSeed+100+uint64(i), true)
			l.goOn(t, 500)
			l.end()
			want = readOut(t, z)
			running := filepath.Join(t.TempDir(), "apache")
			t.Log(command(t, program, "export", "-to", running, "-auth", "digest:super:"+superPassword, "http://"+z.admin))
			z.kill()
			back := filepath.Join(t.TempDir(), "apache")
			t.Log(command(t, program, "export", "-to", back, imported))
			apache = startApache(t, version, running, quietly)
			compareReadOuts(t, without(want), without(readOut(t, apache)))
			apache.kill()
			apache = startApache(t, version, back, quietly)
			compareReadOuts(t, without(want), without(readOut(t, apache)))
		})
	}
}

// compareTrees: zooid migrate compare finds two running servers equal, and one write to one of them.
func compareTrees(t *testing.T, program string, a, b *server) {
	t.Helper()
	run := func() string {
		out, err := exec.Command(program, "migrate", "compare", "-patience", "100ms", "-auth", "digest:super:"+superPassword,
			a.addr, b.addr).CombinedOutput()
		return fmt.Sprintf("%v %s", err, out)
	}
	if out := run(); !strings.HasPrefix(out, "<nil> ") ||
		!strings.Contains(out, " 0 different, 0 changing, 0 unreadable") || strings.Contains(out, "ACLs") {
		t.Errorf("of equal trees: %s", out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := open(t, b, zk.Options{})
	defer c.Close()
	if _, err := c.Create(ctx, "/only-in-b", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	if out := run(); !strings.HasPrefix(out, "exit status 1 ") || !strings.Contains(out, "/only-in-b: only in B\n") ||
		!strings.Contains(out, " 2 different") {
		t.Errorf("after a create: %s", out)
	}
	if err := c.Delete(ctx, "/only-in-b", -1); err != nil {
		t.Fatal(err)
	}
}

// without leaves out what a reader changes by reading: its own sessions make none of the znodes, and
// the znode of the configuration is each server's own.
func without(all map[string]string) map[string]string {
	all = maps.Clone(all)
	delete(all, "/zookeeper/config")
	return all
}
