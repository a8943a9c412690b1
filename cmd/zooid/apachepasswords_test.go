package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk"
)

// TestApachePasswords: new sessions have the passwords that Apache derives from their ids where the key says so, and no
// others.
func TestApachePasswords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "session.apachePasswords=true\n": true} {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(file, []byte("dataDir="+dir+"\nclientPort=0\nclientPortAddress=127.0.0.1\n"+text),
			0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		o, err := serverOptions(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s, err := server.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := zk.Open(t.Context(), s.Addrs()[0].String(), zk.Options{SessionTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		session := c.Session()
		derived := files.Passwd(session.ID)
		if bytes.Equal(session.Passwd[:], derived[:]) != want {
			t.Errorf("%q: the password of session %#x is %x, Apache's %x", text, session.ID, session.Passwd, derived)
		}
		c.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
