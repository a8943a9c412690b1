package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// misdirect gives server s wrong ports in its lines of others, and returns the lines as they were.
func (s *Server) misdirect(t *testing.T, others ...*Server) (before []byte) {
	t.Helper()
	before, err := os.ReadFile(s.config())
	if err != nil {
		t.Fatal(err)
	}
	text := string(before)
	for _, other := range others {
		wrong := freeport.Address(t)
		text = strings.ReplaceAll(text, other.Peer+":", wrong+":")
	}
	if text == string(before) {
		t.Fatalf("the lines of server %d don't name the others:\n%s", s.ID, text)
	}
	if err := os.WriteFile(s.config(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return before
}

// TestGrowsByCorrectedLines: the lines by which a standalone server grows have wrong ports. Nobody comes; corrected,
// and with the server started again, the others join.
func TestGrowsByCorrectedLines(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 3, Config: membersConfig})
	first := e.Servers[0]
	first.alone(t, "/old")
	lines := first.misdirect(t, e.Servers[1:]...)
	startThem(t, first)
	first.zooid(t, "found", "-why", "the others have nothing", first.config())
	if _, err := first.Ready(); err != nil {
		t.Fatal(err)
	}
	startThem(t, e.Servers[1:]...)
	first.awaitLog(t, "isn't admitted: no empty server with its id answers")
	first.Stop()
	if err := os.WriteFile(first.config(), lines, 0o600); err != nil {
		t.Fatal(err)
	}
	startThem(t, first)
	oneTree(t, []string{"/old"}, e.Servers...)
	if err := e.awaitVotes(); err != nil {
		t.Fatal(err)
	}
	c := open(t, first)
	defer c.Close()
	members := strings.Join(serverLines(t, c), "\n")
	for _, s := range e.Servers {
		if !strings.Contains(members, s.Peer) {
			t.Errorf("the membership doesn't have server %d at %s:\n%s", s.ID, s.Peer, members)
		}
	}
}

// TestGrowsInTheWrongOrder: the new servers are started while the old one still serves alone, and then it is stopped
// for longer than an absent server is waited for. They found nothing without it, and join it when it has its lines.
func TestGrowsInTheWrongOrder(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 3, Config: membersConfig})
	first := e.Servers[0]
	lines := first.standalone(t, "/old")
	for _, s := range e.Servers[1:] {
		s.addToLine(t, first, ";"+first.Addr)
	}
	startThem(t, e.Servers[1:]...)
	for _, s := range e.Servers[1:] {
		s.awaitLog(t, "server 1 serves clients at "+first.Addr)
	}
	waits := e.Servers[1]
	waits.says(t, []string{
		"no quorum: no server says that it leads", "it runs standalone, outside this ensemble, and serves a tree of its own",
	}, "status", waits.config())
	waits.says(t, []string{
		"this server belongs to no ensemble yet, and waits: server 1 serves clients at " + first.Addr,
		"server 1 serves clients at " + first.Addr + " alone, without the server lines",
	}, "doctor", "-no-disk", waits.config())
	write(t, first.Addr, "/late")
	first.Stop()
	for _, s := range e.Servers[1:] {
		s.awaitLog(t, "server 1 held data, or knew of some, when it last answered")
	}
	time.Sleep(absentFor + absentFor/4)
	if err := os.WriteFile(first.config(), lines, 0o600); err != nil {
		t.Fatal(err)
	}
	startThem(t, first)
	oneTree(t, []string{"/old", "/late"}, e.Servers...)
}

// absentFor is how long nobody must have listened at a server's address before others found an ensemble without it.
const absentFor = 10 * time.Second

// says runs a command of the server's program, whatever its exit code, until it prints all texts.
func (s *Server) says(t *testing.T, texts []string, args ...string) {
	t.Helper()
	var out []byte
	for end := time.Now().Add(startPatience); time.Now().Before(end); time.Sleep(readyPause) {
		out, _ = exec.Command(s.program, args...).CombinedOutput()
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(string(out), text) }) {
			return
		}
	}
	t.Fatalf("zooid %q never says %q:\n%s", args, texts, out)
}

