package status

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/server"
)

// answering serves four-letter words with texts, as a server does, and returns
// the address. A word without a text is refused.
func answering(t *testing.T, texts map[string]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return answeringOn(t, l, texts)
}

func answeringOn(t *testing.T, l net.Listener, texts map[string]string) string {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			io.ReadFull(c, word)
			text, ok := texts[string(word)]
			if !ok {
				text = string(word) + " is not executed because it is not in the whitelist.\n"
			}
			io.WriteString(c, text)
			c.Close()
		}
	}()
	return l.Addr().String()
}

// srvr is Apache's answer of a server in that mode.
func srvr(mode string, zxid int64) string {
	return fmt.Sprintf("Zookeeper version: 3.9.5-abc, built on 2026-01-01 00:00 UTC\nLatency min/avg/max: 0/0.5/3\nReceived: 5\nSent: 4\nConnections: 2\nOutstanding: 0\nZxid: 0x%x\nMode: %s\nNode count: 5\n",
		zxid, mode)
}

// drained is what a server that answers text says when it is drained.
func drained(text string) string {
	version, rest, _ := strings.Cut(text, "\n")
	return version + "\nDRAINED; taking no new clients\n" + rest
}

// TestStatusVerdict: what ensembles of three get, and why.
func TestStatusVerdict(t *testing.T) {
	t.Parallel()
	const idle = "This ZooKeeper instance is not currently serving requests\n"
	lead := srvr("leader", 7<<32|20)
	follow := srvr("follower", 7<<32|20)
	for name, c := range map[string]struct {
		srvr []string // of servers 1 to 3; "" is not there
		code int
		want []string // parts of the table
	}{
		"well": {
			[]string{lead, follow, follow}, exitWell,
			[]string{"leader", "0x700000014", "ok: server 1 (127.0.0.1:", "leads, 3 of 3 servers serve"},
		},
		"one is gone": {
			[]string{lead, follow, ""}, exitDegraded,
			[]string{"degraded: server 1 (", "2 of 3 servers serve", "STATE\n3 ", "no answer: "},
		},
		"lagging": {[]string{lead, follow, srvr("follower", 7<<32|5)}, exitDegraded, []string{"15", "lagging"}},
		"epoch":   {[]string{lead, follow, srvr("follower", 5<<32|90)}, exitDegraded, []string{"2 epoch", "lagging"}},
		"idle":    {[]string{lead, follow, idle}, exitDegraded, []string{"not serving"}},
		"read-only": {
			[]string{lead, follow, srvr("read-only", 7<<32|20)}, exitDegraded,
			[]string{"STATE\n3 ", "read-only: it has no leader"},
		},
		"old leader": {[]string{lead, follow, srvr("leader", 6<<32|90)}, exitDegraded, []string{"leads an old epoch"}},
		"two idle":   {[]string{idle, lead, idle}, exitUnknown, []string{"unknown: ", "1 of 3 servers serve; there may be more voters"}},
		"no leader": {
			[]string{follow, follow, follow}, exitUnknown,
			[]string{"no quorum: no server says that it leads", "it has no leader: it answers reads"},
		},
		"all gone": {[]string{"", "", ""}, exitUnknown, []string{"no quorum"}},
		"drained": {
			[]string{lead, drained(follow), follow}, exitDegraded,
			[]string{"degraded: ", "3 of 3 servers serve", "it is drained and accepts no new clients"},
		},
		"all drained": {
			[]string{drained(lead), drained(follow), drained(follow)}, exitUnknown,
			[]string{"no server takes clients: server 1"},
		},
		"all drained but one that is gone": {
			[]string{drained(lead), drained(follow), ""}, exitUnknown, []string{"no server takes clients: server 1"},
		},
		"not ours": {[]string{lead, follow, "220 mail ready\n"}, exitDegraded, []string{"isn't a ZooKeeper server"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []*serverRow
			for i, text := range c.srvr {
				row := &serverRow{ID: int64(i + 1), Voter: true, Address: freeport.Address(t)}
				if text != "" {
					row.Address = answering(t, map[string]string{"srvr": text})
				}
				rows = append(rows, row)
			}
			o, code := look(rows, nil, time.Millisecond)
			var b strings.Builder
			if err := o.printTable(&b, false); err != nil || code != c.code {
				t.Errorf("code %d, %v; want %d", code, err, c.code)
			}
			for _, part := range c.want {
				if !strings.Contains(b.String(), part) {
					t.Errorf("no %q in\n%s", part, b.String())
				}
			}
		})
	}
}

