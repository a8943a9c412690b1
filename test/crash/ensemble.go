package crash

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/test/verdict"
)

// Options say how an ensemble is laid out.
type Options struct {
	Servers int
	// Config holds lines of zoo.cfg by key; they override the defaults.
	Config map[string]string
	// OfFirst holds lines of the first server alone; they override Config.
	OfFirst map[string]string
	// PeerProxies puts a proxy on each path from one server to another.
	PeerProxies bool
	// ClientProxies puts a proxy in front of each server's client port.
	ClientProxies bool
	// OneDirectory gives no server a log directory of its own.
	OneDirectory bool
	// Disk, if set, is where the first server's folder is: a disk made to fail.
	Disk string
	// Hosts, if set, are the servers' addresses, and Wraps the commands under
	// which they are started.
	Hosts []string
	Wraps [][]string
	// Command, if set, starts a server instead of a program of Zooid's; the path of its zoo.cfg is appended.
	Command []string
	// Program, if set, is the servers' program, used instead of the one that Build makes.
	Program string
	// Programs, if set, are the servers' programs, one of which may be of an older version.
	Programs []string
}

func (o *Options) host(i int) string {
	if o.Hosts != nil {
		return o.Hosts[i]
	}
	return "127.0.0.1"
}

// defaultConfig has short ticks, so that timeouts pass within a test. A server
// without a leader keeps its clients for syncLimit ticks: far longer than an election
// takes, on a machine that does other things as well.
var defaultConfig = map[string]string{
	"tickTime":               "500",
	"initLimit":              "20",
	"syncLimit":              "30",
	"maxSessionTimeout":      fmt.Sprint(sessionTimeout.Milliseconds()),
	"maxClientCnxns":         "0",
	"4lw.commands.whitelist": "*",
	"admin.enableServer":     "false",
	// With it, a server whose directories were emptied is admitted again.
	"quorum.secret": "the secret of an ensemble in tests",
	// The log is purged as soon as there is a snapshot, and a Collector sees the
	// log only between two lives of a server: only tests that kill often take
	// snapshots. The log is then kept from the oldest retained snapshot on.
	"snapCount":                 "100000000",
	"autopurge.snapRetainCount": "5",
}

// Patience is how long a server without a leader keeps its clients with the
// default configuration.
const Patience = 15 * time.Second

// An Ensemble is the servers of one test; a single server is standalone.
type Ensemble struct {
	Servers []*Server
	// Peers[i][j] is the proxy on the path from server i to server j.
	Peers map[[2]int]*Proxy
	// Clients holds the proxies in front of the client ports.
	Clients []*Proxy
	// Excuse is a sign of failure that a test causes on purpose.
	Excuse string
}

// startAttempts is how often the layout of an ensemble is tried, in case
// another process takes a port between its choice and its use.
const startAttempts = 3

// Start lays out an ensemble, starts it and waits until it serves. It is stopped
// when the test ends; if the test failed, the ends of the logs are shown.
func Start(t testing.TB, o Options) *Ensemble {
	t.Helper()
	program := o.Program
	if program == "" && o.Command == nil {
		program = Build(t)
	}
	for attempt := 1; ; attempt++ {
		e, err := layOut(t, program, o)
		if err == nil {
			err = e.startAll()
		}
		if err == nil {
			err = e.awaitVotes()
		}
		if err == nil {
			t.Cleanup(func() { e.end(t) })
			return e
		}
		e.close()
		if attempt == startAttempts {
			t.Fatalf("start %d servers, attempt %d: %v", o.Servers, attempt, err)
		}
	}
}

