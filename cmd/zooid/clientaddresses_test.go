package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
)

// TestClientAddresses: where the other servers may serve clients, by their lines, or by this server's own ports.
func TestClientAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ port, lines, want string }{
		{"2181", "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2", "map[2:[b:2181] 3:[c:2181]]"},
		{"2181", "server.1=a:1:2\nserver.2=b:1:2;2182\nserver.3=c:1:2;0.0.0.0:2183", "map[2:[b:2182] 3:[c:2183]]"},
		{"2181", "server.1=a:1:2\nserver.2=b:1:2|b2:3:4;127.0.0.1:2182", "map[2:[b:2182 b2:2182]]"},
		{"2181", "server.1=a:1:2\nserver.2=a:3:4\nserver.3=a:5:6;2183", "map[3:[a:2183]]"}, // 2's isn't known
		{"2181", "server.1=a:1:2\nserver.2=a:3:4;2181", "map[]"},                           // that is this server's
		{"", "server.1=a:1:2;2181\nserver.2=b:1:2", "map[2:[b:2181]]"},
		{"2181\nsecureClientPort=2281", "server.1=a:1:2\nserver.2=[2001:db8::2]:1:2",
			"map[2:[[2001:db8:0:0:0:0:0:2]:2181 [2001:db8:0:0:0:0:0:2]:2281]]"},
	} {
		dir := t.TempDir()
		text := fmt.Sprintf("dataDir=%s\nmultiAddress.enabled=true\ninitLimit=10\nsyncLimit=5\n%s\n", dir, c.lines)
		if c.port != "" {
			text += "clientPort=" + c.port + "\n"
		}
		file := filepath.Join(dir, "zoo.cfg")
		for name, text := range map[string]string{file: text, filepath.Join(dir, "myid"): "1\n"} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := config.Load(file, nil)
		if cfg == nil {
			t.Fatal(err)
		}
		if have := fmt.Sprint(clientAddresses(cfg)); have != c.want {
			t.Errorf("%s: %s, want %s", c.lines, have, c.want)
		}
	}
}
