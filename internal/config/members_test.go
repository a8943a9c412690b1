package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What QuorumMaj.toString of Apache 3.8.0 gives for these lines; those with two semicolons follow the grammar of 3.10.
func TestMembersHaveApachesText(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"[::1]:2888:3888;2181":                     "[0:0:0:0:0:0:0:1]:2888:3888:participant;0.0.0.0:2181",
		"[2001:DB8::1]:1:2:observer;[::]:2181":     "[2001:db8:0:0:0:0:0:1]:1:2:observer;[0:0:0:0:0:0:0:0]:2181",
		"[::ffff:1.2.3.4]:1:2":                     "1.2.3.4:1:2:participant",
		"127.0.0.1:1:2;127.0.0.1:2181":             "127.0.0.1:1:2:participant;127.0.0.1:2181",
		"b:1:2|a:3:4:OBSERVER":                     "a:3:4|b:1:2:observer",
		"a:1:2;":                                   "a:1:2:participant",
		"a:1:2:participant;h:3":                    "a:1:2:participant;h:3",
		"a:1:2: Observer ":                         "a:1:2:observer",
		"[fe80::1%lo]:1:2":                         "[fe80::1%lo]:1:2:participant",
		"a:1:2;[::1]:2181":                         "a:1:2:participant;[0:0:0:0:0:0:0:1]:2181",
		"b:2:1|a:1:2":                              "a:1:2|b:2:1:participant",
		"a:1:2;2181;2281":                          "a:1:2:participant;0.0.0.0:2181;0.0.0.0:2281",
		"a:1:2;;h:2281":                            "a:1:2:participant;;h:2281",
		"zk-1.my_net.example:2888:3888:observer;0": "zk-1.my_net.example:2888:3888:observer;0.0.0.0:0",
	} {
		m, err := ParseMembers("server.5=" + line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := m.String(); got != "server.5="+want+"\nversion=0" {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
		again, err := ParseMembers(m.String())
		if err != nil || again.String() != m.String() {
			t.Errorf("%s: its text reads back as %s, %v", line, again, err)
		}
	}
}

func TestMembersRefused(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"server.1=a":                                "two ports",
		"server.1=a:1":                              "two ports",
		"server.1=":                                 "not a host name",
		"server.1=a:1:2:observer:3":                 "two ports",
		"server.1=a:1:2:leader":                     "not a role",
		"server.1=a:1:1":                            "must differ",
		"server.1=a:0:1":                            "from 1 to 65535",
		"server.1=a:1:65536":                        "from 1 to 65535",
		"server.1=a:x:2":                            "not a port",
		"server.1=a:1:2;1;2;3":                      "more than three parts",
		"server.1=a:1:2;h:":                         "not a port",
		"server.1=a:1:2;h:1:2":                      "not a port",
		"server.1=[::1:1:2":                         "no closing bracket",
		"server.1=[::1]":                            "no port after the bracket",
		"server.1=::1:1:2":                          "not a host name",
		"server.1=a b:1:2":                          "not a host name",
		`server.1=a\nserver.9=b:1:2`:                "not a host name",
		`server.1=[fe80::1%a\nversion=5]:1:2`:       "not a host name",
		"server.1=a:1:2:observer|b:1:2:participant": "one role",
		"server.x=a:1:2":                            "not a server id",
		"server.-1=a:1:2":                           "not a server id",
		"server.9223372036854775808=a:1:2":          "not a server id",
		"server.1=a:1:2\nserver.1=b:1:2":            "already given in line 1",
		"group.1=1:2":                               "hierarchical",
		"weight.1=1":                                "hierarchical",
		"version=xyz":                               "hexadecimal",
		"version=ffffffffffffffff":                  "hexadecimal",
		"tickTime=2000":                             "only server.N and version",
		`a=\u12`:                                    "hexadecimal digits",
	} {
		m, err := ParseMembers(text)
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), problem) ||
			!strings.HasPrefix(err.Error(), "membership:") {
			t.Errorf("%q: got %v and %v, want an error about %q", text, m, err, problem)
		}
	}
	many := strings.Builder{}
	for i := range membersMax + 1 {
		fmt.Fprintf(&many, "server.%d=a:1:2\n", i)
	}
	if _, err := ParseMembers(many.String()); err == nil || !strings.Contains(err.Error(), "more than 1024 servers") {
		t.Errorf("%d servers: %v", membersMax+1, err)
	}
}

