//go:build unix

package moving

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
)

// snapshotFile returns the bytes of a snapshot of Zooid's, as zooid import makes one.
func snapshotFile(t *testing.T) []byte {
	t.Helper()
	theirs, dir := t.TempDir(), t.TempDir()
	_, err := files.Write(theirs, &files.Content{
		Zxid: 0x500000007, Epoch: 5,
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/a"} {
				if err := visit(path, []byte(path), jute.WorldACL(jute.PermAll), &files.Stat{}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err == nil {
		_, err = apache.Import(apache.ImportOptions{Apache: files.Options{Dir: theirs}, Dir: dir})
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.snap"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exportInto runs zooid export into a directory that isn't there, which an error must leave so.
func exportInto(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "apache")
	var out bytes.Buffer
	code = run(append([]string{"export", "-to", to}, args...), &out, &out)
	if _, err := os.Lstat(to); (err == nil) != (code == 0) {
		t.Errorf("export %q: exit %d, and of the target: %v", args, code, err)
	}
	return out.String(), code
}

// TestExportOfFiles: a snapshot file that is cut anywhere, or changed, and what is none, are refused.
func TestExportOfFiles(t *testing.T) {
	t.Parallel()
	whole := snapshotFile(t)
	file := filepath.Join(t.TempDir(), "backup")
	try := func(what string, b []byte, code int, says string) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if said, got := exportInto(t, file); got != code || !strings.Contains(said, says) {
			t.Errorf("%s: exit %d, %q; want %d and %q", what, got, said, code, says)
		}
	}
	try("the whole", whole, 0, "exported 5 znodes and 0 sessions")
	for cut := len("ZOOIDSNP"); cut < len(whole); cut += 7 {
		try(fmt.Sprint("cut at ", cut), whole[:cut], exitDamaged, file+" is damaged at offset")
	}
	for at := len("ZOOIDSNP"); at < len(whole); at += 5 {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x10
		try(fmt.Sprint("changed at ", at), changed, exitDamaged, "Take another")
	}
	newer := bytes.Clone(whole)
	newer[8]++
	head := int(binary.LittleEndian.Uint32(newer[12:])) - crc32.Size
	sum := crc32.Checksum(newer[:head], crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(newer[head:], sum)
	try("of a newer format", newer, exitDamaged, file+" is of a newer version of Zooid")
	try("text", []byte("<html>404</html>"), 1, "isn't a Zooid snapshot")
	try("bytes", bytes.Repeat([]byte{0, 1, 2, 3}, 100), 1, "this isn't a Zooid snapshot")
	try("a snapshot of Apache's", append([]byte("ZKSN"), make([]byte, 100)...), 1, "this is an Apache snapshot")
	try("a cut gzip file", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01"), exitDamaged, "decompression fails")
	if said, code := exportInto(t, "localhost:8080"); code != 1 || !strings.Contains(said, "begins with http://") {
		t.Errorf("an address: exit %d, %q", code, said)
	}
}

// TestExportKeeps: an export that fails leaves what the target had.
func TestExportKeeps(t *testing.T) {
	t.Parallel()
	to, file := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(filepath.Join(to, "myid"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, snapshotFile(t)[:200], 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"export", "-to", to, file}, io.Discard, io.Discard); code != exitDamaged {
		t.Errorf("exit %d", code)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 || left[0].Name() != "myid" {
		t.Errorf("%v, %v", left, err)
	}
}

// TestExportOfServers: what servers answer that send no whole snapshot.
func TestExportOfServers(t *testing.T) {
	t.Parallel()
	whole := snapshotFile(t)
	stream := func(w http.ResponseWriter, declared int, b []byte) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(declared))
		w.Write(b)
	}
	var asked string
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		args   []string
		code   int
		says   string
	}{
		"whole": {func(w http.ResponseWriter) { stream(w, len(whole), whole) }, nil, 0, "exported 5 znodes"},
		"cut short": {
			func(w http.ResponseWriter) { stream(w, len(whole), whole[:len(whole)/2]) }, nil, 1,
			fmt.Sprintf("ended after %d of %d bytes", len(whole)/2, len(whole)),
		},
		"shorter": {
			func(w http.ResponseWriter) { stream(w, 100, whole[:100]) }, nil, exitDamaged,
			"the server's snapshot is damaged at offset",
		},
		"other": {
			func(w http.ResponseWriter) { stream(w, 100, bytes.Repeat([]byte("x"), 100)) }, nil, 1,
			"this isn't a Zooid snapshot",
		},
		"a page": {
			func(w http.ResponseWriter) { fmt.Fprint(w, "<html>welcome</html>") }, nil, 1,
			"isn't the admin server of a serving",
		},
		"not found": {
			func(w http.ResponseWriter) { w.WriteHeader(404) }, nil, 1, "404, Not Found. Is this the URL of the admin server",
		},
		"rate": {
			func(w http.ResponseWriter) { w.WriteHeader(429); fmt.Fprint(w, `{"error":"One runs already"}`) }, nil, 1,
			"429, One runs already. Wait",
		},
		"elsewhere": {
			func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(302) }, nil, 1,
			"sent no snapshot: 302",
		},
		"off": {func(w http.ResponseWriter) { w.WriteHeader(503) }, nil, 1, "admin.snapshot.enabled=true"},
		"two": {nil, []string{"-auth", "digest:a:b", "-auth", "digest:c:d"}, 1, "give a single -auth"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
			c.answer(w)
		}))
		said, code := exportInto(t, append(c.args, s.URL)...)
		s.Close()
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: exit %d, %q; want %d and %q", name, code, said, c.code, c.says)
		}
	}
	if asked != "GET /commands/snapshot ip" {
		t.Errorf("asked: %s", asked)
	}
	for address, says := range map[string]string{
		"http://u:hidden@localhost": "-auth-file", "http://": "want http://HOST:PORT",
		"http://localhost/?format=hidden": "want http://HOST:PORT", "http://127.0.0.1:1": "connection refused",
	} {
		if said, code := exportInto(t, address); code != 1 || !strings.Contains(said, says) ||
			strings.Contains(said, "hidden") {
			t.Errorf("%s: exit %d, %q", address, code, said)
		}
	}
}
