package setup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAdd: one more server gets the others' lines and secret, and a certificate; twice more is twice.
func TestAdd(t *testing.T) {
	t.Parallel()
	for _, tls := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := Write(Options{Dir: dir, Hosts: []string{"a", "b", "[fd00::3]"}, ClientPort: 2345, TLS: tls,
			Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		// Only one server's folder is still there.
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "1")), os.RemoveAll(filepath.Join(dir, "3"))); err != nil {
			t.Fatal(err)
		}
		four, err := Add(Options{Dir: dir, Hosts: []string{"d:3000"}, Now: time.Now()}, 4)
		if err != nil {
			t.Fatal(err)
		}
		five, err := Add(Options{Dir: dir, Hosts: []string{"e"}, ClientPort: 99, At: "/etc/zooid", Now: time.Now()}, 5)
		if err != nil {
			t.Fatal(err)
		}
		line := "server.4=d:3000:3888;2345"
		others := "a:2345,b:2345,[fd00:0:0:0:0:0:0:3]:2345"
		if tls {
			line = "server.4=d:3000:3888;;2345"
		}
		if four.Line != line || four.Others != others || four.TLS != tls || four.Folder != filepath.Join(dir, "4") {
			t.Errorf("added %+v", four)
		}
		cfg, _ := os.ReadFile(filepath.Join(five.Folder, "zoo.cfg"))
		for _, want := range []string{"server.1=a:", "server.2=b:", "server.3=[fd00:0:0:0:0:0:0:3]:",
			"server.4=d:3000:3888:participant;", five.Line, "dataDir=/etc/zooid/data"} {
			if !strings.Contains(string(cfg), "\n"+want) {
				t.Errorf("server 5 has no line %q in\n%s", want, cfg)
			}
		}
		mine, _ := os.ReadFile(filepath.Join(four.Folder, "secret"))
		theirs, _ := os.ReadFile(filepath.Join(dir, "2", "secret"))
		id, _ := os.ReadFile(filepath.Join(four.Folder, "data", "myid"))
		if st, err := os.Stat(filepath.Join(four.Folder, "secret")); err != nil || st.Mode().Perm() != 0o600 ||
			!bytes.Equal(mine, theirs) ||
			string(id) != "4\n" {
			t.Errorf("secret %q, mode %v, id %q", mine, st.Mode(), id)
		}
		if _, err := os.Stat(filepath.Join(four.Folder, "server.pem")); (err == nil) != tls {
			t.Errorf("the certificate: %v", err)
		}
		if connect, err := connectString(dir); tls && (err != nil || connect != "a:2345,b:2345,[fd00::3]:2345,d:2345,e:99") {
			t.Errorf("the clients' servers are %q, %v", connect, err)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "client", propertiesFile))
		if tls && !strings.Contains(string(text), "Connect to a:2345,b:2345,[fd00::3]:2345,d:2345,e:99\n") {
			t.Errorf("Java's clients are told:\n%s", text)
		}
		if list, err := List(dir, time.Now()); tls && (err != nil || len(list) != 6 || list[4].Subject != "CN=server 4") {
			t.Errorf("listed %+v, %v", list, err)
		}
	}
}

// TestAddAtOnce: each of several commands at once sees the servers that the others add, and only one gets a place.
func TestAddAtOnce(t *testing.T) {
	t.Parallel()
	for _, tls := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := Write(Options{Dir: dir, Hosts: []string{"a", "b", "c"}, TLS: tls, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		hosts := []string{"d", "e", "f", "d:2888", "d:2888"}
		errs := make([]error, len(hosts))
		var wg sync.WaitGroup
		for i, host := range hosts {
			wg.Go(func() { _, errs[i] = Add(Options{Dir: dir, Hosts: []string{host}, Now: time.Now()}, 4+i) })
		}
		wg.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				refused++
			}
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*", "zoo.cfg"))
		most := 0
		for _, file := range files {
			text, _ := os.ReadFile(file)
			most = max(most, strings.Count("\n"+string(text), "\nserver."))
		}
		if refused != 2 || len(files) != 6 || most != 6 {
			t.Errorf("TLS %t: %d refused, %d servers, of which the last knows %d: %v", tls, refused, len(files), most, errs)
		}
	}
}

