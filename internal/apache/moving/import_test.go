//go:build unix

package moving

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
)

// TestImportExport: what the commands say, and their exit codes.
func TestImportExport(t *testing.T) {
	t.Parallel()
	apache, dir, back := t.TempDir(), filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "back")
	_, err := files.Write(apache, &files.Content{
		Zxid: 0x500000007, Epoch: 5, Sessions: []files.Session{{ID: 0x100000000000001, Timeout: 4000}},
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/a"} {
				if err := visit(path, nil, jute.WorldACL(jute.PermAll), &files.Stat{}); err != nil {
					return err
				}
			}
			return visit("/a/ttl", nil, nil, &files.Stat{Owner: files.Owner{TTL: 9}.Stored()})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if err := os.CopyFS(damaged, os.DirFS(apache)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "version-2", "log.500000008"), []byte("ZKLG"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"import", "-h"}, 0, "APACHE_DATADIR"},
		{[]string{"import"}, 2, "usage: zooid import"},
		{[]string{"import", "-x", "a", "b"}, 2, "-x"},
		{[]string{"import", apache, dir}, 1, "there is no log in"},
		{[]string{"import", "-without-log", apache, dir}, 0, "imported 6 znodes and 1 sessions into " + dir},
		{[]string{"import", apache, dir}, 1, "in use"},
		{[]string{"import", t.TempDir(), filepath.Join(t.TempDir(), "x")}, 1, "version-2"},
		{[]string{"import", damaged, filepath.Join(t.TempDir(), "x")}, 4, "log.500000008 is damaged at offset 0"},
		{[]string{"export", "-h"}, 0, "-to APACHE_DATADIR"},
		{[]string{"export", dir}, 2, "zooid cli export"},
		{[]string{"export", "-to", back}, 2, "usage: zooid export"},
		{[]string{"export", "-to", back, dir}, 0, "1 znodes have a TTL"},
		{[]string{"export", "-to", back, dir}, 1, "already exists"},
		{[]string{"export", "-to", back, filepath.Join(dir, "nothing")}, 1, "nothing"},
	} {
		var out bytes.Buffer
		if code := run(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("zooid %q: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(config, []byte("dataDir="+dir+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run([]string{"export", "-to", t.TempDir(), config}, &out, &out); code != 0 ||
		!strings.Contains(out.String(), "exported 6 znodes and 1 sessions") {
		t.Errorf("with a zoo.cfg: exit %d, %q", code, out.String())
	}
}

// TestImportThroughLink: a dataLogDir that is a link to dataDir counts as none.
func TestImportThroughLink(t *testing.T) {
	t.Parallel()
	apache, dir, link := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "link")
	_, err := files.Write(apache, &files.Content{
		Zxid: 0x500000007, Epoch: 5,
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			return visit("/", nil, jute.WorldACL(jute.PermAll), &files.Stat{})
		},
	})
	if err := errors.Join(err, os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run([]string{"import", "-without-log", "-todatalogdir", link, apache, dir}, &out, &out); code != 0 {
		t.Errorf("exit %d, %q", code, out.String())
	}
}
