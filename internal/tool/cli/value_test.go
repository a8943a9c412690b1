package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
)

// TestValuesFromFiles has create, set and txn take data from files, and takes what is
// quoted or stands behind -- for data.
func TestValuesFromFiles(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	file, empty, coded := textFile(t, "two\nlines\x00\xff\n"), textFile(t, ""), textFile(t, "AAEC\n")
	for _, k := range []struct{ line, path, want string }{
		{"create /file @" + file, "/file", "two\nlines\x00\xff\n"},
		{"set /file @" + empty, "/file", ""},
		{"put /file @" + file, "/file", "two\nlines\x00\xff\n"},
		{"set -b /file @" + coded, "/file", "\x00\x01\x02"},
		{`set /file "@none"`, "/file", "@none"},
		{"set -- /file @none", "/file", "@none"},
		{"set -- /file -", "/file", "-"},
		{`set /file '-'`, "/file", "-"},
		{"set /file a@b", "/file", "a@b"},
		{"set /file -5", "/file", "-5"},
		{`create "/quoted" @` + file, "/quoted", "two\nlines\x00\xff\n"},
		{"txn create /t1 @" + file + " ; set /file @" + coded, "/t1", "two\nlines\x00\xff\n"},
		{`txn set /file "@none" ; set /t1 "-"`, "/file", "@none"},
		{"txn -f " + textFile(t, "set /t1 @"+coded, "set /file '@none'"), "/t1", "AAEC\n"},
		{`txn 'set /t1 "@none"'`, "/t1", "@none"},
		{`txn "set -- /t1 @none"`, "/t1", "@none"},
	} {
		if out := v.run(t, k.line); v.s.exit != 0 {
			t.Errorf("%s: %s", k.line, out)
			continue
		}
		if data, _, err := c.Get(t.Context(), k.path); string(data) != k.want || data == nil || err != nil {
			t.Errorf("%s: %q, %v; want %q", k.line, data, err, k.want)
		}
	}
}

// TestValuesThatCannotBeRead changes nothing where there is no whole value.
func TestValuesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	plant(t, c, "/v=before")
	for line, want := range map[string]string{
		"set /v @none/such":         "no such file or directory",
		"set /v @":                  "no such file or directory",
		"set /v @" + t.TempDir():    "is a directory",
		"set /v @/dev/zero":         "has more than 1048575 bytes",
		"set -b /v @/dev/zero":      "has more than 2097150 bytes",
		"txn set /v @/dev/zero":     "has more than 1048575 bytes",
		"set /v -":                  "standard input has the commands",
		"set /v @-":                 "standard input has the commands",
		"txn set /v -":              "standard input has the commands",
		"txn -f -":                  "standard input has the commands",
		"import -format json - /v":  "standard input has the commands",
		"create /w @none":           "after -- they are data: create -- /w @none",
		"set /v '@none' ; @none":    "takes at most 3 arguments",
		"txn set /v x ; set /v @no": "nothing was sent",
	} {
		v.refuses(t, c, "/v", line, want)
	}
	half := textFile(t, strings.Repeat("x", 600_000))
	v.refuses(t, c, "/v", "txn set /v @"+half+" ; set /v @"+half, "with it they have more than 1048575 bytes")
}

