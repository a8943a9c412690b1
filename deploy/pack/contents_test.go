package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// debOf makes a .deb of files; those below DEBIAN/ are its control files.
func debOf(t *testing.T, files []tar.Header, bodies map[string]string) []byte {
	t.Helper()
	member := map[bool]*bytes.Buffer{false: {}, true: {}}
	for control, b := range member {
		z := gzip.NewWriter(b)
		w := tar.NewWriter(z)
		for _, h := range files {
			name, is := strings.CutPrefix(h.Name, "DEBIAN/")
			if is != control {
				continue
			}
			body := bodies[h.Name]
			h.Name, h.Size = "./"+name, int64(len(body))
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		z.Close()
	}
	deb := []byte("!<arch>\n")
	for _, m := range []struct {
		name string
		body []byte
	}{
		{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", member[true].Bytes()}, {"data.tar.gz", member[false].Bytes()},
	} {
		deb = fmt.Appendf(deb, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", m.name, 0, 0, 0, 0o100644, len(m.body), m.body)
		if len(m.body)%2 == 1 {
			deb = append(deb, '\n')
		}
	}
	return deb
}

// TestContents lists a .deb: modes, owners, configuration files and scripts are told, directories aren't. That an .rpm
// gives the same is what deploy/package/test.sh holds the real ones to.
func TestContents(t *testing.T) {
	t.Parallel()
	deb := debOf(t, []tar.Header{
		{Name: "DEBIAN/conffiles", Mode: 0o644}, {Name: "DEBIAN/postinst", Mode: 0o755},
		{Name: "usr/bin/x", Mode: 0o755, Uname: "root", Gname: "root"}, {Name: "etc/", Mode: 0o755, Typeflag: tar.TypeDir},
		{Name: "etc/x.cfg", Mode: 0o640, Uname: "root", Gname: "staff"},
	}, map[string]string{
		"DEBIAN/conffiles": "/etc/x.cfg\n", "DEBIAN/postinst": "#!/bin/sh\n", "usr/bin/x": "program", "etc/x.cfg": "a=b\n",
	})
	file := filepath.Join(t.TempDir(), "x.deb")
	if err := os.WriteFile(file, deb, 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := contents(file)
	want := []string{
		"0640 root staff conf " + digest([]byte("a=b\n")) + " /etc/x.cfg",
		"0755 root root file " + digest([]byte("program")) + " /usr/bin/x",
		"script " + digest([]byte("#!/bin/sh\n")) + " postinst", "script " + digest(nil) + " prerm",
		"script " + digest(nil) + " postrm",
	}
	if err != nil || !slices.Equal(lines, want) {
		t.Errorf("%v\n%s", err, strings.Join(lines, "\n"))
	}
}

// TestContentsOfGarbage: what is no package, or is cut short, is an error.
func TestContentsOfGarbage(t *testing.T) {
	t.Parallel()
	lead := append([]byte{0xed, 0xab, 0xee, 0xdb}, make([]byte, rpmLeadBytes-4)...)
	header := []byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	long := []byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for name, body := range map[string][]byte{
		"empty.deb": nil, "text.deb": []byte("text"),
		"size.deb":  []byte("!<arch>\n" + fmt.Sprintf("%-48s%-10d`\n", "data.tar.gz", 99)),
		"empty.rpm": nil, "text.rpm": []byte("text"), "lead.rpm": lead, "header.rpm": slices.Concat(lead, header, header),
		"long.rpm": slices.Concat(lead, long, header), "body.rpm": slices.Concat(lead, header, header, []byte("no gzip")),
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, body, 0o600); err != nil {
			t.Fatal(err)
		}
		if lines, err := contents(file); err == nil {
			t.Errorf("%s: %q", name, lines)
		}
	}
	if _, err := contents("none.rpm"); err == nil {
		t.Error("a file that isn't there is listed")
	}
}
