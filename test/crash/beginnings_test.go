package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	growthsFlag = flag.Int("growths", 0, "how often TestGrowsByLines grows a server; 0 for the usual number")
)

// Who belongs to which history is known, never inferred (docs/decisions/085-founding.md). Each test here is a way in
// which servers once came to serve two trees.

// layOutOnly lays servers out that know each other by their lines, and starts none.
func layOutOnly(t *testing.T, o Options) *Ensemble {
	t.Helper()
	e, err := layOut(t, Build(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.end(t) })
	return e
}

// secrets are the settings with which ensembles have a secret, or agree on one.
var secrets = map[string]map[string]string{"secret": nil, "agreed": {"quorum.secret": ""}}

// withoutEmpty drops lines without a value, which override defaults.
func (s *Server) withoutEmpty(t *testing.T) {
	t.Helper()
	s.edit(t, func(line string) bool { return !strings.HasSuffix(strings.TrimSpace(line), "=") })
}

// edit keeps the lines of zoo.cfg that keep tells to, and returns the former text.
func (s *Server) edit(t *testing.T, keep func(line string) bool) (before []byte) {
	t.Helper()
	file := filepath.Join(s.Folder, "zoo.cfg")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(before)) {
		if keep(line) {
			b.WriteString(line)
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return before
}

// alone runs a server without its server lines, and creates znodes.
func (s *Server) alone(t *testing.T, paths ...string) {
	t.Helper()
	lines := s.standalone(t, paths...)
	if code := s.Stop(); code != 0 {
		t.Fatalf("server %d ends with %d", s.ID, code)
	}
	if err := os.WriteFile(filepath.Join(s.Folder, "zoo.cfg"), lines, 0o600); err != nil {
		t.Fatal(err)
	}
}

// standalone starts a server without its server lines, which it returns, and creates znodes.
func (s *Server) standalone(t *testing.T, paths ...string) (lines []byte) {
	t.Helper()
	lines = s.edit(t, func(line string) bool { return !strings.HasPrefix(line, "server.") })
	restart(t, s)
	for _, path := range paths {
		write(t, s.Addr, path)
	}
	return lines
}

// addToLine adds text to the server line of another server in s's zoo.cfg.
func (s *Server) addToLine(t *testing.T, other *Server, text string) {
	t.Helper()
	before, err := os.ReadFile(s.config())
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("server.%d=", other.ID)
	head, rest, ok := strings.Cut("\n"+string(before), "\n"+key)
	line, rest, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("no line %s in %s", key, s.config())
	}
	after := strings.TrimPrefix(head+"\n"+key+line+text+"\n"+rest, "\n")
	if err := os.WriteFile(s.config(), []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyOf makes a server's directories a copy of another's.
func (s *Server) copyOf(t *testing.T, from *Server) {
	t.Helper()
	empty(t, s)
	for i, dir := range from.dirs() {
		to := s.dirs()[min(i, len(s.dirs())-1)]
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-r", dir+"/.", to).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v\n%s", dir, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(s.Data(), "myid"), fmt.Appendln(nil, s.ID), 0o644); err != nil {
		t.Fatal(err)
	}
}

// oneTree checks that servers serve one tree with these znodes: each is written to, and has what all others have.
func oneTree(t *testing.T, paths []string, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/by-%d", s.ID)
		write(t, s.Addr, path)
		paths = append(paths, path)
	}
	lineages := map[string][]int{}
	for _, s := range servers {
		s.holds(t, paths)
		b, err := os.ReadFile(filepath.Join(s.LogDir(), "IDENTITY"))
		if err != nil {
			t.Fatal(err)
		}
		lineages[string(b)] = append(lineages[string(b)], s.ID)
	}
	if len(lineages) != 1 {
		t.Fatalf("there are several lineages: %v", lineages)
	}
}

// noneServes checks that servers wait because of what text says, and none serves.
func noneServes(t *testing.T, text string, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		s.awaitLog(t, text)
	}
	// It is longer than servers wait for one where nobody listens.
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		for _, s := range servers {
			if mode, err := s.Mode(); err == nil && mode != "" {
				t.Fatalf("server %d serves as %s; its log ends:\n%s", s.ID, mode, s.LogEnd())
			}
		}
	}
}

