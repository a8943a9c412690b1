package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/zk"
)

// superDigest is that of super:test.
const superDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

// startZooid runs a server and returns its address.
func startZooid(t testing.TB) string {
	t.Helper()
	return startServer(t, func(*server.Options) {})[0]
}

// startServer runs a server with adjusted options and returns its addresses.
func startServer(t testing.TB, adjust func(*server.Options)) (addresses []string) {
	t.Helper()
	settings := tree.DefaultSettings()
	settings.ExtendedTypes, settings.EnforceQuota, settings.FeatureLevel = true, true, tree.FeatureLevelMax
	o := server.Options{
		DataDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}, Serving: server.Serving{Tick: 500 * time.Millisecond},
		Settings: settings,
		Auth:     auth.Options{SuperDigest: superDigest}, FourLetterWords: []string{"*"},
	}
	adjust(&o)
	s, err := server.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, a := range s.Addrs() {
		addresses = append(addresses, a.String())
	}
	return addresses
}

// apacheClasspath returns that of the newest Apache release at hand.
func apacheClasspath() string {
	cache, err := os.UserCacheDir()
	if folder := os.Getenv("ZOOID_COMPAT_CACHE"); folder != "" {
		cache, err = filepath.Dir(folder), nil
	}
	if err == nil {
		folder := filepath.Join(cache, "zooid-compat", "apache-3.9")
		if _, err := os.Stat(filepath.Join(folder, "stamp")); err == nil {
			return filepath.Join(folder, "*")
		}
	}
	return "/usr/share/java/zookeeper.jar"
}

// startApache runs Apache's server and returns its address; without ZOOID_COMPAT=1
// it skips the test.
func startApache(t testing.TB) string {
	t.Helper()
	return startApacheWith(t, func(string) string { return "" })
}

// startApacheWith adds lines to its configuration, which may depend on its address.
func startApacheWith(t testing.TB, more func(address string) string) string {
	t.Helper()
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs Apache ZooKeeper: set ZOOID_COMPAT=1")
	}
	port := freeport.Take(t, 1)[0]
	address := fmt.Sprintf("127.0.0.1:%d", port)
	folder := t.TempDir()
	config := fmt.Sprintf("tickTime=500\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n",
		folder, port)
	config += more(address)
	if err := os.Mkdir(filepath.Join(folder, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "data", "myid"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, log := filepath.Join(folder, "zoo.cfg"), filepath.Join(folder, "log")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.enforceQuota=true",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest,
		"-cp", apacheClasspath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	process.Stdout, process.Stderr = out, out
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
		out.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, address, zk.Options{})
	if err != nil {
		said, _ := os.ReadFile(log)
		t.Fatalf("Apache's server did not start: %v\n%s", err, said)
	}
	c.Close()
	return address
}

// open returns a client of the server at address.
func open(t testing.TB, address string) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, address, zk.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