// TestStatusOfGuest: a server that the file names, and that follows without a vote, isn't counted as a voter.
func TestStatusOfGuest(t *testing.T) {
	t.Parallel()
	const idle = "" // doesn't serve
	for _, c := range []struct {
		synced string
		modes  []string
		code   int
		want   string
	}{
		{"2", []string{"leader", "follower", "follower", "follower"}, exitWell, "leads, 3 of 3 voters serve"},
		// an entry is on its way
		{"0", []string{"leader", "follower", "follower", "follower"}, exitWell, "leads, 3 of 3 voters serve"},
		{"0", []string{"leader", "follower", "follower", idle}, exitDegraded, "leads, 2 of 3 voters serve"},
		// the guest doesn't
		{"2", []string{"leader", "follower", "follower", idle}, exitDegraded, "leads, 3 of 3 voters serve"},
		{"0", []string{"leader", "follower", idle, idle}, exitUnknown, "leads, 1 of 3 voters serve"},
	} {
		var rows []*serverRow
		for i, mode := range c.modes {
			words := map[string]string{
				"srvr": srvr(mode, 1), "mntr": "zk_quorum_size\t3\nzk_synced_followers\t" + c.synced + "\n",
			}
			if mode == idle {
				words = map[string]string{"srvr": "This ZooKeeper instance is not currently serving requests\n"}
			}
			rows = append(rows, &serverRow{ID: int64(i + 1), Voter: true, Address: answering(t, words)})
		}
		o, code := look(rows, nil, time.Millisecond)
		if code != c.code || !strings.HasSuffix(o.Summary, c.want) ||
			!strings.Contains(strings.Join(o.Hints, "\n"), "4 voters are named here, and the leader counts 3") {
			t.Errorf("%s of %q in step: code %d, %s, %q", c.synced, c.modes, code, o.Summary, o.Hints)
		}
	}
}

// TestStatusRow: what the words tell, and what a refused one costs.
func TestStatusRow(t *testing.T) {
	t.Parallel()
	full := &serverRow{Address: answering(t, map[string]string{
		"srvr": srvr("leader", 3<<32|1),
		"mntr": "zk_version\t3.9.5\nzk_global_sessions\t5.0\nzk_local_sessions\t2\nzk_synced_followers\t2\n",
		"dirs": "datadir_size: 1048576\nlogdir_size: 524288\n",
	})}
	full.ask()
	got := strings.Join(full.cells()[2:], "|")
	if want := "leader|3|0x300000001|-|1|7|1.5 MiB|3.9.5-abc|ok"; got != want || full.synced != 2 ||
		len(full.refuses) > 0 {
		t.Errorf("%s, %d synced, hints %q; want %s", got, full.synced, full.refuses, want)
	}
	few := &serverRow{ID: 9, Address: answering(t, map[string]string{"srvr": srvr("follower", 1)})}
	few.ask()
	if hints := strings.Join(whitelistHints([]*serverRow{few, few}), "\n"); few.State != stateOK || few.Sessions != -1 ||
		few.Disk != -1 ||
		strings.Count(hints, "add mntr,dirs to 4lw.commands.whitelist in zoo.cfg of server 9 (") != 1 {
		t.Errorf("state %q, sessions %d, disk %d, hints %q", few.State, few.Sessions, few.Disk, hints)
	}
	none := &serverRow{Address: answering(t, nil)}
	none.ask()
	if none.State != "it refuses the word srvr" || len(none.refuses) != 1 {
		t.Errorf("state %q, hints %q", none.State, none.refuses)
	}
}