func startThem(t *testing.T, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

// zooid runs a command of the server's program.
func (s *Server) zooid(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(s.program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("zooid %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *Server) config() string { return filepath.Join(s.Folder, "zoo.cfg") }

// TestCopiedDirectory copies a standalone server's data directory to the servers of an ensemble, as the guides of other
// systems teach.
func TestCopiedDirectory(t *testing.T) {
	hurtful(t)
	t.Parallel()
	for name, config := range secrets {
		t.Run("identical,"+name, func(t *testing.T) {
			t.Parallel()
			e := layOutOnly(t, Options{Servers: 3, OneDirectory: true, Config: config})
			first := e.Servers[0]
			for _, s := range e.Servers {
				s.withoutEmpty(t)
			}
			first.alone(t, "/old")
			e.Servers[1].copyOf(t, first)
			e.Servers[2].copyOf(t, first)
			startThem(t, e.Servers...)
			oneTree(t, []string{"/old"}, e.Servers...)
		})
	}
	t.Run("one late", func(t *testing.T) {
		t.Parallel()
		e := layOutOnly(t, Options{Servers: 3, OneDirectory: true})
		first, last := e.Servers[0], e.Servers[2]
		first.alone(t, "/old")
		e.Servers[1].copyOf(t, first)
		last.copyOf(t, first)
		startThem(t, e.Servers[:2]...)
		write(t, first.Addr, "/meanwhile")
		startThem(t, last)
		oneTree(t, []string{"/old", "/meanwhile"}, e.Servers...)
		last.awaitLog(t, "ZD-3409")
	})
	t.Run("observer", func(t *testing.T) {
		t.Parallel()
		e := layOutOnly(t, Options{Servers: 4, OneDirectory: true})
		first, observer := e.Servers[0], e.Servers[3]
		for _, s := range e.Servers {
			s.addToLine(t, observer, ":observer")
		}
		first.alone(t, "/old")
		for _, s := range e.Servers[1:] {
			s.copyOf(t, first)
		}
		startThem(t, e.Servers...)
		oneTree(t, []string{"/old"}, e.Servers...)
		observer.awaitLog(t, "ZD-3409")
	})
	t.Run("two and an empty one", func(t *testing.T) {
		t.Parallel()
		e := layOutOnly(t, Options{Servers: 3, OneDirectory: true})
		e.Servers[1].alone(t, "/old")
		e.Servers[2].copyOf(t, e.Servers[1])
		startThem(t, e.Servers...)
		oneTree(t, []string{"/old"}, e.Servers...)
	})
	t.Run("different", func(t *testing.T) {
		t.Parallel()
		e := layOutOnly(t, Options{Servers: 3, OneDirectory: true})
		first, last := e.Servers[0], e.Servers[2]
		first.alone(t, "/old")
		last.copyOf(t, first)
		last.alone(t, "/later")
		e.Servers[1].copyOf(t, first)
		startThem(t, e.Servers...)
		noneServes(t, "the servers hold different data", e.Servers...)
		first.awaitLog(t, "server 3 has the latest zxid")
		last.zooid(t, "found", "-why", "it has the newest data", last.config())
		if _, err := last.Ready(); err != nil {
			t.Fatal(err)
		}
		noneServes(t, "no ensemble takes over", first)
		for _, s := range e.Servers[:2] {
			s.Stop()
			empty(t, s)
		}
		startThem(t, e.Servers[:2]...)
		oneTree(t, []string{"/old", "/later"}, e.Servers...)
		b, err := os.ReadFile(filepath.Join(last.Data(), "RECOVERED"))
		if err != nil || !strings.Contains(string(b), "it has the newest data") {
			t.Errorf("the record has %s, %v", b, err)
		}
	})
}

// TestGrowsByLines gives a standalone server two more by server lines, which start with gaps of up to three seconds.
func TestGrowsByLines(t *testing.T) {
	_, rng := hurtful(t)
	t.Parallel()
	for i := range times(*growthsFlag, 4, 200) {
		config := []map[string]string{nil, {"quorum.secret": ""}}[i%2]
		gaps := []time.Duration{gap(rng), gap(rng)}
		if i < 2 {
			gaps = []time.Duration{0, 120 * time.Millisecond}
		}
		t.Run(fmt.Sprintf("%d,gaps=%v", i, gaps), func(t *testing.T) {
			t.Parallel()
			e := layOutOnly(t, Options{Servers: 3, Config: config})
			for _, s := range e.Servers {
				s.withoutEmpty(t)
			}
			e.Servers[0].alone(t, "/old")
			startThem(t, e.Servers[0])
			time.Sleep(gaps[0])
			startThem(t, e.Servers[1])
			time.Sleep(gaps[1])
			startThem(t, e.Servers[2])
			oneTree(t, []string{"/old"}, e.Servers...)
		})
	}
}

// TestCopiedMember starts a server of an ensemble on a copy of another one's directory, which lacks what was
// acknowledged while that one was down. It refuses; with an empty directory it joins, and nothing is lost.
func TestCopiedMember(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 3, OneDirectory: true})
	startThem(t, e.Servers...)
	oneTree(t, nil, e.Servers...)
	behind, copied := e.Servers[0], e.Servers[1]
	behind.Stop()
	write(t, copied.Addr, "/acknowledged")
	for _, s := range e.Servers[1:] {
		s.Stop()
	}
	copied.copyOf(t, behind)
	startThem(t, copied, behind)
	if code, err := copied.Exit(startPatience); err != nil || code != 1 || !strings.Contains(copied.Log(), "ZD-3228") {
		t.Fatalf("on a copy of server %d's directory it ends with %d, %v:\n%s", behind.ID, code, err, copied.LogEnd())
	}
	empty(t, copied)
	startThem(t, copied, e.Servers[2])
	oneTree(t, []string{"/acknowledged"}, e.Servers...)
}

// TestFounderAlone: a server founds by an operator's order with another one, which dies before it has begun, so that
// nobody is elected. What ZD-3229 says ends that, whatever became of the other one.
func TestFounderAlone(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 3})
	founder, other := e.Servers[0], e.Servers[1]
	startThem(t, founder, other)
	for _, s := range e.Servers[:2] {
		s.awaitLog(t, "server 3 isn't running")
	}
	founder.zooid(t, "found", "-why", "the third machine comes later", founder.config())
	founder.awaitLog(t, "is one of its founders")
	other.Kill()
	founder.Stop()
	for _, s := range e.Servers[:2] {
		if _, err := os.Stat(filepath.Join(s.LogDir(), "IDENTITY")); err == nil {
			s.zooid(t, "recover", "-set-aside", "-cluster", s.cluster(t), "-why", "nobody leads", s.config())
		}
	}
	founder.zooid(t, "found", "-why", "nobody leads", founder.config())
	startThem(t, founder, other)
	oneTree(t, nil, founder, other)
}

