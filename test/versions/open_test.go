package versions

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/zk"
)

// An ensemble is one server or three of this version, on a data set's directories.
type ensemble struct {
	t       *testing.T
	options []server.Options
	running []*server.Server
}

// setUp unpacks a data set for servers of this version.
func setUp(t *testing.T, name string) *ensemble {
	t.Helper()
	root := t.TempDir()
	if err := unpack(name+".tar.gz", root); err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("the data set is empty (%v)", err)
	}
	super, err := auth.Digest("", superUser)
	if err != nil {
		t.Fatal(err)
	}
	e := &ensemble{t: t, running: make([]*server.Server, len(folders))}
	for i, folder := range folders {
		o := server.Options{
			ID: uint64(i + 1), DataDir: folder, Listen: []string{"127.0.0.1:0"}, Serving: server.Serving{
				Tick: time.Second, SessionTimeoutMax: sessionTimeout,
			},
			Settings:        tree.Settings{ExtendedTypes: true, EnforceQuota: true, ReconfigEnabled: true},
			Auth:            auth.Options{SuperDigest: super},
			FourLetterWords: []string{"*"}, Version: "3.9.5-test, built on 2026-01-01 00:00 UTC",
			Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		}
		if len(folders) > 1 {
			var text strings.Builder
			for id := 1; id <= len(folders); id++ { // what zoo.cfg said at first; the data knows better
				fmt.Fprintln(&text, member(id, "participant"))
			}
			o.Membership = server.Membership{Text: text.String(), Parse: parseMembers}
			if o.Members, err = parseMembers(text.String()); err != nil {
				t.Fatal(err)
			}
			o.PeerListen = o.Members[i].Addrs[0]
		}
		e.options = append(e.options, o)
	}
	if len(folders) > 1 {
		lockHosts(t)
	}
	t.Cleanup(e.stop)
	return e
}

func parseMembers(text string) (all []server.Member, err error) {
	m, err := config.ParseMembers(text)
	if err != nil {
		return nil, err
	}
	for _, s := range m.Servers {
		a := s.Addrs[0]
		all = append(all,
			server.Member{
				ID: uint64(s.ID), Observer: s.Observer, Addrs: []string{net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort))},
			})
	}
	return all, nil
}

// start starts all servers and waits until they serve.
func (e *ensemble) start() {
	e.t.Helper()
	errs := make([]error, len(e.options))
	var all sync.WaitGroup
	for i := range e.options {
		all.Go(func() { e.running[i], errs[i] = server.Open(e.options[i]) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		e.t.Fatal(err)
	}
	for _, addr := range e.addrs() {
		await(e.t, addr, "srvr", `^Mode: (standalone|leader|follower|observer)`)
	}
}

// stop stops the servers that run.
func (e *ensemble) stop() {
	for i, s := range e.running {
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil {
			e.t.Errorf("stop server %d: %v", i+1, err)
		}
		e.running[i] = nil
	}
}

// addrs returns where the servers listen for clients.
func (e *ensemble) addrs() (all []string) {
	for _, s := range e.running {
		all = append(all, s.Addrs()[0].String())
	}
	return all
}

// lockHosts waits until no other test uses the ensemble's addresses, and holds them
// until this one ends. It skips the test on a machine that doesn't have them.
func lockHosts(t *testing.T) {
	t.Helper()
	addr := fmt.Sprintf("%s:%d", host(1), peerPort)
	probe, err := net.ListenPacket("udp", host(1)+":0")
	if err != nil {
		t.Skipf("this machine's loopback has no %s: %v", host(1), err)
	}
	probe.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(askPause) {
		lock, err := net.ListenPacket("udp", addr)
		if err == nil {
			t.Cleanup(func() { lock.Close() })
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("another process holds %s (UDP) for %v: %v", addr, patience, err)
		}
	}
}

// unpack writes what pack has read.
func unpack(name, root string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		file := filepath.Join(root, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
	}
}

// TestGolden opens each data set with this version, compares the content, and goes
// on from there.
func TestGolden(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil || len(lists) < 2 {
		t.Fatalf("there are %d data sets (%v)", len(lists), err)
	}
	for _, list := range lists {
		name := strings.TrimSuffix(list, ".txt")
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(list)
			if err != nil {
				t.Fatal(err)
			}
			e := setUp(t, name)
			g := &golden{ensemble: e, want: strings.Split(strings.TrimSpace(string(text)), "\n")}
			g.files()
			e.start()
			g.content()
			if t.Failed() {
				return
			}
			g.writes()
			e.stop()
			e.start()
			g.restarted()
		})
	}
}