// TestStatusOfAddresses: of servers whose addresses alone are given, it is asked who
// they are and how many voters there are besides.
func TestStatusOfAddresses(t *testing.T) {
	t.Parallel()
	words := func(mode, id, quorum string) map[string]string {
		return map[string]string{
			"srvr": srvr(mode, 3<<32|1), "conf": "clientPort=1\nserverId=" + id + "\n", "dirs": "datadir_size: 1\n",
			"mntr": "zk_quorum_size\t" + quorum + "\n",
		}
	}
	lead, follow, observe := answering(t, words("leader", "5", "3")), answering(t, words("follower", "7", "3")),
		answering(t, words("observer", "6", "3"))
	stranger := answering(t, words("standalone", "1", "0"))
	for list, c := range map[string]struct {
		code int
		want string
	}{
		lead + "," + follow + "," + observe:  {exitWell, "ok: server 5 (" + lead + ") leads, 2 of 3 voters serve"},
		lead + "," + observe:                 {exitUnknown, "no quorum: server 5 (" + lead + ") leads, 1 of 3 voters serve"},
		lead + "," + follow + "," + stranger: {exitDegraded, "degraded: server 5 (" + lead + ") leads, 2 of 3 voters serve"},
		follow:                               {exitUnknown, "unknown: can't tell whether there is a quorum: 2 of 3 voters couldn't be asked"},
	} {
		rows, err := addressRows(list)
		if err != nil {
			t.Fatal(err)
		}
		o, code := look(rows, nil, time.Millisecond)
		var b strings.Builder
		if err := o.printTable(&b, false); err != nil || code != c.code || !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("code %d, %v; want %d and %q\n%s", code, err, c.code, c.want, b.String())
		}
	}
}

// TestStatusBesideStandalone: the membership of a server that runs without the server lines isn't the ensemble's.
func TestStatusBesideStandalone(t *testing.T) {
	t.Parallel()
	alone := answering(t, map[string]string{
		"srvr": srvr("standalone", 3<<32|1), "conf": "clientPort=1\nserverId=0\n", "dirs": "datadir_size: 1\n",
		"mntr": "zk_quorum_size\t1\nzk_zooid_lineage\t00000000000000aa\nzk_zooid_voters\t1\nzk_znode_count\t7\n",
	})
	idle := map[string]string{
		"srvr": "This ZooKeeper instance is not currently serving requests\n",
		"mntr": "This ZooKeeper instance is not currently serving requests\nzk_zooid_waits_for\tserver 1 serves clients\n",
	}
	rows := []*serverRow{
		{ID: 1, Voter: true, member: true, Address: alone},
		{ID: 2, Voter: true, member: true, Address: answering(t, idle)},
		{ID: 3, Voter: true, member: true, Address: answering(t, idle)},
	}
	o, code := look(rows, nil, time.Millisecond)
	var b strings.Builder
	if err := o.printTable(&b, false); err != nil {
		t.Fatal(err)
	}
	if code != exitUnknown || o.State != "no quorum" || o.Lineage != "" || len(o.Voters) > 0 {
		t.Errorf("code %d, %s, lineage %q, voters %v", code, o.State, o.Lineage, o.Voters)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"no quorum: no server says that it leads", "waits: server 1 serves clients",
		"a tree of its own with the lineage 00000000000000aa (7 znodes up to zxid 0x300000001)", "give it the server lines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(text, "the votes of") || strings.Contains(text, "doesn't name it") {
		t.Errorf("it tells the standalone server's membership:\n%s", b.String())
	}
}

// TestStatusOfOneHost: of three servers on one host whose client ports the file doesn't
// tell apart, one is asked. Whether there is a quorum is unknown.
func TestStatusOfOneHost(t *testing.T) {
	t.Parallel()
	at := answering(t,
		map[string]string{
			"srvr": srvr("follower", 1), "conf": "serverId=2\n", "mntr": "zk_quorum_size\t3\n", "dirs": "datadir_size: 1\n",
		})
	_, port, _ := net.SplitHostPort(at)
	for id, want := range map[string]string{
		"2": "unknown: can't tell whether there is a quorum: 2 of 3", "1": "server 2 answers at this address",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		text := "dataDir=" + dir + "\ninitLimit=10\nsyncLimit=5\nclientPort=" + port + "\nserver.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\nserver.3=127.0.0.1:5:6\n"
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600),
			os.WriteFile(filepath.Join(dir, "myid"), []byte(id), 0o600)); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		code := Main([]string{file}, &out, io.Discard)
		if code != exitUnknown || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "no quorum") ||
			strings.Count(out.String(), "its client port is not in the file") != 2 {
			t.Errorf("server %s: code %d\n%s", id, code, out.String())
		}
	}
}

