package crash

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

// apacheRelease is the release of Apache ZooKeeper that is measured beside Zooid.
const apacheRelease = "3.9.5"

// apacheCommand returns the command that starts a server of Apache's, fetched by test/compat/install.sh.
func apacheCommand(t *testing.T) []string {
	t.Helper()
	cache := os.Getenv("ZOOID_COMPAT_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "zooid-compat")
	}
	jars := filepath.Join(cache, "apache-"+apacheRelease)
	if _, err := os.Stat(jars); err != nil {
		t.Fatalf("Apache ZooKeeper %s isn't installed (%v); run test/compat/install.sh", apacheRelease, err)
	}
	return []string{
		"java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain",
	}
}

// beginApache starts three servers of Apache's with the settings that Zooid's get, and a pulse on each.
func beginApache(t *testing.T) *Run {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "history"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	r := &Run{
		Ensemble: Start(t, Options{Servers: 3, Command: apacheCommand(t), OneDirectory: true}), t: t, file: file,
		journal: history.NewJournal(file), began: time.Now(), outages: make([][]outage, 3),
	}
	c := traffic.NewClient(r.journal, traffic.ClientOptions{Timeout: sessionTimeout}, r.Addrs()...)
	if err := connect(c); err != nil {
		t.Fatal(err)
	}
	q := jute.CreateRequest{Path: root, ACL: jute.WorldACL(jute.PermAll)}
	if call, err := c.Do(jute.OpCreate, q.Append(nil)); err != nil || call.Err != jute.OK {
		t.Fatalf("create %s: %v", root, err)
	}
	c.Close()
	for i, addr := range r.Addrs() {
		p, err := StartPulse(r.journal, addr, root, i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		r.Pulses = append(r.Pulses, p)
	}
	return r
}

// endApache ends the clients and servers.
func (r *Run) endApache(t *testing.T) {
	t.Helper()
	for _, p := range r.Pulses {
		p.Stop()
	}
	for _, s := range r.Servers {
		s.Stop()
	}
}
