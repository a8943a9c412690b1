package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
)

// Commits whose programs run in one ensemble with this version's. They are built from the history.
const (
	// firstCommit is the last one that knows no feature level but the first.
	firstCommit = "40c5f47d01ad57c5cec6b90ca76647af594131a4"
	// earlyCommit knows level 2, but none of what was added to it later: neither restores nor policies.
	earlyCommit = "c34027bdb921bf5dd7277c23dee0662db18f1c34"
	// hashedCommit is the last one whose ensembles have an id that follows from their server lines. It knows level 2.
	hashedCommit = "d1ccefcb53707981de8ac292b766a7799ec6bae9"
	// foundedCommit is the first one whose ensembles have an id that is drawn. It knows level 2.
	foundedCommit = "1ed30d5732249e9cbe3c05e6724c17b2158be71a"
	// landedCommit is the last one that has landed. It knows level 5.
	landedCommit = "b9e46f72e6718d24dcfbe9fb6e1da12d54b31728"
)

// The levels of the versions.
const (
	firstLevel  = "1"
	secondLevel = "2"
	fifthLevel  = "5"
)

// presentLevel is the level of this version.
var presentLevel = strconv.Itoa(tree.FeatureLevelMax)

// builds holds what buildOf has built, or why it couldn't, by commit.
var builds sync.Map

// buildOf returns the program of a commit, built once and kept in the user's cache folder. A clone
// without the commit fails the test: skipped, it would look like one that has passed. The test is
// skipped only where there is no history at all, such as in an archive of the source, and not in CI.
func buildOf(t testing.TB, commit string) string {
	t.Helper()
	type built struct {
		path string
		err  error
	}
	build, _ := builds.LoadOrStore(commit, sync.OnceValue(func() built {
		if out, err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
			return built{"", fmt.Errorf("%w: it lacks commit %s, of which an earlier version is built (%w %s): get all of it by git fetch --unshallow",
				errNoHistory, commit, err, out)}
		}
		path, err := compile(commit)
		return built{path, err}
	}))
	b := build.(func() built)()
	inClone := exec.Command("git", "rev-parse", "--git-dir").Run() == nil
	if errors.Is(b.err, errNoHistory) && !inClone && os.Getenv("CI") == "" {
		t.Skip(b.err)
	}
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

var errNoHistory = errors.New("the history isn't whole")

// compile builds the program of a commit, unless it was built before.
func compile(commit string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "zooid-versions")
	program := filepath.Join(folder, "zooid-"+commit)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	source, err := os.MkdirTemp("", "zooid-previous-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(source)
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	archive := filepath.Join(source, "source.tar")
	whole := exec.Command("git", "archive", "-o", archive, commit)
	whole.Dir = strings.TrimSpace(string(top)) // elsewhere it is only that folder
	made := fmt.Sprintf("%s.%d", program, os.Getpid())
	for _, step := range []*exec.Cmd{
		whole, exec.Command("tar", "-xf", archive, "-C", source), exec.Command("go", "build", "-o", made, "./cmd/zooid"),
	} {
		if step.Args[0] == "go" {
			step.Dir = source
			step.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if out, err := step.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the program of commit %s: %v: %w\n%s", commit, step.Args, err, out)
		}
	}
	return program, os.Rename(made, program)
}

// level returns the feature level in force at a server of this version.
func level(s *Server) string {
	text, err := s.Ask("mntr")
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "zk_feature_level\t"); ok {
			return strings.TrimSpace(n)
		}
	}
	return ""
}

// awaitLevel waits until a level is in force at servers of this version.
func awaitLevel(t testing.TB, want string, servers ...*Server) {
	t.Helper()
	deadline := time.Now().Add(startPatience)
	for _, s := range servers {
		for level(s) != want {
			if time.Now().After(deadline) {
				t.Fatalf("server %d is at feature level %q after %v, want %s; its log ends:\n%s", s.ID, level(s), startPatience,
					want, s.LogEnd())
			}
			time.Sleep(readyPause)
		}
	}
}

// upgrade replaces a server's program and starts it again.
func (r *Run) upgrade(server int, program string) {
	r.t.Helper()
	r.Down(server)
	if code := r.Servers[server].Stop(); code != 0 {
		r.t.Fatalf("server %d ended with code %d on SIGTERM", server+1, code)
	}
	r.Servers[server].program = program
	r.Restart(server)
	r.Up(server)
}

