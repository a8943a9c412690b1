package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/zk"
)

// TestAliases holds the words that people type to commands that are there.
func TestAliases(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, c := range commands() {
		taken[strings.Fields(c.name)[0]] = true
	}
	for name, of := range aliases {
		if c, rest := find([]string{name, "x"}); c == nil || c.name != of || len(rest) != 1 || taken[name] {
			t.Errorf("%s should be another name of %s, and of nothing else: %v", name, of, c)
		}
	}
	for name, hint := range elsewhere {
		if c, _ := find([]string{name}); c != nil || aliases[name] != "" || hint == "" {
			t.Errorf("%s has a hint, and is a command or an alias", name)
		}
		if _, errs, code := once("", name); code != exitUnknown || !strings.Contains(errs, "hint: "+hint) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
	}
	for key, hint := range flagsElsewhere {
		words := strings.Fields(key)
		if c, _ := findNamed(words[:1]); c == nil || c.findFlag(words[1][1:]) != nil {
			t.Errorf("%s has a hint, and is no command or has that flag", key)
		}
		if _, errs, code := once("", append(words, "/")...); code != exitFailed || !strings.Contains(errs, "hint: "+hint) {
			t.Errorf("%s: exit code %d, %s", key, code, errs)
		}
	}
	for _, w := range access.Words() {
		c, rest := find([]string{w.Name})
		if len(w.Name) != 4 || w.About == "" || c == nil || c.name != "4lw" && c.name != w.Name ||
			c.name == "4lw" && rest[0] != w.Name {
			t.Errorf("%s: its row is incomplete, or it isn't found", w.Name)
		}
	}
}

// TestAliasesAreSafe types what removes too much elsewhere.
func TestAliasesAreSafe(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		plant(t, c, "/app=1", "/app/a=2", "/b=3")
		for line, want := range map[string]string{
			"rm":                "rm [-r] [-f] path",
			"rm /":              "/",
			"rm -r /":           "the root can't be deleted, so nothing was deleted",
			"rm -rf /":          "the root can't be deleted, so nothing was deleted",
			"rmr /":             "the root can't be deleted, so nothing was deleted",
			"rm -f /":           "/",
			"rm /app":           "Node not empty: /app",
			"rm -f /app":        "Node not empty: /app",
			"rm /none":          "Node does not exist: /none",
			"rm -r /none":       "Node does not exist: /none",
			"rm /app /none":     "Node not empty: /app",
			"rm /none app":      `invalid path "app"`,
			"ls /b /app":        `ls takes one path, and "/app" is one more`,
			"get /b /app":       `get takes one path, and "/app" is one more`,
			"rm -x /b":          "rm has the flags -r -f -o",
			"rm app":            `invalid path "app"`,
			"rm -r /app/":       `invalid path "/app/"`,
			"rm -r /app/*":      "Node does not exist: /app/*",
			"put /none x":       "Node does not exist: /none",
			"mkdir /app":        "Node already exists: /app",
			"touch /app":        "Node already exists: /app",
			"move /app /app/b":  "the target lies within the source",
			"copy /app /b":      "the target exists already",
			"get -a /app":       "-s also prints the stat",
			"cat /app --nosuch": "get has the flags",
		} {
			v.refuses(t, c, "/app", line, want)
		}
		for _, line := range []string{
			"rm -f /none", "rm -rf /none", "rm /b", "rm -rf /app", "touch /t", "put /t x", "mkdir /t/d",
			"touch /u", "touch /v", "rm /u /v", "touch /w", "rm -f /none /w",
		} {
			if out := v.run(t, line); v.s.exit != 0 {
				t.Errorf("%s: %s", line, out)
			}
		}
		if out := v.must(t, "cat", "/t"); out != "x\n" {
			t.Errorf("cat prints %q", out)
		}
		if got := v.must(t, "dir", "/"); got != "[t, zookeeper]\n" {
			t.Errorf("left is %s", got)
		}
	})
}

