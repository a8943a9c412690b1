package versions

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

var (
	program = flag.String("make", "", "make golden data sets with this program")
	commit  = flag.String("commit", "", "the short name of the commit that the program was built from")
)

// The servers of an ensemble have the addresses that their data names. They belong to
// the loopback of Linux, and lockHosts keeps two tests from using them at once.
const (
	peerPort     = 7288
	electionPort = 7388
	clientPort   = 7281
)

func host(id int) string { return fmt.Sprintf("127.77.40.%d", id) }

func member(id int, role string) string {
	return fmt.Sprintf("server.%d=%s:%d:%d:%s;%s:%d", id, host(id), peerPort, electionPort, role, host(id), clientPort)
}

const (
	snapCount  = 70  // changes between two snapshots
	fillers    = 40  // writes that make the first snapshot
	digestStep = 128 // the hash word tells the digest at each such zxid
	ttl        = 30 * 365 * 24 * time.Hour
)

// TestMake makes the data sets of a release. See the package comment.
func TestMake(t *testing.T) {
	if *program == "" {
		t.Skip("it makes golden data sets with -make PROGRAM -commit NAME")
	}
	if *commit == "" {
		t.Fatal("say by -commit what the program was built from: the data sets are named after it")
	}
	for name, servers := range map[string]int{"alone": 1, "ensemble": 3} {
		t.Run(name, func(t *testing.T) { makeSet(t, filepath.Join("testdata", *commit+"-"+name), servers) })
	}
}

func makeSet(t *testing.T, name string, servers int) {
	root := t.TempDir()
	addrs := []string{freeport.Address(t)}
	if servers > 1 {
		lockHosts(t)
		addrs = nil
		for id := 1; id <= servers; id++ {
			addrs = append(addrs, fmt.Sprintf("%s:%d", host(id), clientPort))
		}
	}
	var processes []*exec.Cmd
	for id := 1; id <= servers; id++ {
		processes = append(processes, launch(t, root, id, servers, addrs[id-1]))
	}
	mode := `^Mode: (standalone|leader|follower)`
	for _, addr := range addrs {
		await(t, addr, "srvr", mode)
	}
	lines := populate(t, addrs, servers > 1)
	for _, p := range processes {
		p.Process.Kill() // a server that stops writes a last snapshot; here the log keeps its tail
		p.Wait()
	}
	for id := 1; id <= servers; id++ {
		lines = append(lines, logLines(t, filepath.Join(root, fmt.Sprint(id)))...)
	}
	if err := pack(name+".tar.gz", root); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".txt", []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// launch starts one server of the program.
func launch(t *testing.T, root string, id, servers int, addr string) *exec.Cmd {
	t.Helper()
	data := filepath.Join(root, fmt.Sprint(id))
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	super, err := auth.Digest("", superUser)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(addr, ":")
	cfg := fmt.Sprintf("tickTime=500\ninitLimit=60\nsyncLimit=60\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\n", data,
		addr[:at], addr[at+1:])
	cfg += fmt.Sprintf("maxSessionTimeout=%d\nsnapCount=%d\npreAllocSize=64\n", sessionTimeout.Milliseconds(), snapCount)
	cfg += "admin.enableServer=false\n4lw.commands.whitelist=*\nextendedTypesEnabled=true\nenforceQuota=true\nreconfigEnabled=true\n"
	cfg += "DigestAuthenticationProvider.superDigest=" + super + "\n"
	if servers > 1 {
		cfg = strings.Replace(cfg, fmt.Sprintf("clientPortAddress=%s\nclientPort=%s\n", addr[:at], addr[at+1:]), "", 1)
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendln(nil, id), 0o644); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= servers; i++ {
			cfg += member(i, "participant") + "\n"
		}
	}
	file := filepath.Join(root, fmt.Sprintf("%d.cfg", id))
	if err := os.WriteFile(file, []byte(cfg), 0o644); err != nil {
		t.Fatal(err)
	}
	p := exec.Command(*program, "server", file)
	p.Stdout, p.Stderr = t.Output(), t.Output()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

func open(t *testing.T, addr string, resume zk.Session, users ...string) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := zk.Options{SessionTimeout: sessionTimeout, Resume: resume}
	for _, user := range users {
		o.Auth = append(o.Auth, zk.Auth{Scheme: "digest", Auth: []byte(user)})
	}
	c, err := zk.Open(ctx, addr, o)
	if err != nil {
		t.Fatalf("open a session at %s: %v", addr, err)
	}
	t.Cleanup(func() { c.Detach() })
	return c
}

