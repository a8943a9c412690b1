package recipe_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// apache is the server all tests of a run share.
var apache struct {
	once    sync.Once
	address string
	err     error
	stop    func()
}

func startedApache(t *testing.T) string {
	t.Helper()
	apache.once.Do(func() { apache.address, apache.stop, apache.err = startApache() })
	if apache.err != nil {
		t.Fatal(apache.err)
	}
	return apache.address
}

// compatCache is where the compatibility tests install other servers and clients.
func compatCache() string {
	if dir := os.Getenv("ZOOID_COMPAT_CACHE"); dir != "" {
		return dir
	}
	cache, _ := os.UserCacheDir()
	return filepath.Join(cache, "zooid-compat")
}

// apacheClasspath returns Apache's 3.9, or Debian's release if that isn't installed. The folders of other versions, and
// of parts, are beside it.
func apacheClasspath() string {
	if jars, _ := filepath.Glob(filepath.Join(compatCache(), "apache-3.9", "*.jar")); len(jars) > 0 {
		return strings.Join(jars, ":")
	}
	return "/usr/share/java/zookeeper.jar"
}

func startApache() (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "zk-recipe-")
	if err != nil {
		return "", nil, err
	}
	ports, release, err := freeport.Reserve(1)
	if err != nil {
		return "", nil, err
	}
	address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	config := fmt.Sprintf("tickTime=200\nmaxSessionTimeout=60000\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n",
		dir, ports[0])
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("java", "-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.forceSync=no", "-Xmx256m", "-cp",
		apacheClasspath(),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
		release()
		log.Close()
		os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := zk.Open(ctx, address, zk.Options{})
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		stop()
		return "", nil, fmt.Errorf("Apache did not start: %w\n%s", err, said)
	}
	c.Close()
	return address, stop, nil
}

// fourLetters asks a server one of its words.
func fourLetters(t *testing.T, address, word string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, word)
	said, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}