// TestStatusOverTLS: a server that takes TLS alone is asked with the shell's flags.
func TestStatusOverTLS(t *testing.T) {
	t.Parallel()
	stores := filepath.Join("..", "..", "keystore", "testdata")
	port, err := keystore.NewPort(keystore.Options{
		Keys: keystore.Store{Location: filepath.Join(stores, "server.jks"), Password: "apassword"}, ClientAuth: "none",
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", port.Config())
	if err != nil {
		t.Fatal(err)
	}
	at := answeringOn(t, l,
		map[string]string{"srvr": srvr("standalone", 1), "mntr": "zk_quorum_size\t0\n", "dirs": "datadir_size: 1\n"})
	_, number, _ := net.SplitHostPort(at)
	dir := t.TempDir()
	file, password := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "password")
	if err := errors.Join(os.WriteFile(file, []byte("dataDir="+dir+"\nsecureClientPort="+number+"\n"), 0o600),
		os.WriteFile(password, []byte("apassword"), 0o600)); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-tls-ca", filepath.Join(stores, "trust.jks"), "-tls-password-file", password, "-tls-any-host"}
	var out strings.Builder
	if code := Main(append(flags, file), &out, io.Discard); code != exitWell ||
		!strings.Contains(out.String(), "ok: one server") {
		t.Errorf("code %d\n%s", code, out.String())
	}
	out.Reset()
	if code := Main([]string{file}, &out, io.Discard); code != exitUnknown ||
		!strings.Contains(out.String(), "it accepts only TLS") {
		t.Errorf("without flags: code %d\n%s", code, out.String())
	}
}

// TestServersToAsk: which addresses a configuration gives.
func TestServersToAsk(t *testing.T) {
	t.Parallel()
	const ensemble = "dataDir=DIR\ntickTime=2000\ninitLimit=10\nsyncLimit=5\n"
	for name, c := range map[string]struct{ file, want string }{
		"no myid":    {ensemble + "dataDir=DIR/none\nclientPort=2181\nserver.1=a:1:2\nserver.2=b:1:2;2182\nserver.3=c:1:2\n", "1=a:2181 2=b:2182 3=c:2181"},
		"other myid": {ensemble + "clientPort=2181\nserver.4=a:1:2\nserver.5=b:1:2\nserver.6=c:1:2\n", "4=a:2181 5=b:2181 6=c:2181"},
		"dynamic":    {ensemble + "dynamicConfigFile=DIR/zoo.cfg.dynamic.100\n", "7=a:2181 8=b:2181 9=c:2181"},
		"one line":   {"dataDir=DIR/none\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nserver.7=a:1:2;2182\n", "7=a:2182"},
		"alone":      {"dataDir=DIR\nclientPort=2182\n", "1=127.0.0.1:2182"},
		"lines":      {"dataDir=DIR\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nserver.1=a:1:2;2181\nserver.2=b:1:2;10.0.0.2:2182\nserver.3=c:1:2:observer;2183\n", "1=a:2181 2=10.0.0.2:2182 3=c:2183"},
		"clientPort": {"dataDir=DIR\ntickTime=2000\ninitLimit=10\nsyncLimit=5\nclientPort=2181\nclientPortAddress=10.0.0.1\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n", "1=10.0.0.1:2181 2=b:2181 3=c:2181"},
		"one host":   {ensemble + "clientPort=2181\nserver.1=a:1:2\nserver.2=a:3:4\nserver.3=a:5:6\n", "1=a:2181 2= 3="},
		"its lines":  {ensemble + "server.1=a:1:2;2181\nserver.2=a:3:4;2182\nserver.3=a:5:6;2183\n", "1=a:2181 2=a:2182 3=a:2183"},
		"members":    {"server.4=a:1:2;2181\nserver.5=b:1:2\nversion=100\n", "4=a:2181 5="},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file, dynamic := filepath.Join(dir, "zoo.cfg"), filepath.Join(dir, "zoo.cfg.dynamic.100")
		members := "server.7=a:1:2;2181\nserver.8=b:1:2;2181\nserver.9=c:1:2:observer;2181\n"
		if err := errors.Join(os.WriteFile(file, []byte(strings.ReplaceAll(c.file, "DIR", dir)), 0o600),
			os.WriteFile(dynamic, []byte(members), 0o600)); err != nil {
			t.Fatal(err)
		}
		rows, _, err := serversToAsk(file, nil)
		var got []string
		for _, row := range rows {
			got = append(got, fmt.Sprintf("%d=%s", row.ID, row.Address))
		}
		if text := strings.Join(got, " "); err != nil || text != c.want {
			t.Errorf("%s: %q, %v; want %q", name, text, err, c.want)
		}
	}
	for list, want := range map[string]string{
		"a:2182":             "a:2182",
		"a,b:2183, [::1]:1 ": "a:2181 b:2183 [::1]:1",
		"a:1,":               "",
		":2181":              "",
	} {
		rows, _, err := serversToAsk(list, nil)
		var got []string
		for _, row := range rows {
			got = append(got, row.Address)
		}
		if text := strings.Join(got, " "); text != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", list, text, err, want)
		}
	}
	var errs strings.Builder
	if code := Main([]string{filepath.Join(t.TempDir(), "missing")}, io.Discard, &errs); code != exitUnknown ||
		!strings.Contains(errs.String(), "missing") {
		t.Errorf("a missing file: code %d, %q", code, errs.String())
	}
}