// TestAddRefused: what would be a second server at one place, or isn't the ensemble's, is refused before anything is
// written.
func TestAddRefused(t *testing.T) {
	t.Parallel()
	nothing := func(string) error { return nil }
	edit := func(file, old, instead string) func(dir string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if !bytes.Contains(text, []byte(old)) {
				return errors.New(file + " doesn't have " + old)
			}
			return errors.Join(err, os.WriteFile(filepath.Join(dir, file), bytes.ReplaceAll(text, []byte(old),
				[]byte(instead)), 0o600))
		}
	}
	for what, c := range map[string]struct {
		id    int
		hosts []string
		harm  func(dir string) error
		says  string
	}{
		"no id":         {0, []string{"d"}, nothing, "begin with 1"},
		"a negative id": {-4, []string{"d"}, nothing, "server.-4"},
		"an id there":   {3, []string{"d"}, nothing, "already belongs to the ensemble: server.3=c:"},
		"a place taken": {4, []string{"c"}, nothing, "server 3 is there"},
		"a port taken":  {4, []string{"c:3000"}, nothing, "server 3 takes clients"},
		"no host":       {4, nil, nothing, "want one host"},
		"two hosts":     {4, []string{"d", "e"}, nothing, "want one host"},
		"a new line":    {4, []string{"d\nskipACL=yes"}, nothing, "server line"},
		"a wildcard":    {4, []string{"*.example"}, nothing, ""},
		"no folder": {4, []string{"d"}, func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/1"), os.RemoveAll(dir+"/2"), os.RemoveAll(dir+"/3"))
		}, "no server's folder"},
		"another secret": {4, []string{"d"}, func(dir string) error {
			return os.WriteFile(dir+"/2/secret", []byte("x"),
				0o600)
		}, "isn't the secret"},
		"other lines":  {4, []string{"d"}, edit("2/zoo.cfg", "server.3=c:2888", "server.3=c:2889"), "another server's"},
		"no authority": {4, []string{"d"}, func(dir string) error { return os.RemoveAll(dir + "/ca") }, "authority"},
		"no secret": {4, []string{"d"}, func(dir string) error {
			return errors.Join(os.Remove(dir+"/1/secret"), os.Remove(dir+"/2/secret"), os.Remove(dir+"/3/secret"))
		}, "file secret"},
		"a folder there":   {4, []string{"d"}, func(dir string) error { return os.Mkdir(dir+"/4", 0o700) }, "already"},
		"a dangling link":  {4, []string{"d"}, func(dir string) error { return os.Symlink("/nowhere", dir+"/4") }, "already"},
		"no configuration": {4, []string{"d"}, edit("1/zoo.cfg", "server.", "\\u00zz."), "1/zoo.cfg"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := Write(Options{Dir: dir, Hosts: []string{"a", "b", "c"}, TLS: true, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := c.harm(dir); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadDir(dir)
		port := map[bool]int{true: SecurePort}[what == "a port taken"]
		_, err := Add(Options{Dir: dir, Hosts: c.hosts, ClientPort: port, Now: time.Now()}, c.id)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("%s: it has written: %v", what, after)
		}
	}
	shared := filepath.Join(t.TempDir(), "shared")
	if _, err := Write(Options{Dir: shared, Hosts: []string{"a", "b"}, TLS: true, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for id, line := range []string{"server.3=b:3001:3888;;2282", "server.4=B:3002:3888;;2283",
		"server.5=c:2888:3888;;2281"} {
		_, host, _ := strings.Cut(line[:strings.Index(line, ":3888")], "=")
		if a, err := Add(Options{Dir: shared, Hosts: []string{host}, Now: time.Now()}, id+3); err != nil || a.Line != line {
			t.Errorf("added %+v, %v; want %s", a, err, line)
		}
	}
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := Write(Options{Dir: alone, TLS: true, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(Options{Dir: alone, Hosts: []string{"b"}, Now: time.Now()}, 2); err == nil ||
		!strings.Contains(err.Error(), "one server becomes three") {
		t.Errorf("a server alone grows: %v", err)
	}
}