// TestFourLetterWords asks one server and several, of which not all answer.
func TestFourLetterWords(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	shy := startServer(t, func(o *server.Options) { o.FourLetterWords = []string{"srvr"} })[0]
	for _, at := range []string{address, shy} {
		open(t, at) // until then it may say that it doesn't serve yet
	}
	for _, k := range []struct {
		servers string
		words   []string
		code    int
		out     string
		err     string
	}{
		{address, []string{"ruok"}, 0, "imok\n", ""},
		{address, []string{"mntr"}, 0, "zk_server_state\tstandalone\n", ""},
		{address, []string{"4lw", "stat"}, 0, "Mode: standalone\n", ""},
		{address, []string{"stat", "/"}, 0, "cZxid = 0x0\n", ""},
		{address, []string{"ruok", shy}, exitFailed, "", "the server doesn't allow it"},
		{address, []string{"srvr", shy + "," + address}, 0, shy + "\nZookeeper version", ""},
		{address + "," + shy, []string{"ruok"}, exitFailed, address + "\nimok\n", "ruok: 1 of 2 servers gave no answer"},
		{address, []string{"wchc"}, 0, "", ""},
		{address + "," + address, []string{"wchp"}, 0, address + "\n" + address + "\n", ""},
		{"127.0.0.1:1", []string{"ruok"}, exitFailed, "", "connection refused"},
		{address, []string{"4lw", "nosu"}, exitFailed, "", `"nosu" isn't a four-letter word`},
		{address, []string{"4lw"}, exitFailed, "", "4lw word"},
		{address, []string{"ruok", "a,b:x"}, exitFailed, "", `port "x" is not a number`},
	} {
		out, errs, code := once("", append([]string{"-server", k.servers}, k.words...)...)
		if code != k.code || !strings.Contains(out, k.out) || k.code == 0 && k.out == "" && out != "" ||
			!strings.Contains(errs, k.err) {
			t.Errorf("%q at %s: exit code %d: %s%s", k.words, k.servers, code, out, errs)
		}
	}
	out, _, code := once("", "-server", address, "-o", "json", "mntr")
	var v wordJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || v.Values["zk_server_state"] != "standalone" {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// TestGuides reads what help has on words that are no commands.
func TestGuides(t *testing.T) {
	t.Parallel()
	for _, g := range guides() {
		out, _, code := once("", "help", g.name)
		if code != 0 || !strings.Contains(out, g.text) {
			t.Errorf("help %s: exit code %d: %s", g.name, code, out)
		}
		if c, _ := find([]string{g.name}); c != nil {
			t.Errorf("%s is a command: its help would hide this one", g.name)
		}
		for line := range strings.Lines(g.text) {
			if len([]rune(line)) > 100 {
				t.Errorf("help %s: a line is too long: %s", g.name, line)
			}
		}
	}
	if out, _, _ := once("", "help"); !strings.Contains(out, "help acl") {
		t.Errorf("help doesn't tell of the guides: %s", out)
	}
	if out, _, code := once("", "help", "mkdir"); code != 0 || !strings.Contains(out, "Also: mkdir, touch") {
		t.Errorf("help mkdir: exit code %d: %s", code, out)
	}
}

// TestReconfigWithoutRights names the path and the way to get them.
func TestReconfigWithoutRights(t *testing.T) {
	t.Parallel()
	f := describe(&zk.Error{Op: "reconfig", Server: "zk1:2181", Err: zk.ErrNoAuth})
	for _, part := range []string{"/zookeeper/config", "zooid digest super:PASSWORD", "addauth digest super:PASSWORD"} {
		if !strings.Contains(f.Hint, part) || !strings.HasPrefix(f.Error, "Insufficient permission") {
			t.Errorf("want %q in %+v", part, f)
		}
	}
}

// TestBinaryAtATerminal says that not all was shown.
func TestBinaryAtATerminal(t *testing.T) {
	t.Parallel()
	v := atScreen(t, startZooid(t))
	v.must(t, "create", "/text", "plain")
	v.must(t, "set", "-b", "/text", "AAECaGVsbG8=")
	if out := v.must(t, "cat", "/text"); !strings.Contains(out, "hello") ||
		!strings.Contains(out, "not all of the 8 bytes can be shown; -x dumps them") {
		t.Errorf("got %q", out)
	}
	v.must(t, "set", "/text", "plain")
	if out := v.must(t, "cat", "/text"); out != "plain\n" {
		t.Errorf("got %q", out)
	}
}