func (e *Ensemble) startAll() error {
	for _, s := range e.Servers {
		if err := s.Start(); err != nil {
			return err
		}
	}
	for _, s := range e.Servers {
		if _, err := s.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// awaitVotes waits until each server votes. One that starts so late that the others are an
// ensemble already is taken for one that has lost its data: it serves clients before it gets a
// vote, and until then the others can't do without one more.
func (e *Ensemble) awaitVotes() error {
	deadline := time.Now().Add(startPatience)
	for _, s := range e.Servers {
		for {
			mode, err := s.Mode()
			if err == nil && mode != "" && mode != "observer" {
				break
			}
			if time.Now().After(deadline) || !s.Running() {
				return fmt.Errorf("server %d got no vote within %v: it is %q (%v); its log ends:\n%s", s.ID, startPatience, mode,
					err, s.LogEnd())
			}
			time.Sleep(readyPause)
		}
	}
	return nil
}

func (e *Ensemble) close() {
	for _, s := range e.Servers {
		s.Kill()
	}
	for _, p := range e.Peers {
		p.Close()
	}
	for _, p := range e.Clients {
		p.Close()
	}
}

// end stops everything and looks for unnoticed crashes.
func (e *Ensemble) end(t testing.TB) {
	e.close()
	for _, s := range e.Servers {
		if text := s.crashed(e.Excuse); text != "" {
			verdict.Final(t, verdict.Crash)
			t.Errorf("server %d failed by itself:\n%s", s.ID, text)
		}
		if t.Failed() {
			t.Logf("the log of server %d ends:\n%s", s.ID, s.LogEnd())
		}
	}
	if t.Failed() {
		t.Logf("the servers' logs are kept in %s", e.keepLogs())
	}
}

// keepLogs stores the servers' logs where they outlive the test.
func (e *Ensemble) keepLogs() string {
	dir, err := os.MkdirTemp("", "zooid-crash-logs-")
	for _, s := range e.Servers {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.log", s.ID)), []byte(s.Log()), 0o644))
	}
	if err != nil {
		return err.Error()
	}
	return dir
}

const portsPerServer = 3 // client, peer, election

// layouts counts the ensembles laid out: a server with one directory in this
// ensemble has two in the next.
var layouts atomic.Int32

func layOut(t testing.TB, program string, o Options) (*Ensemble, error) {
	e := &Ensemble{Peers: map[[2]int]*Proxy{}}
	root, ports := t.TempDir(), freeport.Take(t, o.Servers*portsPerServer)
	round := int(layouts.Add(1))
	for i := range o.Servers {
		own := ports[i*portsPerServer:]
		folder := filepath.Join(root, fmt.Sprint(i+1))
		s := &Server{
			ID: i + 1, Addr: fmt.Sprintf("%s:%d", o.host(i), own[0]), Peer: fmt.Sprintf("%s:%d", o.host(i), own[1]),
			Folder: folder, program: program, starter: o.Command, log: folder + ".log",
		}
		s.twoDirs = (round+i)%2 == 1 && !o.OneDirectory
		if i == 0 && o.Disk != "" {
			s.Folder = o.Disk
		}
		if o.Programs != nil {
			s.program = o.Programs[i]
		}
		if o.Wraps != nil {
			s.Wrap = o.Wraps[i]
		}
		e.Servers = append(e.Servers, s)
		if o.ClientProxies {
			p, err := NewProxy(s.Addr)
			if err != nil {
				return e, err
			}
			e.Clients = append(e.Clients, p)
		}
		settings := maps.Clone(defaultConfig)
		if o.Programs != nil {
			delete(settings, "quorum.secret") // an older version doesn't know this setting
			s.twoDirs = false                 // nor does it recognize its own log in a second directory
		}
		settings["dataDir"] = s.Data()
		if s.twoDirs {
			settings["dataLogDir"] = s.LogDir()
		}
		settings["clientPortAddress"], settings["clientPort"] = o.host(i), fmt.Sprint(own[0])
		for j := range o.Servers {
			if o.Servers == 1 {
				break
			}
			at := ports[j*portsPerServer:]
			peer := at[1]
			if o.PeerProxies && i != j {
				p, err := NewProxy(fmt.Sprintf("127.0.0.1:%d", peer))
				if err != nil {
					return e, err
				}
				e.Peers[[2]int{i, j}] = p
				peer = p.Port()
			}
			settings[fmt.Sprintf("server.%d", j+1)] = fmt.Sprintf("%s:%d:%d", o.host(j), peer, at[2])
		}
		maps.Copy(settings, o.Config)
		if i == 0 {
			maps.Copy(settings, o.OfFirst)
		}
		if err := s.layOut(settings); err != nil {
			return e, fmt.Errorf("lay out the folder of server %d: %w", s.ID, err)
		}
	}
	return e, nil
}

func (s *Server) layOut(settings map[string]string) error {
	var config strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&config, "%s=%s\n", key, settings[key])
	}
	return errors.Join(
		os.MkdirAll(s.Data(), 0o755),
		os.WriteFile(filepath.Join(s.Data(), "myid"), fmt.Appendf(nil, "%d\n", s.ID), 0o644),
		os.WriteFile(filepath.Join(s.Folder, "zoo.cfg"), []byte(config.String()), 0o644))
}

// Addrs returns the addresses that clients use, those of the proxies if there are any.
func (e *Ensemble) Addrs() []string {
	var addrs []string
	for i, s := range e.Servers {
		if len(e.Clients) > 0 {
			addrs = append(addrs, e.Clients[i].Addr())
		} else {
			addrs = append(addrs, s.Addr)
		}
	}
	return addrs
}

// Leader waits until exactly one running server says that it leads, and returns its index.
func (e *Ensemble) Leader() (int, error) {
	deadline := time.Now().Add(startPatience)
	for time.Now().Before(deadline) {
		var leaders []int
		for i, s := range e.Servers {
			if !s.Running() {
				continue
			}
			if mode, err := s.Mode(); err == nil && (mode == "leader" || mode == "standalone") {
				leaders = append(leaders, i)
			}
		}
		if len(leaders) == 1 {
			return leaders[0], nil
		}
		time.Sleep(readyPause)
	}
	return 0, fmt.Errorf("find the leader: none of the servers said within %v that it leads", startPatience)
}

// LeaderOtherThan is Leader, but waits for a leader other than the server old.
func (e *Ensemble) LeaderOtherThan(old int) (int, error) {
	deadline := time.Now().Add(startPatience)
	for {
		for i, s := range e.Servers {
			if i == old || !s.Running() {
				continue
			}
			if mode, err := s.Mode(); err == nil && mode == "leader" {
				return i, nil
			}
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("no other server than %d led within %v", old+1, startPatience)
		}
		time.Sleep(readyPause)
	}
}