// TestOperatorSeesTheMembership: status and doctor count the votes that count, and not the server lines: while servers
// follow that no reconfig has added yet, and when a survivor is alone after recover.
func TestOperatorSeesTheMembership(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 5, Config: membersConfig, OneDirectory: true})
	five, first := e.Servers[4], e.Servers[0]
	all, _ := e.threeOfThem(t)
	startThem(t, e.Servers[3:]...)
	for _, s := range e.Servers[3:] {
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	first.says(t, []string{
		"3 of 3 voters serve", "the votes of 1, 2, 3 count",
		"it has no vote: the membership in force doesn't name it; reconfig -add gives it one",
	}, "status", all)
	five.says(t, []string{"the server lines name voters 1, 2, 3, 4, 5, but the membership in force, which counts, names 1, 2, 3"},
		"doctor", "-no-disk", five.config())
	for _, s := range e.Servers {
		s.Stop()
	}
	before := first.cluster(t)
	first.renew(t)
	startThem(t, first)
	if _, err := first.Ready(); err != nil {
		t.Fatal(err)
	}
	first.says(t, []string{
		"1 of 1 voters serve", "lineage " + first.cluster(t), "it has no vote: the others continue without it",
	}, "status", all)
	first.says(t, []string{"server 2 is named as a voter, but its vote doesn't count: the votes of 1 do"},
		"doctor", "-no-disk", first.config())
	if before == first.cluster(t) {
		t.Error("the new ensemble has the lineage of the old one")
	}
}

// threeOfThem starts the first three servers, whose files name no others. It returns a file with the lines of all, and
// these lines.
func (e *Ensemble) threeOfThem(t *testing.T) (file string, lines []string) {
	t.Helper()
	last := e.Servers[len(e.Servers)-1]
	text, err := os.ReadFile(last.config())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range e.Servers[:3] {
		s.edit(t, func(line string) bool { return !strings.HasPrefix(line, "server.") || line < "server.4" })
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "server.") {
			at := slices.IndexFunc(e.Servers,
				func(s *Server) bool { return strings.HasPrefix(line, fmt.Sprintf("server.%d=", s.ID)) })
			line, _, _ = strings.Cut(strings.TrimSpace(line), ";")
			lines = append(lines, line+";"+e.Servers[at].Addr)
		}
	}
	file = filepath.Join(last.Folder, "all")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startThem(t, e.Servers[:3]...)
	for _, s := range e.Servers[:3] {
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	return file, lines
}

// TestAddBeforeStart adds server 4 to three before it is started, as Apache allows: it has a vote, status says that it
// was never heard, and once it is started it is let in. With reconfig.runningOnly it is refused.
func TestAddBeforeStart(t *testing.T) {
	hurtful(t)
	for name, runningOnly := range map[string]string{"as Apache": "false", "running only": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := map[string]string{"reconfig.runningOnly": runningOnly}
			maps.Copy(settings, membersConfig)
			e := layOutOnly(t, Options{Servers: 4, Config: settings, OneDirectory: true})
			all, lines := e.threeOfThem(t)
			first, four := e.Servers[0], e.Servers[3]
			c := open(t, e.Servers[:3]...)
			defer c.Close()
			awaitLevel(t, presentLevel, e.Servers[:3]...)
			ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
			defer cancel()
			_, _, err := c.Reconfig(ctx, zk.Reconfig{Joining: lines[3:]})
			if runningOnly == "true" {
				if !errors.Is(err, zk.ErrNewConfigNoQuorum) {
					t.Fatalf("a server that doesn't run is added: %v, want %v", err, zk.ErrNewConfigNoQuorum)
				}
				startThem(t, four)
				if _, err := four.Ready(); err != nil {
					t.Fatal(err)
				}
				change(t, c, zk.Reconfig{Joining: lines[3:]})
				first.says(t, []string{"4 of 4 voters serve", "the votes of 1, 2, 3, 4 count"}, "status", all)
				return
			}
			if err != nil {
				t.Fatalf("a server that doesn't run is added to three that do: %v", err)
			}
			first.says(t, []string{"3 of 4 voters serve", "it has a vote"},
				"status", all)
			if _, err := c.Create(t.Context(), "/after", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
			startThem(t, four)
			if _, err := four.Ready(); err != nil {
				t.Fatal(err)
			}
			first.says(t, []string{"4 of 4 voters serve", "the votes of 1, 2, 3, 4 count"}, "status", all)
			e.Servers[2].Kill() // from here on the fourth is needed
			other := open(t, four)
			defer other.Close()
			if err := goesOn(t, other); err != nil {
				t.Fatalf("the server that was added before it ran isn't one of a majority: %v", err)
			}
		})
	}
}