func TestMembersAreSortedAndFound(t *testing.T) {
	t.Parallel()
	m, err := ParseNewMembers("server.10=c:1:2;2181,server.2=b:1:2:observer,server.1=a:1:2,version=10000000f")
	if err != nil {
		t.Fatal(err)
	}
	want := "server.1=a:1:2:participant\nserver.2=b:1:2:observer\nserver.10=c:1:2:participant;0.0.0.0:2181\nversion=10000000f"
	if m.String() != want || m.Voters() != 2 {
		t.Errorf("%d voters in\n%s", m.Voters(), m)
	}
	if got, ok := m.Find(10); !ok || got.Client != (HostPort{"0.0.0.0", 2181}) {
		t.Errorf("server 10: %v %v", got, ok)
	}
	if _, ok := m.Find(3); ok {
		t.Error("there is no server 3")
	}
}

func TestIncrementalReconfig(t *testing.T) {
	t.Parallel()
	before, err := ParseMembers("server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.3=127.0.0.1:1:2;2181\nversion=5")
	if err != nil {
		t.Fatal(err)
	}
	text := before.String()
	for _, c := range []struct{ joining, leaving, want string }{
		{"", "", "1=a 2=b 3=127.0.0.1"},
		{"", "2", "1=a 3=127.0.0.1"},
		{"", " 2 , 77,", "1=a 3=127.0.0.1"},
		{"server.4=d:1:2;2181", "", "1=a 2=b 3=127.0.0.1 4=d"},
		{"server.0=d:1:2;2181, x.y.9=e:1:2;2181", "1", "0=d 2=b 3=127.0.0.1 9=e"},
		{"2=d:1:2;2181", "", "1=a 2=d 3=127.0.0.1"},
		{"server.2=b:1:2:observer;;2281", "", "1=a 2=b 3=127.0.0.1"},
		{"server.4=b:1:2;2181", "2", "1=a 3=127.0.0.1 4=b"},
		{"server.4=127.0.0.1:1:2;2181", "", "1=a 2=b 3=127.0.0.1 4=127.0.0.1"},
		{"server.4=b:5:1;2181", "", "error: joining servers: b:1 of server.4 is also an address of server.2"},
		{"server.4=d:1:2;b:2", "", "error: joining servers: b:2 of server.4 is also an address of server.2"},
		{"server.4=d:1:2", "", `error: joining servers: "server.4=d:1:2" names no client port; append ;clientPort`},
		{"server.4", "", `error: joining servers: "server.4" has no =; the form is server.N=spec`},
		{"server.four=d:1:2;1", "", `error: joining servers: "server.four=d:1:2;1": "four" is not a server id; an id is a whole number from 0, commonly 1 to 254`},
		{"", "two", `error: leaving servers: "two" is not a server id; an id is a whole number from 0, commonly 1 to 254`},
	} {
		after, err := before.Change(c.joining, c.leaving)
		var got string
		for _, s := range after.Servers {
			got += fmt.Sprintf(" %d=%s", s.ID, s.Addrs[0].Host)
		}
		got = strings.TrimSpace(got)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("joining %q leaving %q\ngot  %s\nwant %s", c.joining, c.leaving, got, c.want)
		}
		if err == nil && after.Version != 5 {
			t.Errorf("the version became %d", after.Version)
		}
	}
	if before.String() != text {
		t.Errorf("the membership before was changed to\n%s", before)
	}
}

