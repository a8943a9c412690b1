package export

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// exportedTree is what a file with all kinds of content says.
func exportedTree() (head Head, nodes []Node) {
	head = Head{formatNow, "/app", "2026-01-02T03:04:05.678Z"}
	data := [][]byte{
		nil, {}, []byte("plain"), []byte("two\nlines\n"), []byte(" blanks "), []byte("\ttab: {[\"'#&*!|>%@`"), []byte("true"),
		[]byte("0123"),
		[]byte("~"), []byte("---\n...\n"), []byte("a\r\nb"), {0, 1, 2, 0xff, 0xfe}, []byte("\ufeffbom\u0085\u2028"),
		[]byte("ünïcödé 漢字 🐘"),
		[]byte("\x1b[31m"), []byte("a: b\n  - c"), []byte("\n"), []byte("null"), []byte("2001-01-01"), []byte("1e3"),
		[]byte(strings.Repeat("long ", 60)),
	}
	names := []string{"/", "/#", "/'quote'", "/-v", "/..x", "/\u202ebidi\u2066", "/_data", "/a", "/a/b", "/a/b/c",
		"/a/b-c", `/back\slash`, "/line\u2028",
		"/lock-0000000007", "/null", "/true", "/with space", "/~", "/ünïcödé", "/漢字"}
	acls := []string{
		"world:anyone:r", "digest:u:hash=:cdrwa", "x509:CN=a, O=\"b\u202e\":r", "sasl:tab\tand\x1bescape:w", "ip:::1:r",
	}
	slices.SortFunc(names, func(a, b string) int {
		return slices.Compare(strings.Split(strings.TrimSuffix(a, "/"), "/"), strings.Split(strings.TrimSuffix(b, "/"), "/"))
	})
	for i := range max(len(names), len(data)) {
		name := fmt.Sprintf("/漢字/x%02d", i)
		if i < len(names) {
			name = names[i]
		}
		d := NewNode(name, data[i%len(data)], nil, time.Unix(int64(i), 0))
		if i%3 > 0 {
			d.ACL = []string{acls[i%len(acls)], acls[(i+1)%len(acls)]}
		}
		nodes = append(nodes, d)
	}
	return head, nodes
}

