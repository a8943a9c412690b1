package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// twin returns a server with the id of a stopped one, a copy of its directories, and ports of its own.
func (s *Server) twin(t *testing.T) *Server {
	t.Helper()
	ports := freeport.Take(t, portsPerServer)
	to := &Server{
		ID: s.ID, Addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), Peer: fmt.Sprintf("127.0.0.1:%d", ports[1]),
		Folder: filepath.Join(t.TempDir(), "twin"), program: s.program, twoDirs: s.twoDirs,
		log: filepath.Join(t.TempDir(), "twin.log"),
	}
	if err := os.MkdirAll(to.Folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.config())
	if err == nil {
		err = os.WriteFile(to.config(), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range to.dirs() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	to.copyOf(t, s)
	settings := map[string]string{
		"clientPort": fmt.Sprint(ports[0]), "dataDir": to.Data(),
		fmt.Sprintf("server.%d", s.ID): fmt.Sprintf("127.0.0.1:%d:%d", ports[1], ports[2]),
	}
	if to.twoDirs {
		settings["dataLogDir"] = to.LogDir()
	}
	to.change(t, settings)
	t.Cleanup(to.Kill)
	return to
}

// endsByItself waits until a twin has noticed that the server answers whose id it has.
func (s *Server) endsByItself(t *testing.T) {
	t.Helper()
	code, err := s.Exit(startPatience)
	if err != nil || code != 1 || !strings.Contains(s.LogEnd(), "another server runs under the same id") {
		t.Fatalf("the twin ends with %d, %v; its log ends:\n%s", code, err, s.LogEnd())
	}
}

// TestOneIDTwice runs one id on two machines at once, under load: a server and a copy of its directories, which lacks
// what the server has acknowledged since.
func TestOneIDTwice(t *testing.T) {
	const id = 2 // of the server, as an index
	begin := func(t *testing.T, o RunOptions) (r *Run, own, twin *Server) {
		r = Begin(t, o)
		own = r.Servers[id]
		r.WaitAnswered(200)
		r.Down(id)
		own.Stop()
		twin = own.twin(t)
		r.Restart(id)
		r.Up(id)
		r.WaitAnswered(200)
		return r, own, twin
	}

	// The copy has an address of its own. It enters nowhere while the server runs, and ends. While the server is down,
	// nobody sends it anything: the members go by the address in the membership. When the server is back, the copy
	// ends.
	t.Run("at an address of its own", func(t *testing.T) {
		seed, _ := hurtful(t)
		r, own, twin := begin(t, trio(seed, 1000))
		startThem(t, twin)
		twin.endsByItself(t)
		r.Down(id)
		own.Kill()
		startThem(t, twin)
		for _, s := range r.Servers[:id] {
			s.awaitLog(t, "or your server line is an old one")
		}
		twin.says(t, []string{"serves nobody", "ZD-3126"}, "doctor", "-no-disk", twin.config())
		// Asked at either, an operator is told which of the two is refused, by whom, and what to do.
		told := []string{"ZD-3131", "two servers have the same myid", own.Peer, "stop the other one"}
		twin.says(t, told, "doctor", "-no-disk", twin.config())
		twin.says(t, told, "status", twin.config())
		told = []string{"ZD-3131", "two servers have the id", own.Peer, "stop the other one"}
		r.Servers[0].says(t, told, "doctor", "-no-disk", r.Servers[0].config())
		r.Servers[0].says(t, told, "status", r.Servers[0].config())
		r.Servers[0].says(t, []string{"2 of 3 voters serve"}, "status",
			strings.Join([]string{r.Servers[0].Addr, r.Servers[1].Addr, own.Addr}, ","))
		r.WaitAnswered(500)
		if mode, err := twin.Mode(); err == nil && mode != "" {
			t.Errorf("the copy serves as %s", mode)
		}
		r.Restart(id)
		r.Up(id)
		twin.endsByItself(t)
		r.undisturbedVerdict()
	})

	// The address of the server leads now to it and now to its copy, as that of two machines does that claim it.
	t.Run("at one address", func(t *testing.T) {
		seed, rng := hurtful(t)
		o := trio(seed, 1000)
		o.PeerProxies = true
		r, own, twin := begin(t, o)
		leadTo := func(s *Server) {
			for i := range id {
				r.Peers[[2]int{i, id}].Retarget(s.Peer)
			}
		}
		r.Down(id)
		ended := 0
		for range times(0, 8, 40) {
			for _, s := range []*Server{twin, own} {
				if !s.Running() {
					ended++
					startThem(t, s)
				}
			}
			leadTo(twin)
			moment(rng, time.Second)
			leadTo(own)
			moment(rng, time.Second)
			r.WaitAnswered(20)
		}
		if !own.Running() {
			startThem(t, own)
		}
		if twin.Running() {
			twin.endsByItself(t)
		}
		if _, err := own.Ready(); err != nil {
			t.Fatal(err)
		}
		r.Up(id)
		if text := twin.crashed(""); text != "" {
			t.Errorf("the copy failed:\n%s", text)
		}
		t.Logf("%d times one of the two had ended by itself", ended)
		r.undisturbedVerdict()
	})
}