func gap(rng *rand.Rand) time.Duration { return time.Duration(rng.IntN(3000)) * time.Millisecond }

// TestReplacedMajority: two of three disks are replaced while the third server runs. No empty tree is served; what the
// survivor has becomes a new ensemble's by an operator's word.
func TestReplacedMajority(t *testing.T) {
	hurtful(t)
	t.Parallel()
	for name, config := range secrets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := layOutOnly(t, Options{Servers: 3, Config: config})
			for _, s := range e.Servers {
				s.withoutEmpty(t)
			}
			startThem(t, e.Servers...)
			oneTree(t, nil, e.Servers...)
			if name == "agreed" {
				e.Servers[0].awaitLog(t, "knows the ensemble's secret")
			}
			survivor, others := e.Servers[0], e.Servers[1:]
			for _, s := range others {
				s.Kill()
				empty(t, s)
			}
			startThem(t, others...)
			noneServes(t, "waits to found or to join one", others...)
			for _, s := range e.Servers {
				s.Stop()
			}
			survivor.renew(t)
			startThem(t, e.Servers...)
			if name == "agreed" {
				for _, s := range others {
					survivor.zooid(t, "allow-join", fmt.Sprint(s.ID), survivor.config())
				}
			}
			oneTree(t, []string{"/by-1", "/by-2", "/by-3"}, e.Servers...)
		})
	}
}

// cluster returns the id of the cluster that a server's data belongs to.
func (s *Server) cluster(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.LogDir(), "IDENTITY"))
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(strings.TrimSpace(string(b)), "cluster ")
	return id
}

// renew makes a new ensemble of what a stopped server has.
func (s *Server) renew(t *testing.T) {
	t.Helper()
	s.zooid(t, "recover", "-new-ensemble", "-cluster", s.cluster(t), "-why", "the others have nothing", s.config())
}