// golden is one data set under test.
type golden struct {
	*ensemble
	want         []string
	owner, super *zk.Client
	filler       string // what /filler holds
}

// files holds the directories to what makes them worth opening: each ends where the
// listing says, behind a snapshot.
func (g *golden) files() {
	var got []string
	for _, o := range g.options {
		got = append(got, logLines(g.t, o.DataDir)...)
		snapshots, err := filepath.Glob(filepath.Join(o.DataDir, "*.snap"))
		if err != nil || len(snapshots) == 0 {
			g.t.Fatalf("no snapshot in %s (%v)", o.DataDir, err)
		}
		taken, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(snapshots[len(snapshots)-1]), ".snap"), 16, 64)
		last := 0
		fmt.Sscanf(got[len(got)-1], "log "+filepath.Base(o.DataDir)+" ends at index %d", &last)
		if err != nil || taken >= int64(last) {
			g.t.Errorf("no log behind the snapshot at index %d: it ends at %d (%v)", taken, last, err)
		}
	}
	compare(g.t, got, having(g.want, "log"))
}

// content compares all that the old version told, on each server.
func (g *golden) content() {
	t := g.t
	sessions := sessionsIn(t, g.want)
	addrs := g.addrs()
	before, err := strconv.ParseInt(strings.TrimPrefix(having(g.want, "zxid")[0], "zxid 0x"), 16, 64)
	for _, addr := range addrs {
		now, err2 := strconv.ParseInt(await(t, addr, "srvr", `^Zxid: 0x([0-9a-f]+)$`), 16, 64)
		if err != nil || err2 != nil || now>>32 <= before>>32 || uint32(now) != 0 {
			t.Errorf("the zxid is %#x, want the first of an epoch after %#x (%v, %v)", now, before, err, err2)
		}
		compare(t, digestLines(t, addr), having(g.want, "digest"))
	}
	compare(t, sessionLines(t, addrs), having(g.want, "lives"))
	for _, addr := range addrs {
		super := open(t, addr, sessions[1], superUser)
		compare(t, znodeLines(t, super, "/"), having(g.want, "znode"))
		super.Detach()
	}
	g.resume()
	for _, c := range []*zk.Client{g.owner, g.super} {
		if got := c.Session().Timeout; got != sessions[0].Timeout {
			t.Errorf("the timeout of session %#x is %v, want %v", c.Session().ID, got, sessions[0].Timeout)
		}
	}
}

// resume takes the two sessions up again, on the first and the last server.
func (g *golden) resume() {
	sessions, addrs := sessionsIn(g.t, g.want), g.addrs()
	g.owner = open(g.t, addrs[0], sessions[0], aliceUser)
	g.super = open(g.t, addrs[len(addrs)-1], sessions[1], superUser)
}

// owned returns the paths of a session's ephemeral znodes in the listing.
func (g *golden) owned(c *zk.Client) (paths []string) {
	path := regexp.MustCompile(`^znode (.*) stat .* EphemeralOwner:` + fmt.Sprint(c.Session().ID) + ` `)
	for _, line := range g.want {
		if m := path.FindStringSubmatch(line); m != nil {
			paths = append(paths, m[1])
		}
	}
	slices.Sort(paths)
	return paths
}