// lead restarts leaders until a given server leads. A leader that stops hands over to
// one of the others.
func (r *Run) lead(server int) {
	r.t.Helper()
	for range 50 {
		leader := r.leader()
		if leader == server {
			return
		}
		r.Down(leader)
		r.Servers[leader].Stop()
		if _, err := r.LeaderOtherThan(leader); err != nil {
			r.t.Fatal(err)
		}
		r.Restart(leader)
		r.Up(leader)
	}
	r.t.Fatalf("server %d doesn't lead after 50 restarts of leaders", server+1)
}

// TestMixedVersions runs this version and the one before in one ensemble, under load,
// with either leading, and upgrades it server by server. While an older server is a
// member the level is the older one's, then it is raised. After that an older server
// doesn't run on its data any more, and may not join.
func TestMixedVersions(t *testing.T) {
	for _, mix := range []struct {
		name   string
		leader int  // 0 is of the previous version, 1 of this one
		often  bool // snapshots
	}{
		{"old leads", 0, false}, {"new leads", 1, false}, {"with snapshots", 1, true},
	} {
		t.Run(mix.name, func(t *testing.T) {
			if mix.leader == 1 && !mix.often && !*long {
				t.Skip("the same is done with snapshots")
			}
			seed, _ := hurtful(t)
			old, present := buildOf(t, firstCommit), Build(t)
			load := trio(seed, 2000)
			load.Programs = []string{old, old, old}
			if mix.often {
				load.Config = map[string]string{"snapCount": "100", "autopurge.snapRetainCount": "3"}
			}
			r := Begin(t, load)
			r.Excuse = diedOfLevel
			r.WaitAnswered(500)
			r.upgrade(1, present)
			r.lead(mix.leader)
			r.WaitAnswered(1000)
			// A server that joins with an empty disk gets a snapshot of the other version's.
			joiner := 2
			r.Down(joiner)
			r.Servers[joiner].Stop()
			empty(t, r.Servers[joiner])
			r.Restart(joiner)
			r.Up(joiner)
			// Below the level of this version there is a way back, by its snapshots too.
			if mix.often {
				r.Servers[1].awaitLog(t, "snapshot written")
			}
			r.upgrade(1, old)
			r.WaitAnswered(200)
			r.upgrade(1, present)
			r.WaitAnswered(500)
			r.upgrade(2, present)
			r.WaitAnswered(500)
			awaitLevel(t, firstLevel, r.Servers[1:]...)
			r.upgrade(0, present)
			awaitLevel(t, presentLevel, r.Servers...)
			r.WaitAnswered(500)
			r.downgrade(old, present)
			r.WaitAnswered(500)
			r.undisturbedVerdict()
		})
	}
}

// diedOfLevel is what a server of the first version says of a level above its own.
const diedOfLevel = "settings ask for feature level"

// downgrade tries to run a server of a raised ensemble with the previous version, on
// its data and on an empty disk.
func (r *Run) downgrade(old, present string) {
	t, leader := r.t, r.leader()
	at := (leader + 1 + rand.IntN(2)) % 3
	s := r.Servers[at]
	r.Down(at)
	s.Stop()
	s.program = old
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	code, err := s.Exit(endPatience)
	if err != nil || code == 0 || !strings.Contains(s.LogEnd(), "upgrade this server") {
		t.Errorf("the previous version ended with code %d (%v) on the data of this one; its log ends:\n%s", code, err,
			s.LogEnd())
	}
	kept := s.Data() + ".kept"
	if err := os.Rename(s.Data(), kept); err != nil {
		t.Fatal(err)
	}
	if err := s.layOutEmpty(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitLog(t, "upgrade the older one") // the others prove who they are, in a newer way
	// Once the ensemble has agreed on a secret, which may come after the level, an older version is told nothing: the
	// others say it.
	r.Servers[(at+1)%3].awaitLog(t, fmt.Sprintf("upgrade server %d", s.ID), "and you prove nothing: upgrade your server")
	s.Kill()
	if err := os.RemoveAll(s.Data()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, s.Data()); err != nil {
		t.Fatal(err)
	}
	s.program = present
	r.Restart(at)
	r.Up(at)
}

// awaitLog waits until the server has said one of some texts.
func (s *Server) awaitLog(t testing.TB, texts ...string) {
	t.Helper()
	said := func(text string) bool { return strings.Contains(s.Log(), text) }
	for deadline := time.Now().Add(startPatience); !slices.ContainsFunc(texts, said); time.Sleep(readyPause) {
		if time.Now().After(deadline) {
			t.Fatalf("server %d said none of %q; its log ends:\n%s", s.ID, texts, s.LogEnd())
		}
	}
}

// layOutEmpty makes a data directory that holds nothing but the server's id.
func (s *Server) layOutEmpty() error {
	if err := os.MkdirAll(s.Data(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Data(), "myid"), fmt.Appendf(nil, "%d\n", s.ID), 0o644)
}