// TestSameLinesTwice: two ensembles with the same server lines, one after the other, are told apart.
func TestSameLinesTwice(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 3})
	startThem(t, e.Servers...)
	oneTree(t, []string{}, e.Servers...)
	for _, s := range e.Servers {
		s.Stop()
	}
	// The third keeps its disk, the others begin anew while it is down.
	for _, s := range e.Servers[:2] {
		empty(t, s)
	}
	startThem(t, e.Servers[:2]...)
	for _, s := range e.Servers[:2] {
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, e.Servers[0].Addr, "/anew")
	startThem(t, e.Servers[2])
	noneServes(t, "belongs to cluster", e.Servers[2])
	for _, s := range e.Servers[:2] {
		s.holds(t, []string{"/anew"})
	}
	if e.Servers[0].cluster(t) == e.Servers[2].cluster(t) {
		t.Error("both ensembles have one lineage")
	}
}

// TestOwnLine: a server's own line says where it listens, by an address that means nothing on other machines.
func TestOwnLine(t *testing.T) {
	hurtful(t)
	t.Parallel()
	for _, own := range []string{"0.0.0.0", "[::]", "localhost"} {
		t.Run(own, func(t *testing.T) {
			t.Parallel()
			e := layOutOnly(t, Options{Servers: 3})
			for _, s := range e.Servers {
				key := fmt.Sprintf("server.%d=", s.ID)
				var line string
				s.edit(t, func(l string) bool {
					if strings.HasPrefix(l, key) {
						line = strings.TrimSpace(l)
					}
					return !strings.HasPrefix(l, key)
				})
				k, v, _ := strings.Cut(strings.Replace(line, "127.0.0.1", own, 1), "=")
				s.change(t, map[string]string{k: v})
			}
			startThem(t, e.Servers...)
			oneTree(t, nil, e.Servers...)
			for _, s := range e.Servers { // each can be done without
				s.Kill()
				write(t, e.Servers[s.ID%3].Addr, fmt.Sprintf("/without-%d", s.ID))
				restart(t, s)
			}
			config := e.Servers[0].zooid(t, "cli", "-server", e.Servers[0].Addr, "get", "/zookeeper/config")
			if strings.Contains(config, own+":") {
				t.Errorf("the membership names an address that means nothing on other machines:\n%s", config)
			}
		})
	}
}

// twoSetAside stops three servers, and has the data of two of them set aside.
func twoSetAside(t *testing.T) *Ensemble {
	t.Helper()
	e := layOutOnly(t, Options{Servers: 3})
	startThem(t, e.Servers...)
	oneTree(t, nil, e.Servers...)
	for _, s := range e.Servers {
		s.Stop()
	}
	for _, s := range e.Servers[1:] {
		s.zooid(t, "recover", "-set-aside", "-cluster", s.cluster(t), "-why", "a mistake", s.config())
	}
	return e
}

// TestJoinsOnly: servers whose data was set aside, and empty ones that nothing permits to begin, found no ensemble.
func TestJoinsOnly(t *testing.T) {
	hurtful(t)
	t.Parallel()
	t.Run("set aside", func(t *testing.T) {
		t.Parallel()
		e := twoSetAside(t)
		startThem(t, e.Servers[1:]...)
		noneServes(t, "its data was set aside", e.Servers[1:]...)
		for _, s := range e.Servers[1:] {
			s.Stop()
		}
		survivor := e.Servers[0]
		survivor.renew(t)
		startThem(t, e.Servers...)
		oneTree(t, []string{"/by-1", "/by-2", "/by-3"}, e.Servers...)
	})
	t.Run("db.autocreate=false", func(t *testing.T) {
		t.Parallel()
		e := layOutOnly(t, Options{Servers: 3, Config: map[string]string{"db.autocreate": "false"}})
		startThem(t, e.Servers...)
		noneServes(t, "db.autocreate=false", e.Servers...)
		for _, s := range e.Servers {
			s.Stop()
		}
		for _, s := range e.Servers[:2] {
			if err := os.WriteFile(filepath.Join(s.Data(), "initialize"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		startThem(t, e.Servers...)
		oneTree(t, nil, e.Servers...)
		for _, s := range e.Servers[:2] {
			if _, err := os.Stat(filepath.Join(s.Data(), "initialize")); err == nil {
				t.Errorf("server %d still has the file initialize", s.ID)
			}
		}
	})
	t.Run("three seconds early", func(t *testing.T) {
		t.Parallel()
		e := layOutOnly(t, Options{Servers: 3})
		e.Servers[0].alone(t, "/old")
		startThem(t, e.Servers[1:]...)
		time.Sleep(3 * time.Second)
		startThem(t, e.Servers[0])
		oneTree(t, []string{"/old"}, e.Servers...)
	})
}