// write returns the file that export would write.
func writeDocument(t testing.TB, form string, zipped bool, head Head, nodes []Node) []byte {
	t.Helper()
	var file bytes.Buffer
	var out io.Writer = &file
	z := gzip.NewWriter(&file)
	if zipped {
		out = z
	}
	at, err := time.Parse(time.RFC3339, head.Time)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(form, out, head.Root, at)
	for _, d := range nodes {
		err = errors.Join(err, w.Node(d))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if zipped {
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

// readWhole returns what a file says, or why it is refused.
func readWhole(file []byte, form string, zipped, unchecked bool) (says string, err error) {
	var in io.Reader = bytes.NewReader(file)
	if zipped {
		if in, err = gzip.NewReader(in); err != nil {
			return "", err
		}
	}
	r, head, err := Read(form, in, unchecked)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q\n", head)
	for {
		n, data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "%q %t %q %q\n", n.Path, data == nil, data, n.ACL)
	}
}

// damage returns a file with one fault: bits turned, a cut, a block twice, a block
// missing, a block moved, or bytes added.
func damage(file []byte, r *rand.Rand) []byte {
	bad := slices.Clone(file)
	at := r.IntN(len(bad))
	end := min(len(bad), at+1+r.IntN(600))
	switch r.IntN(7) {
	case 0, 1:
		for range 1 + r.IntN(2) {
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		}
	case 2:
		return bad[:at]
	case 3:
		return slices.Insert(bad, end, file[at:end]...)
	case 4:
		return slices.Delete(bad, at, end)
	case 5:
		return slices.Insert(slices.Delete(bad, at, end), r.IntN(len(file)-(end-at)+1), file[at:end]...)
	case 6:
		return slices.Insert(bad, len(bad)-r.IntN(2)*(len(bad)-at), []byte(strings.Repeat("x\n", 1+r.IntN(3)))...)
	}
	return bad
}

// aligned returns a file with whole lines or blocks missing, twice or exchanged:
// what reads well to the format, and lacks a znode.
func aligned(file []byte, form string, r *rand.Rand) []byte {
	separator := map[string]string{"json": ",\n", "yaml": "---\n"}[form]
	if separator == "" {
		const block = 512
		at := r.IntN(len(file)/block) * block
		return slices.Delete(slices.Clone(file), at, min(at+block*(1+r.IntN(4)), len(file)))
	}
	parts := strings.SplitAfter(string(file), separator)
	i, j := r.IntN(len(parts)), r.IntN(len(parts))
	switch r.IntN(3) {
	case 0:
		parts = slices.Delete(parts, i, i+1)
	case 1:
		parts = slices.Insert(parts, i, parts[j])
	default:
		parts[i], parts[j] = parts[j], parts[i]
	}
	return []byte(strings.Join(parts, ""))
}

// TestDamagedFiles reads ten thousand damaged files: each says what it said before,
// or is refused.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	head, nodes := exportedTree()
	for _, k := range []struct {
		form   string
		zipped bool
		count  int
	}{{"json", false, 2500}, {"yaml", false, 2500}, {"tar", false, 2500}, {"json", true, 1250}, {"tar", true, 1250}} {
		t.Run(fmt.Sprintf("%s, zipped %t", k.form, k.zipped), func(t *testing.T) {
			t.Parallel()
			file := writeDocument(t, k.form, k.zipped, head, nodes)
			want, err := readWhole(file, k.form, k.zipped, false)
			if err != nil {
				t.Fatalf("the whole file: %v", err)
			}
			if n := strings.Count(want, "\n"); n != len(nodes)+1 {
				t.Fatalf("%d znodes were read, want %d", n-1, len(nodes))
			}
			refused, equal := 0, 0
			if testing.Short() {
				k.count /= 10
			}
			for seed := range k.count {
				r := rand.New(rand.NewPCG(uint64(seed), 13))
				bad := damage(file, r)
				if !k.zipped && seed%4 == 0 {
					bad = aligned(file, k.form, r)
				}
				got, err := readWhole(bad, k.form, k.zipped, false)
				switch {
				case err != nil:
					refused++
				case got == want:
					equal++
				default:
					t.Fatalf("seed %d: a damaged file was read as\n%s\nwant\n%s", seed, got, want)
				}
				// Without the mark anything may be read, but nothing may panic.
				_, _ = readWhole(bad, k.form, k.zipped, true)
			}
			t.Logf("%d refused, %d equal", refused, equal)
			if refused < k.count/2 {
				t.Errorf("%d of %d were refused: the damage is not what it should be", refused, k.count)
			}
		})
	}
}

// TestFormatsAgree reads from each format what was written.
func TestFormatsAgree(t *testing.T) {
	t.Parallel()
	head, nodes := exportedTree()
	var want string
	for _, form := range []string{"json", "yaml", "tar"} {
		got, err := readWhole(writeDocument(t, form, false, head, nodes), form, false, false)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%s reads as\n%s\nwant\n%s", form, got, want)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q\n", head)
	for _, d := range nodes {
		data, err := d.bytes()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%q %t %q %q\n", d.Path, data == nil, data, d.ACL)
	}
	if b.String() != want {
		t.Errorf("read\n%s\nwritten\n%s", want, b.String())
	}
}

// TestStrictRecords refuses what is not exactly what export writes, even without an
// end mark, with the reason and the place.
func TestStrictRecords(t *testing.T) {
	t.Parallel()
	const head = `{"format":"zooid-export-2","root":"/x","znodes":[`
	const yamlHead = "format: zooid-export-2\nroot: /x\n---\n"
	for _, c := range []struct{ form, text, want string }{
		{"json", head + `{"path":"/"}]}`, ""},
		{"json", head + `{"path":"/","acl":["world:anyone:r"],"data":"x"}]}` + " \n", ""},
		{"json", head + `{"path":"/","alc":["world:anyone:r"]}]}`, `at byte 49: the key "alc" is unknown here, or is given twice`},
		{"json", head + `{"path":"/","ACL":["world:anyone:r"]}]}`, `the key "ACL" is unknown`},
		{"json", head + `{"path":"/","data":"a","data":"b"}]}`, `the key "data" is unknown here, or is given twice`},
		{"json", head + `{"path":"/","data":null}]}`, `"data": it is null`},
		{"json", head + `{"path":"/","acl":null}]}`, `"acl": it is null`},
		{"json", head + `{"path":"/","acl":[]}]}`, `"acl": the list is empty`},
		{"json", head + `{"path":"/","acl":[null]}]}`, `"acl": it is null`},
		{"json", head + `{"path":"/"}]} x`, "after 1 znode, the last \"/\": there is more after its end"},
		{"json", head + `{"path":"/"}]}]`, "there is more after its end"},
		{"json", head + `{"path":"/"}],"more":1}`, "want the end mark, not more"},
		{"json", head + `{"path":"/"},{"path":"/a/b"}]}`, `"/a/b" has no parent before it`},
		{"json", head + `{"path":"/"},{"path":"/a"},{"path":"/a"}]}`, `"/a" is out of order`},
		{"json", head + `{"path":"/"},{"path":"/../b"}]}`, "invalid path"},
		{"json", head + `{"path":"/"},{"path":"/a/"}]}`, "invalid path"},
		{"json", head + `{"path":"/"},`, "unexpected EOF"},
		{"json", `{"format":"zooid-export-2","root":"/x","root":"/y","znodes":[]}`, `the key "root" is unknown here, or is given twice`},
		{"yaml", yamlHead + "path: /\nacl: ['world:anyone:r']\n", ""},
		{"yaml", yamlHead + "path: /\nalc: ['world:anyone:r']\n", `line 5: the key "alc" is unknown`},
		{"yaml", yamlHead + "path: /\ndata: a\ndata: b\n", `the key "data" is unknown here, or is given twice`},
		{"yaml", yamlHead + "path: /\nacl:\n", "want a list that is not empty"},
		{"yaml", yamlHead + "path: /\nacl: []\n", "want a list that is not empty"},
		{"yaml", yamlHead + "path: /\ndata: true\n", "want text"},
		{"yaml", yamlHead + "path: /\ndata: ~\n", "want text"},
		{"yaml", yamlHead + "path: /\n---\n", "want keys with values"},
		{"yaml", yamlHead + "path: &a /\n---\npath: *a\n", "want text"},
		{"yaml", yamlHead + "path: /\n---\nznodes: 1\nsha256: x\n---\npath: /a\n", "there is more after its end mark"},
	} {
		_, err := readWhole([]byte(c.text), c.form, false, true)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.form, c.text, got, c.want)
		}
		if _, err := readWhole([]byte(c.text), c.form, false, false); err == nil {
			t.Errorf("%s %s: taken without an end mark", c.form, c.text)
		}
	}
}