// TestStatusOfServer asks a running server, for people and for programs.
func TestStatusOfServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := server.Open(server.Options{
		DataDir: dir, Listen: []string{"127.0.0.1:0"}, FourLetterWords: []string{"*"},
		Version: "1.2, built on 2026-01-01 00:00 UTC",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	_, port, _ := net.SplitHostPort(s.Addrs()[0].String())
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(file, []byte("dataDir="+dir+"\nclientPort="+port+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	var o overview
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		out.Reset()
		if Main([]string{"-json", file}, &out, io.Discard) == exitWell { // it may not serve yet
			break
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &o); err != nil || o.State != "ok" || len(o.Servers) != 1 {
		t.Fatalf("%v in %s", err, out.String())
	}
	// The disk of the machine that runs the test may be filling up.
	hints := slices.DeleteFunc(slices.Clone(o.Hints),
		func(h string) bool { return strings.Contains(h, "its disk fills up") })
	if row := o.Servers[0]; row.Role != "standalone" || row.Disk <= 0 || row.Sessions != 0 || len(hints) > 0 {
		t.Errorf("%+v, hints %q", row, o.Hints)
	}
	out.Reset()
	if code := Main([]string{file}, &out, io.Discard); code != exitWell || !strings.Contains(out.String(), "standalone") ||
		strings.Contains(out.String(), "\x1b") {
		t.Errorf("code %d, table\n%s", code, out.String())
	}
}

// TestStatusTellsWhyItIsIdle: of a server that doesn't serve the table says why, and never guesses: a server that has a
// leader and is behind is told from one that has none, and from one that doesn't tell.
func TestStatusTellsWhyItIsIdle(t *testing.T) {
	t.Parallel()
	const idle = "This ZooKeeper instance is not currently serving requests\n"
	for name, c := range map[string]struct{ mntr, want string }{
		"hangs": {
			"zk_fsync_in_flight_ms\t15300\nzk_last_turn_ms\t20\n",
			"not serving: its log's disk hangs: a write has been under way for 15 s",
		},
		"stands": {
			"zk_fsync_in_flight_ms\t0\nzk_last_turn_ms\t4100\n",
			"not serving: it does nothing: its main loop has been stuck for 4 s",
		},
		"full":      {"zk_disk_level\t2\nzk_log_awaits_room\t1\n", "not serving: its log has no room left"},
		"no leader": {idle + "zk_zooid_raft_has_leader\t0\nzk_last_turn_ms\t20\n", stateNoLeader},
		"behind":    {idle + "zk_zooid_raft_has_leader\t1\nzk_last_turn_ms\t20\n", stateBehind},
		"both":      {"zk_zooid_raft_has_leader\t1\nzk_last_turn_ms\t4100\n", "not serving: it does nothing"},
		"no number": {"zk_zooid_raft_has_leader\tyes\n", stateIdle},
		"untold":    {"zk_fsync_in_flight_ms\t0\nzk_last_turn_ms\t20\n", stateIdle},
		"waits":     {idle + "zk_zooid_waits_for\tserver 2 isn't running\n", waitsFor + "server 2"},
		"Apache's":  {idle, stateIdle},
		"refused":   {"mntr is not executed because it is not in the whitelist.\n", stateIdle},
		"hint":      {"mntr is not executed because it is not in the whitelist.\n", "hint: add mntr to 4lw.commands.whitelist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := []*serverRow{
				{ID: 1, Voter: true, Address: answering(t, map[string]string{"srvr": srvr("leader", 7<<32|20)})},
				{ID: 2, Voter: true, Address: answering(t, map[string]string{"srvr": idle, "mntr": c.mntr})},
				{ID: 3, Voter: true, Address: answering(t, map[string]string{"srvr": srvr("follower", 7<<32|20)})},
			}
			o, code := look(rows, nil, time.Millisecond)
			var b strings.Builder
			err := o.printTable(&b, false)
			said := b.String()
			if err != nil || code != exitDegraded || !strings.Contains(said, c.want) || strings.Contains(said, "quorum") {
				t.Errorf("code %d, %v; want %d and %q in\n%s", code, err, exitDegraded, c.want, said)
			}
		})
	}
}

// TestStatusNamesShortResources: a server without room serves, and the table says what it refuses; one whose disk fills
// up is well, and a hint tells.
func TestStatusNamesShortResources(t *testing.T) {
	t.Parallel()
	const roomy = "zk_disk_free_bytes\t99999999999\nzk_disk_level\t0\nzk_memory_used\t10\nzk_memory_limit\t1000\n"
	for name, c := range map[string]struct {
		mntr string
		code int
		want string
	}{
		"room":     {roomy, exitWell, " ok"},
		"no limit": {"zk_memory_used\t10\nzk_memory_limit\t0\n", exitWell, " ok"},
		"fills up": {"zk_disk_free_bytes\t2147483648\nzk_disk_level\t1\n", exitWell, "hint: server 2 ("},
		"full":     {"zk_disk_free_bytes\t536870912\nzk_disk_level\t2\n", exitDegraded, "its disk is nearly full, 512.0 MiB are free: it refuses writes until there is room"},
		"hangs":    {"zk_fsync_in_flight_ms\t15300\nzk_last_turn_ms\t20\n", exitDegraded, "its log's disk hangs: a write has been under way for 15 s"},
		"stands":   {"zk_fsync_in_flight_ms\t0\nzk_last_turn_ms\t4100\n", exitDegraded, "its main loop has been stuck for 4 s"},
		"memory": {
			"zk_memory_used\t870\nzk_memory_limit\t1000\n", exitDegraded, "87 % of memory.limit: it refuses new sessions",
		},
		"more memory": {
			"zk_memory_used\t960\nzk_memory_limit\t1000\n", exitDegraded, "96 % of memory.limit: it refuses creates",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []*serverRow
			for i, mode := range []string{"leader", "follower", "follower"} {
				mntr := roomy
				if i == 1 {
					mntr = c.mntr
				}
				address := answering(t,
					map[string]string{"srvr": srvr(mode, 7<<32|20), "mntr": mntr, "dirs": "datadir_size: 1\nlogdir_size: 1\n"})
				rows = append(rows, &serverRow{ID: int64(i + 1), Voter: true, Address: address})
			}
			o, code := look(rows, nil, time.Millisecond)
			var b strings.Builder
			if err := o.printTable(&b, false); err != nil || code != c.code || !strings.Contains(b.String(), c.want) {
				t.Errorf("code %d, %v; want %d and %q in\n%s", code, err, c.code, c.want, b.String())
			}
		})
	}
}