// writes goes on with the data, at the highest feature level.
func (g *golden) writes() {
	t := g.t
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, addr := range g.addrs() {
		await(t, addr, "mntr", fmt.Sprintf(`^(zk_feature_level\t%d)$`, tree.FeatureLevelMax))
	}
	for _, c := range []*zk.Client{g.owner, g.super} {
		got, err := c.GetEphemerals(ctx, "/")
		slices.Sort(got)
		if want := g.owned(c); err != nil || len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("session %#x has the ephemeral znodes %q, want %q (%v)", c.Session().ID, got, want, err)
		}
	}
	stranger := open(t, g.addrs()[0], zk.Session{})
	if _, _, err := stranger.Get(ctx, "/log/mine"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger reads what is alice's: %v", err)
	}
	if data, _, err := g.owner.Get(ctx, "/log/mine"); err != nil || string(data) != "alice's" {
		t.Errorf("alice reads %q: %v", data, err)
	}
	if got, err := stranger.Create(ctx, "/snapshot/queue/n-", nil, zk.ModePersistentSequential,
		zk.WorldACL(zk.PermAll)); err != nil || got != "/snapshot/queue/n-0000000004" {
		t.Errorf("the next of the queue is %q: %v", got, err)
	}
	if err := stranger.Close(); err != nil {
		t.Error(err)
	}
	g.quota(ctx)
	for zxid := int64(1); zxid%digestStep != 0; {
		g.filler = "written by this version"
		stat, err := g.owner.Set(ctx, "/filler", []byte(g.filler), -1)
		if err != nil {
			t.Fatal(err)
		}
		zxid = stat.Mzxid
	}
	var digests []string
	for i, addr := range g.addrs() {
		c := open(t, addr, zk.Session{})
		if err := c.Sync(ctx, "/"); err != nil {
			t.Error(err)
		}
		c.Detach()
		lines := digestLines(t, addr)
		digests = append(digests, lines[len(lines)-1])
		if digests[i] != digests[0] {
			t.Errorf("server %d is at %s, server 1 at %s", i+1, digests[i], digests[0])
		}
	}
}

// quota creates znodes until the hard limit that the data holds.
func (g *golden) quota(ctx context.Context) {
	const limit = 23 // countHardLimit of /log
	there := 0
	for _, line := range g.want {
		if strings.HasPrefix(line, "znode /log ") || strings.HasPrefix(line, "znode /log/") {
			there++
		}
	}
	for i := there; i <= limit; i++ {
		_, err := g.owner.Create(ctx, fmt.Sprintf("/log/more-%d", i), nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))
		if i < limit && err != nil || i == limit && !errors.Is(err, zk.ErrQuotaExceeded) {
			g.t.Errorf("create number %d below a quota of %d: %v", i+1, limit, err)
		}
	}
}

// restarted looks at what this version has written, after a restart.
func (g *golden) restarted() {
	t := g.t
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, addr := range g.addrs() {
		await(t, addr, "mntr", fmt.Sprintf(`^(zk_feature_level\t%d)$`, tree.FeatureLevelMax))
	}
	ephemerals := g.owned(g.owner)
	g.resume()
	if err := g.super.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	if data, _, err := g.super.Get(ctx, "/filler"); err != nil || string(data) != g.filler {
		t.Errorf("/filler holds %q, want %q (%v)", data, g.filler, err)
	}
	if got, err := g.owner.GetEphemerals(ctx, "/"); err != nil || len(got) != len(ephemerals) {
		t.Errorf("after a restart the ephemeral znodes are %q, want %q (%v)", got, ephemerals, err)
	}
	if err := g.owner.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.super.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	for _, path := range ephemerals {
		if _, there, err := g.super.Exists(ctx, path); err != nil || there {
			t.Errorf("%s outlives its session (%v)", path, err)
		}
	}
	lines := slices.Concat(znodeLines(t, g.super, "/snapshot/binary"), znodeLines(t, g.super, "/log/readers"),
		znodeLines(t, g.super, "/zookeeper/config"))
	for _, line := range lines {
		if !slices.Contains(g.want, line) {
			t.Errorf("nobody has changed it: %s", line)
		}
	}
}

// Where a snapshot file's header and footer have what the test changes.
const (
	bodyOffset = 60
	footerSize = 72
)