func TestDynamicFilesReadBack(t *testing.T) {
	t.Parallel()
	cfg := filepath.Join(t.TempDir(), "zoo.cfg")
	m, err := ParseMembers("server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.10=c:1:2:observer\nversion=30000000a")
	if err != nil {
		t.Fatal(err)
	}
	active, next := DynamicPath(cfg, m.Version), NextDynamicPath(cfg)
	if filepath.Base(active) != "zoo.cfg.dynamic.30000000a" || filepath.Base(next) != "zoo.cfg.dynamic.next" {
		t.Errorf("names: %s, %s", active, next)
	}
	if _, err := LoadNextDynamic(cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a next file that isn't there: %v", err)
	}
	for path, withVersion := range map[string]bool{active: false, next: true} {
		if err := WriteDynamic(path, m, withVersion); err != nil {
			t.Fatal(err)
		}
	}
	checkFile(t, active, "server.10=c:1:2:observer\nserver.1=a:1:2:participant;0.0.0.0:2181\nserver.2=b:1:2:participant;0.0.0.0:2181")
	for name, load := range map[string]func() (Members, error){
		"active": func() (Members, error) { return LoadDynamic(active) },
		"next":   func() (Members, error) { return LoadNextDynamic(cfg) },
	} {
		if got, err := load(); err != nil || got.String() != m.String() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := LoadDynamic(next); err == nil {
		t.Error("a version inside an active file was taken")
	}
	if err := WriteDynamic(filepath.Join(cfg, "no", "such"), m, true); err == nil {
		t.Error("writing into a directory that isn't there succeeded")
	}
}

func checkFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", filepath.Base(path), got, err, want)
	}
}

func TestStaticFileIsPointedToTheDynamicOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	before := "# mine\r\ndataDir=/d\nserver.1=a:1:\\\n  2\n\nclientPort=2181\nclientPortAddress=h\nclientPortListenBacklog=5\n  peerType : observer\nsuperUser=x\ngroup.1=1\n"
	if err := os.WriteFile(cfg, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteStatic(cfg, filepath.Join(dir, `dyn.\1`), true); err != nil {
		t.Fatal(err)
	}
	pointer := "dynamicConfigFile=" + dir + `/dyn.\\1` + "\n"
	checkFile(t, cfg, "# mine\ndataDir=/d\n\nclientPortListenBacklog=5\nsuperUser=x\n"+pointer)
	checkFile(t, BackupPath(cfg), before)
	if err := WriteStatic(cfg, filepath.Join(dir, "dyn.2"), false); err != nil {
		t.Fatal(err)
	}
	checkFile(t, cfg, "# mine\ndataDir=/d\n\nclientPortListenBacklog=5\nsuperUser=x\ndynamicConfigFile="+dir+"/dyn.2\n")
	checkFile(t, BackupPath(cfg), before)
	for _, path := range []string{cfg, BackupPath(cfg)} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; it may hold secrets", path, st.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestPointerMovesWithItsFolder: where paths begin at the zoo.cfg, the dynamic file beside it is named so that the
// folder can be moved. The last relativePaths line counts, wherever it stands.
func TestPointerMovesWithItsFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ paths, pointer string }{
		{"relativePaths=file\n", "dyn.1"},
		{"relativePaths=workingDirectory\nrelativePaths=file\n", "dyn.1"},
		{"relativePaths=file\nrelativePaths=workingDirectory\n", "DIR/dyn.1"},
	} {
		dir := t.TempDir()
		cfg := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(cfg, []byte("dataDir=data\n"+c.paths), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := WriteStatic(cfg, filepath.Join(dir, "dyn.1"), false); err != nil {
			t.Fatal(err)
		}
		checkFile(t, cfg, "dataDir=data\n"+c.paths+"dynamicConfigFile="+strings.ReplaceAll(c.pointer, "DIR", dir)+"\n")
	}
}