// TestValueMax stores the largest value that a request can have, and refuses one more
// byte before anything is sent.
func TestValueMax(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	v.s.opt.access.RequestMax = 1000
	c, _ := find([]string{"set"})
	for n, want := range map[int]string{1000: "", 1001: "has more than 1000 bytes"} {
		a, err := c.parse([]string{"/", "@" + textFile(t, strings.Repeat("x", n))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := v.s.value(t.Context(), a, 1)
		if want == "" && (err != nil || len(data) != n) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %d were read, %v", n, len(data), err)
		}
	}
}

// TestValueFromStandardInput reads it for a single command, once.
func TestValueFromStandardInput(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := open(t, address)
	for _, k := range []struct {
		input string
		words []string
		code  int
		says  string
		want  string // of /in
	}{
		{"one\n", []string{"create", "/in", "-"}, 0, "Created /in", "one\n"},
		{"", []string{"set", "/in", "-"}, 0, "", ""},
		{"two", []string{"set", "/in", "@-"}, 0, "", "two"},
		{"three", []string{"set", "--", "/in", "-"}, 0, "", "-"},
		{"four", []string{"txn", "set", "/in", "-", ";", "set", "/in", "-"}, exitFailed, "was already read", "-"},
		{"set /in five\n", []string{"txn", "-f", "-"}, 0, "", "five"},
		{"set /in -\n", []string{"txn", "-f", "-"}, exitFailed, "was already read", "five"},
		{"set /in -\nset /in six", nil, exitFailed, "standard input has the commands", "five"},
	} {
		out, errs, code := once(k.input, append([]string{"-server", address}, k.words...)...)
		if code != k.code || !strings.Contains(out+errs, k.says) {
			t.Errorf("%q with %q: exit code %d: %s%s", k.words, k.input, code, out, errs)
		}
		if data, _, err := c.Get(t.Context(), "/in"); string(data) != k.want || err != nil {
			t.Errorf("%q with %q: /in is %q, %v; want %q", k.words, k.input, data, err, k.want)
		}
	}
}

// TestCreateParents makes what is missing above a znode, all of it or nothing.
func TestCreateParents(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		for _, k := range []struct{ line, path, want string }{
			{"create -p /a/b/c x", "/a/b/c", "x"},
			{"create -p /a/b/d", "/a/b/d", ""},
			{"mkdir -p /m/n", "/m/n", ""},
			{"create -p -s /s/t/n- x", "/s/t/n-0000000000", "x"},
			{"create -p -t 60000 /ttl/x y", "/ttl/x", "y"},
			{"create -p -c /con/x y", "/con/x", "y"},
			{"create -p -e /eph/x y", "/eph/x", "y"},
			{"create -p /top x", "/top", "x"},
		} {
			out := v.run(t, k.line)
			data, _, err := c.Get(t.Context(), k.path)
			if v.s.exit != 0 || !strings.Contains(out, "Created "+k.path) || err != nil || string(data) != k.want {
				t.Errorf("%s: exit code %d: %s; %q, %v", k.line, v.s.exit, out, data, err)
			}
		}
		for line, want := range map[string]string{
			"create -p /a/b/c y":              "Node already exists: /a/b/c",
			"create -p /none/x y auth::cdrwa": "InvalidACL",
			"create -p /eph/x/below y":        "Ephemerals cannot have children",
			"create /none/x y":                "create /none first, or use create -p",
			"txn create -p /none/x y":         "can't be part of a transaction",
		} {
			out := v.run(t, line)
			_, there, err := c.Exists(t.Context(), "/none")
			if v.s.exit != exitFailed || !strings.Contains(out, want) || there || err != nil {
				t.Errorf("%s: exit code %d: %s, want %q; its parent is there: %t, %v", line, v.s.exit, out, want, there, err)
			}
		}
		if acl, _, err := c.GetACL(t.Context(), "/a/b"); err != nil || !sameACL(acl, zk.WorldACL(zk.PermAll)) {
			t.Errorf("the ACL of a parent: %v, %v", acl, err)
		}
	})
}

// TestGetIsExact: as the only command, to a file or a pipe, get prints the bytes of a znode and nothing else.
func TestGetIsExact(t *testing.T) {
	t.Parallel()
	addr := startZooid(t)
	c := open(t, addr)
	for i, data := range [][]byte{[]byte("x"), []byte("two\nlines\n"), {0, 0xff, '\n', 0x1b}, {}} {
		path := fmt.Sprintf("/blob-%d", i)
		if _, err := c.Create(t.Context(), path, data, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		if code := Main("cli", []string{"-server", addr, "get", path}, Streams{Out: &out, Err: &errs}, ""); code != 0 {
			t.Fatalf("get %s: exit code %d: %s", path, code, errs.String())
		}
		if !bytes.Equal(out.Bytes(), data) {
			t.Errorf("get %s prints %q, want %q", path, out.Bytes(), data)
		}
	}
}