// forge sets the format of a snapshot's body, and all checksums anew. It returns the
// format that was there.
func forge(t *testing.T, file string, format uint32) (before uint32) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	le, table := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	header, footer := b[:le.Uint32(b[12:])], b[len(b)-footerSize:]
	check := func(part []byte) uint32 { return crc32.Checksum(part[:len(part)-4], table) }
	if le.Uint32(header[len(header)-4:]) != check(header) || le.Uint32(footer[footerSize-4:]) != check(footer) {
		t.Fatalf("%s isn't laid out as this test knows it", file)
	}
	before = le.Uint32(header[bodyOffset:])
	le.PutUint32(header[bodyOffset:], format)
	le.PutUint32(header[len(header)-4:], check(header))
	sum := sha256.Sum256(b[:len(b)-footerSize])
	copy(footer[32:], sum[:])
	le.PutUint32(footer[footerSize-4:], check(footer))
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return before
}

// refused opens the data of a newer version. The error has to say so, to ask for an
// upgrade and for nothing else, and the data has to stay.
func (e *ensemble) refused() {
	t := e.t
	t.Helper()
	end := logLines(t, e.options[0].DataDir)
	s, err := server.Open(e.options[0])
	if err == nil {
		select {
		case err = <-s.Failed(): // the log is applied when the server leads
		case <-time.After(patience):
		}
		s.Close()
	}
	var newer *tree.NewerError
	if !errors.As(err, &newer) || !strings.Contains(err.Error(), "upgrade this server") {
		t.Fatalf("it wasn't refused as newer: %v", err)
	}
	if advice := regexp.MustCompile(`(?i)\b(remove|wipe|delete|empty|damaged|corrupt)`).FindString(
		err.Error()); advice != "" {
		t.Errorf("the refusal says %q: %v", advice, err)
	}
	compare(t, logLines(t, e.options[0].DataDir), end)
}

// aloneSet returns the newest data set of a server alone, and its listing.
func aloneSet(t *testing.T) (e *ensemble, want []string) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join("testdata", "*-alone.txt"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("there is no data set of a server alone (%v)", err)
	}
	newest := lists[len(lists)-1]
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	return setUp(t, strings.TrimSuffix(newest, ".txt")), strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestNewerFormatIsRefused refuses snapshots in a format that this version doesn't
// know. Back in their own format, everything is still there.
func TestNewerFormatIsRefused(t *testing.T) {
	e, want := aloneSet(t)
	snapshots, err := filepath.Glob(filepath.Join(e.options[0].DataDir, "*.snap"))
	if err != nil || len(snapshots) == 0 {
		t.Fatalf("no snapshot (%v)", err)
	}
	var format uint32
	for _, file := range snapshots {
		format = forge(t, file, 99)
	}
	e.refused()
	for _, file := range snapshots {
		forge(t, file, format)
	}
	e.start()
	compare(t, znodeLines(t, open(t, e.addrs()[0], zk.Session{}, superUser), "/"), having(want, "znode"))
}

// TestNewerLevelIsRefused refuses a log, and then a snapshot, of a feature level that
// this version doesn't know. A server that knows it goes on with them.
func TestNewerLevelIsRefused(t *testing.T) {
	e, want := aloneSet(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := &e.options[0]
	for _, snapshots := range []int{1, 2} { // there: that of the data set, then one of the newer level
		o.Settings.FeatureLevel, o.SnapCount = tree.FeatureLevelMax+1, snapCount*10
		if snapshots > 1 {
			o.SnapCount = snapCount
		}
		e.start()
		await(t, e.addrs()[0], "mntr", fmt.Sprintf(`^(zk_feature_level\t%d)$`, o.Settings.FeatureLevel))
		c := open(t, e.addrs()[0], zk.Session{}, superUser)
		compare(t, znodeLines(t, c, "/log"), slices.DeleteFunc(having(want, "znode"), func(line string) bool {
			return !strings.HasPrefix(line, "znode /log ") && !strings.HasPrefix(line, "znode /log/")
		}))
		for deadline := time.Now().Add(patience); ; {
			if _, err := c.Set(ctx, "/filler", nil, -1); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(o.DataDir, "*.snap"))
			if err == nil && len(files) >= snapshots {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("there are %d snapshots, want %d (%v)", len(files), snapshots, err)
			}
		}
		c.Detach()
		e.stop()
		o.Settings.FeatureLevel = tree.FeatureLevelMax
		e.refused()
	}
}