// populate fills the servers and returns the listing.
func populate(t *testing.T, addrs []string, ensemble bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	last := len(addrs) - 1
	owner := open(t, addrs[0], zk.Session{}, aliceUser)
	other := open(t, addrs[last], zk.Session{}, superUser)
	closed := open(t, addrs[last], zk.Session{})
	if ensemble {
		_, _, err := other.Reconfig(ctx, zk.Reconfig{Joining: []string{member(len(addrs), "observer")}})
		check(err)
	}
	_, err := owner.Create(ctx, "/filler", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))
	check(err)
	for _, root := range []string{"/snapshot", "/log"} { // what both hold
		check(kinds(ctx, root, owner, other, closed))
		for i := 0; i < fillers && root == "/snapshot"; i++ {
			_, err := owner.Set(ctx, "/filler", fmt.Append(nil, i), -1)
			check(err)
		}
	}
	check(closed.Close())
	_, err = owner.Create(ctx, "/unread", make([]byte, 300), zk.ModeEphemeral, zk.WorldACL(zk.PermAll))
	check(err)
	for zxid := int64(1); zxid%digestStep != 0; { // so that the last digest is that of the whole
		stat, err := owner.Set(ctx, "/filler", []byte("end"), -1)
		check(err)
		zxid = stat.Mzxid
	}
	for _, addr := range addrs {
		c := open(t, addr, other.Detach(), superUser)
		check(c.Sync(ctx, "/"))
		other = c
	}
	lines := []string{sessionLine(owner.Session()), sessionLine(other.Session())}
	lines = append(lines, "zxid "+await(t, addrs[0], "srvr", `^Zxid: (0x[0-9a-f]+)$`))
	lines = append(lines, sessionLines(t, addrs)...)
	lines = append(lines, digestLines(t, addrs[0])...)
	return append(lines, znodeLines(t, other, "/")...)
}

// kinds creates one znode of each kind below root.
func kinds(ctx context.Context, root string, owner, other, closed *zk.Client) error {
	world := zk.WorldACL(zk.PermAll)
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	alice, err := auth.Digest("", aliceUser)
	if err != nil {
		return err
	}
	readers := append(zk.WorldACL(zk.PermRead), zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: alice}},
		zk.ACL{Perms: zk.PermWrite, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}})
	quota := "/zookeeper/quota" + root
	for _, n := range []struct {
		c    *zk.Client
		path string
		data []byte
		mode zk.CreateMode
		acl  []zk.ACL
	}{
		{owner, root, []byte("root"), zk.ModePersistent, world},
		{other, quota, nil, zk.ModePersistent, world},
		{other, quota + "/zookeeper_limits", []byte("count=1000,bytes=100000=;byteHardLimit=200000;countHardLimit=23"),
			zk.ModePersistent, world},
		{other, quota + "/zookeeper_stats", []byte("count=1,bytes=4"), zk.ModePersistent, world},
		{owner, root + "/null", nil, zk.ModePersistent, world},
		{owner, root + "/empty", []byte{}, zk.ModePersistent, world},
		{owner, root + "/binary", binary, zk.ModePersistent, world},
		{owner, root + "/wörld ☃", []byte("snow"), zk.ModePersistent, world},
		{owner, root + "/mine", []byte("alice's"), zk.ModePersistent, zk.CreatorACL()},
		{owner, root + "/readers", []byte("to read"), zk.ModePersistent, readers},
		{owner, root + "/container", nil, zk.ModeContainer, world},
		{owner, root + "/container/child", nil, zk.ModePersistent, world},
		{owner, root + "/queue", nil, zk.ModePersistent, world},
		{owner, root + "/queue/n-", []byte("0"), zk.ModePersistentSequential, world},
		{other, root + "/queue/n-", []byte("1"), zk.ModeEphemeralSequential, world},
		{closed, root + "/queue/n-", []byte("2"), zk.ModeEphemeralSequential, world},
		{owner, root + "/owned", []byte("owner's"), zk.ModeEphemeral, world},
		{other, root + "/other", []byte("other's"), zk.ModeEphemeral, zk.WorldACL(zk.PermRead)},
		{closed, root + "/closed", nil, zk.ModeEphemeral, world},
		{owner, root + "/gone", nil, zk.ModePersistent, world},
	} {
		if _, err := n.c.Create(ctx, n.path, n.data, n.mode, n.acl); err != nil {
			return fmt.Errorf("create %s: %w", n.path, err)
		}
	}
	for path, mode := range map[string]zk.CreateMode{
		"/ttl": zk.ModePersistentWithTTL, "/queue/ttl-": zk.ModePersistentSequentialWithTTL,
	} {
		if _, _, err := owner.CreateTTL(ctx, root+path, []byte("later"), mode, world, ttl); err != nil {
			return err
		}
	}
	_, err = owner.Multi(ctx, zk.SetOp(root+"/empty", []byte("no longer"), 0), zk.SetOp(root+"/empty", []byte{}, 1),
		zk.DeleteOp(root+"/gone", -1))
	if err != nil {
		return err
	}
	_, err = owner.SetACL(ctx, root+"/null", readers, 0)
	return err
}

// pack writes the data directories below root. It leaves out the file reserve, which
// only keeps room on the disk.
func pack(name, root string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	w := tar.NewWriter(z)
	files, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(file) == "reserve" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o600, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}
