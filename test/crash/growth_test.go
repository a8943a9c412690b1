package crash

import (
	"os"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
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

// TestGrowsByCorrectedLines: the lines by which a standalone server grows have wrong ports. Nobody comes; corrected, and
// with the server started again, the others join.
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
	first.awaitLog(t, "isn't let in: no empty server with its id answers")
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
