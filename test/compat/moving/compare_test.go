package moving

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/compare"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// TestCompareUnderLoad compares a running ensemble of Apache's with a copy that follows it, as it is served and as its
// directory is, and with a Zooid server that gets the same writes, while clients write. What differs is exactly what
// was planted.
func TestCompareUnderLoad(t *testing.T) {
	need(t)
	program := zooid(t)
	for _, version := range tried([]string{"3.8.4", "3.9.5"}, "3.9.5") {
		t.Run(version, func(t *testing.T) { compareUnderLoad(t, program, version) })
	}
}

func compareUnderLoad(t *testing.T, program, version string) {
	e := startEnsemble(t, version)
	other := zooidAlone(t, program)
	apache, zooid := connected(t, e.connect()), connected(t, other)
	plant(t, apache, zooid)
	dir := filepath.Join(t.TempDir(), "copy")
	served := followBy(t, program, e.connect(), dir)
	if !awaited(func() bool { return strings.Contains(word(served.addr, "srvr"), "Mode: ") }) {
		t.Fatalf("%s", served.output)
	}
	end := writeAlike(t, apache, zooid)
	defer end()
	// By the command: nothing differs. What is written all the time may be changing.
	for range 3 {
		for _, side := range []string{served.addr, dir} {
			cmd := exec.Command(program, "migrate", "compare", "-auth", "digest:super:"+superPassword, e.connect(), side)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 0 && code != 3 || !strings.Contains(string(out), " 0 different") {
				t.Errorf("%s: exit code %d\n%s", side, code, out)
			}
			t.Logf("%s", lastLine(string(out)))
		}
	}
	// With planted differences.
	copied := connected(t, served.addr)
	files, err := compare.OpenFiles(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]bool{"/cold/7": true, "/cold/100": true, "/cold/299": true}
	ignored, err := compare.ParseIgnored("zxids,times,version,cversion,ephemeralOwner")
	if err != nil {
		t.Fatal(err)
	}
	for path := range planted {
		if _, err := zooid.Set(t.Context(), path, []byte("planted"), -1); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		a, b    compare.Source
		ignored map[string]bool
	}{
		"served":       {compare.OpenLive(apache), altered{compare.OpenLive(copied), planted}, nil},
		"served first": {altered{compare.OpenLive(copied), planted}, compare.OpenLive(apache), nil},
		"files":        {compare.OpenLive(apache), altered{files, planted}, nil},
		"both copies":  {compare.OpenLive(copied), altered{files, planted}, nil},
		"two":          {compare.OpenLive(apache), compare.OpenLive(zooid), ignored},
	} {
		found := map[string]bool{}
		counts, err := compare.Trees(t.Context(), c.a, c.b, compare.Options{
			Ignored: c.ignored, Patience: 2 * time.Second, Tell: func(d *compare.Difference) error {
				own := c.ignored != nil && strings.HasPrefix(d.Path, "/zookeeper")
				if d.Verdict != compare.Changing && !own {
					found[d.Path] = true
				}
				return nil
			},
		})
		if err != nil || !maps.Equal(found, planted) {
			t.Errorf("%s: found %v, planted %v, %+v, %v", name, found, planted, counts, err)
		}
		t.Logf("%s: %+v", name, counts)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// altered is a side on which some znodes have other data.
type altered struct {
	compare.Source
	paths map[string]bool
}

func (a altered) alter(z *compare.Znode) *compare.Znode {
	if z == nil || !a.paths[z.Path] {
		return z
	}
	other := *z
	other.Data = []byte("planted")
	return &other
}

func (a altered) Read(ctx context.Context, path string) (*compare.Znode, error) {
	z, err := a.Source.Read(ctx, path)
	return a.alter(z), err
}

func (a altered) All(ctx context.Context) iter.Seq2[*compare.Znode, error] {
	return func(yield func(*compare.Znode, error) bool) {
		for z, err := range a.Source.All(ctx) {
			if !yield(a.alter(z), err) {
				return
			}
		}
	}
}

// zooidAlone starts a Zooid server, and returns its address.
func zooidAlone(t *testing.T, program string) string {
	t.Helper()
	dir, addr := t.TempDir(), freeport.Address(t)
	_, port, _ := strings.Cut(addr, ":")
	config := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, "dataDir=%s\nclientPort=%s\n", dir, port), 0o600); err != nil {
		t.Fatal(err)
	}
	w := watch(t, exec.Command(program, "server", config,
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest))
	w.until("Zooid", func() bool { return answers(addr, 2*time.Second) })
	return addr
}

// connected returns a client that may read everything, and may be one of a follower's.
func connected(t *testing.T, servers string) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	c, err := zk.Open(ctx, servers, zk.Options{SessionTimeout: 30 * time.Second, ReadOnly: true})
	if err == nil {
		err = c.AddAuth(ctx, "digest", []byte("super:"+superPassword))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// plant makes the znodes that stay as they are, and those that clients write to.
func plant(t *testing.T, sides ...*zk.Client) {
	t.Helper()
	for _, c := range sides {
		for _, path := range []string{"/cold", "/hot"} {
			if _, err := c.Create(t.Context(), path, nil, zk.ModePersistent, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
			for n := range 400 {
				if _, err := c.Create(t.Context(), fmt.Sprintf("%s/%d", path, n), []byte("x"), zk.ModePersistent,
					zk.OpenACL()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// writeAlike has four clients write to all sides alike, each to znodes of its own, until end is called.
func writeAlike(t *testing.T, sides ...*zk.Client) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(*firstSeed, uint64(w)))
			for n := 0; ctx.Err() == nil; n++ {
				path, what := fmt.Sprintf("/hot/%d", rnd.IntN(100)*4+w), rnd.IntN(4)
				for _, c := range sides {
					var err error
					switch what {
					case 0: // a znode that comes and goes
						if err = c.Delete(ctx, path, -1); err == nil {
							_, err = c.Create(ctx, path, []byte("new"), zk.ModePersistent, zk.OpenACL())
						}
					case 1:
						_, err = c.SetACL(ctx, path, zk.WorldACL(zk.Perm(1+n%31)|zk.PermAdmin|zk.PermRead), -1)
					default:
						_, err = c.Set(ctx, path, fmt.Append(nil, n), -1)
					}
					if err != nil && ctx.Err() == nil {
						t.Errorf("%s: %v", path, err)
						return
					}
				}
			}
		})
	}
	end = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(end)
	return end
}
