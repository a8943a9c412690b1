package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// once runs the program with arguments and returns what it printed and its exit
// code; input is its standard input.
func once(input string, arguments ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	code = Main("cli", arguments, Streams{In: strings.NewReader(input), Out: &o, Err: &e}, "TEST")
	return o.String(), e.String(), code
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	at := []string{"-server", startZooid(t), "-timeout", "10000"}
	for _, c := range []struct {
		arguments []string
		input     string
		code      int
		out, err  string // parts of what is printed
	}{
		{[]string{"-h"}, "", 0, "usage: zooid cli", ""},
		{[]string{"-nosuch"}, "", exitUsage, "", "there is no flag -nosuch"},
		{[]string{"-server"}, "", exitUsage, "", "the flag -server needs a value"},
		{[]string{"-timeout", "soon"}, "", exitUsage, "", `-timeout: "soon"`},
		{[]string{"-timeout", "3000000000"}, "", exitUsage, "", `-timeout: "3000000000"`},
		{[]string{"-o", "xml"}, "", exitUsage, "", `-o: "xml"`},
		{[]string{"-r=yes"}, "", exitUsage, "", "the flag -r takes no value"},
		{[]string{"-server", "zk1,zk2:x"}, "", exitUsage, "", `connect string "zk1,zk2:x", byte 4: port`},
		{[]string{"-server", "zk1/a//b"}, "", exitUsage, "", `connect string "zk1/a//b", byte 6: chroot: empty`},
		{append(at, "ls", "/"), "", 0, "[zookeeper]", ""},
		{append(at, "ls", "/none"), "", exitFailed, "", "Node does not exist: /none"},
		{append(at, "ls"), "", exitFailed, "", "ls [-s] [-w] [-R] path"},
		{append(at, "nosuch"), "", exitUnknown, "", "Command not found: Command not found nosuch"},
		{append(at, "limits"), "", exitUnknown, "", "limits alone isn't a command"},
		{append(at, "find", "-name", "none"), "", exitDiffers, "", ""},
		{append(at, "-r", "-waitforconnection", "diff", "/zookeeper/quota", "/zookeeper/config"), "", exitDiffers, "! /", ""},
		{append(at, "-o", "json", "ls", "/none"), "", exitFailed, "", `{"error":"Node does not exist: /none","code":"NoNode","path":"/none","hint":"ls / shows what there is","exit":1}`},
		{append(at, "-o", "json", "whoami"), "", 0, `{"identities":[{"scheme":"ip","user":"127.0.0.1"}]}`, ""},
		{[]string{"-server", "127.0.0.1:1", "-timeout", "300", "ls", "/"}, "", exitNotConnected,
			"", "no connection to 127.0.0.1:1"},
		{[]string{"-server", "127.0.0.1:1", "-timeout", "300", "-waitforconnection"}, "ls /", exitNotConnected,
			"", "no connection to 127.0.0.1:1"},
		{[]string{"-server", "127.0.0.1:1", "version"}, "", 0, "TEST", ""},
		{[]string{"-server", "//", "ls", "/"}, "", exitUsage, "", "connect string"},
		{append(at, "cp", "zk1,zk2:x/a", "/b"), "", exitFailed, "", `connect string "zk1,zk2:x", byte 4: port`},
		{append(at, "connect", "zk1:0"), "", exitFailed, "", `connect string "zk1:0", byte 0: port "0"`},
		// refused without a server
		{[]string{"-server", "127.0.0.1:1", "ls", "relative"}, "", exitFailed,
			"", `ls relative: invalid path "relative" at byte 0`},
		{[]string{"-server", "127.0.0.1:1", "set", "/a//b", "x"}, "", exitFailed,
			"", `set /a//b: invalid path "/a//b" at byte 3`},
		{[]string{"-server", "127.0.0.1:1", "grep", "x", "/a/"}, "", exitFailed,
			"", `grep /a/: invalid path "/a/" at byte 2`},
		{[]string{"-server", "127.0.0.1:1", "cp", "/a", "zk1/b/"}, "", exitFailed,
			"", `cp /b/: invalid path "/b/" at byte 2`},
		{[]string{"-server", "127.0.0.1:1", "create", "/a", "x", "world:anyone:q"}, "", exitFailed,
			"", `ACL "world:anyone:q", byte 13: Unknown perm type: q`},
		{[]string{"-server", "127.0.0.1:1", "setAcl", "/a", "ip:x:r"}, "", exitFailed,
			"", `ACL "ip:x:r", byte 3: x is neither`},
		{[]string{"-server", "127.0.0.1:1", "-timeout", "300", "create", "-s", "/a/"}, "", exitNotConnected,
			"", "no connection"},
		// scripts
		{at, "# nothing\n\n", 0, "", ""},
		{append([]string{"-k"}, at...), "ls /none\nls /\n", exitFailed, "[zookeeper]", "Node does not exist"},
		{at, "ls /none\nversion\n", exitFailed, "", "Node does not exist"},
		{at, "ls /\nls /none\n", exitFailed, "[zookeeper]", "Node does not exist"},
		{at, "ls /none\nquit\nls /\n", exitFailed, "", "Node does not exist"},
		{at, "create /x ~\nget /x\ndelete /x", 0, "~", "Created /x"},
		{at, strings.Repeat("x", lineMax+1), exitFailed, "", "reading commands"},
	} {
		out, errs, code := once(c.input, c.arguments...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) {
			t.Errorf("%.80q with %.40q: code %d, want %d; printed %q and %q, want %q and %q", c.arguments, c.input, code, c.code,
				out, errs, c.out, c.err)
		}
	}
}

// TestSessionListRefused: where no server tells its sessions, no table begins.
func TestSessionListRefused(t *testing.T) {
	t.Parallel()
	addr := startServer(t, func(o *server.Options) { o.FourLetterWords = []string{"srvr"} })[0]
	out, errs, code := once("", "-server", addr, "session", "list")
	if code != exitFailed || out != "" || !strings.Contains(errs, "4lw.commands.whitelist") {
		t.Errorf("exit %d, printed %q and %q", code, out, errs)
	}
}

// TestChroot looks at a part of the tree.
func TestChroot(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	for _, c := range [][]string{{"create", "/app"}, {"create", "/app/zookeeper", "x"}, {"create", "/app/a", "1"}} {
		if _, errs, code := once("", append([]string{"-server", address}, c...)...); code != 0 {
			t.Fatal(errs)
		}
	}
	for command, want := range map[string]string{"ls -R /": "/\n/a\n/zookeeper\n", "get /a": "1"} {
		if out, _, _ := once("", append([]string{"-server", address + "/app"}, strings.Fields(command)...)...); out != want {
			t.Errorf("%s: got %q, want %q", command, out, want)
		}
	}
	file := filepath.Join(t.TempDir(), "app.json")
	if out, errs, _ := once("", "-server", address+"/app", "export", "/", file); out != "exported 3 znodes to "+file+"\n" {
		t.Errorf("export: got %q and %q: a znode that is called zookeeper there is one like others", out, errs)
	}
	if _, errs, code := once("", "-server", address+"/app", "setquota", "-n", "5", "/a"); code != exitFailed ||
		!strings.Contains(errs, "outside of the chroot /app") {
		t.Errorf("setquota: code %d, %q", code, errs)
	}
}

// TestJSONEverywhere runs every command that needs no more than a path with -o
// json and reads each line back.
func TestJSONEverywhere(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	for _, line := range []string{
		"create /j x", "create -e /j/e x", "set /j y", "get /j", "get -w /j", "ls /j", "ls -R /j", "stat /j", "getAcl /j",
		"setAcl /j world:anyone:cdrwa", "sync /j",
		"getAllChildrenNumber /j",
		"getEphemerals", "whoami", "version", "history", "config", "printwatches", "help", "help get", "setquota -n 9 /j",
		"listquota /j",
		"acl explain /j", "tree /j", "find /j", "grep y /j", "du /j", "cp /j /k", "mv /k /l", "mirror -dry-run /j /m",
		"export /j", "session list", "top", "txn check /j",
		"deleteall -dry-run /j", "delete /j/e", "deleteall /j", "diff /l /l",
	} {
		words, _ := split(line)
		out := v.run(t, line+" -o json")
		if c, _ := find(words); c.raw {
			out = v.run(t, c.name+" -o json "+strings.TrimPrefix(line, c.name))
		}
		out, _, _ = strings.Cut(out, "\nWATCHER")
		if v.s.exit != 0 {
			t.Errorf("%s: %s", line, out)
		}
		d := json.NewDecoder(strings.NewReader(out))
		for {
			var value any
			if err := d.Decode(&value); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%s: %v in %q", line, err, out)
				break
			}
		}
	}
}

// TestWatchLive follows changes made by another client.
func TestWatchLive(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := open(t, address)
	if _, err := c.Create(t.Context(), "/w", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		w.CloseWithError(fmt.Errorf("exit code %d",
			Main("cli", []string{"-server", address, "-o", "json", "watch", "-r", "-d", "-n", "3", "-t", "1m", "/w"},
				Streams{Out: w, Err: io.Discard}, "TEST")))
	}()
	// The watch is there when changes reach it: they are made until it ends.
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := c.Set(ctx, "/w", fmt.Appendf(nil, "%d", i), zk.AnyVersion); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	text, err := io.ReadAll(r)
	cancel()
	<-changes
	if err == nil || err.Error() != "exit code 0" {
		t.Errorf("it ended with %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 3 {
		t.Fatalf("want 3 events, got %q", lines)
	}
	for _, line := range lines {
		var e liveJSON
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event != "NodeDataChanged" || e.Path != "/w" ||
			e.Text == nil {
			t.Errorf("event %s: %v", line, err)
		}
	}
}

// TestInterrupt ends commands that would run for ever.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.s.execute(ctx, []string{"ls", "-R", "/"})
	if v.s.exit != exitInterrupted {
		t.Errorf("ls: exit code %d; printed %q", v.s.exit, v.out.String())
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	for _, path := range []string{"/app", "/app/one", "/app/other", "/app/two words"} {
		v.must(t, "create", path)
	}
	for _, c := range []struct{ before, after, head, words string }{
		{"getA", "", "", `["getAcl " "getAllChildrenNumber "]`},
		{"acl ", "", "acl ", `["explain "]`},
		{"sta", "", "", `["stat "]`},
		{"stat t", "", "stat ", `["top "]`},
		{"help mi", "", "help ", `["mirror "]`},
		{"get -", "", "get ", `["-b " "-s " "-w " "-x " "-o "]`},
		{"get /a", " -s", "get ", `["/app"]`},
		{"get /app", "", "get ", `["/app/one" "/app/other" "\"/app/two words"]`},
		{"get /app/one", "", "get ", `["/app/one"]`},
		{"mkd", "", "", `["mkdir "]`},
		{"mnt", "", "", `["mntr "]`},
		{"c", "", "", `["close " "config " "connect " "cp " "create "]`},
		{"cat /app/on", "", "cat ", `["/app/one"]`},
		{"cat -", "", "cat ", `["-b " "-s " "-w " "-x " "-o "]`},
		{"help a", "", "help ", `["acl " "addWatch " "addauth "]`},
		{"get /app/o", "", "get ", `["/app/one" "/app/other"]`},
		{"get -s /app/", "", "get -s ", `["/app/one" "/app/other" "\"/app/two words"]`},
		{`get "/app/two w`, "", `get "`, `["/app/two words"]`},
		{`get 'a b' "/app/two w`, "", `get 'a b' "`, `["/app/two words"]`},
		{`get -s '/app/t`, "'", `get -s '`, `["/app/two words"]`},
		{`get "/app/on`, "", `get "`, `["/app/one"]`},
		{"get /none/", "", "get ", `[]`},
		{"nosuch x", "", "nosuch ", `[]`},
	} {
		head, words, tail := v.s.complete(t.Context(), c.before+c.after, len([]rune(c.before)))
		if got := fmt.Sprintf("%q", slices.Clip(words)); head != c.head || got != c.words || tail != c.after {
			t.Errorf("%q: %q %s %q, want %q %s %q", c.before, head, got, tail, c.head, c.words, c.after)
		}
	}
}

// TestHistoryFile keeps lines between runs, and no secrets.
func TestHistoryFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	for _, line := range []string{
		"ls /", "addauth digest u:p", " get /a", "", "get /a", "\u00a0get /b", `"addauth" digest u:p`,
		`'addauth' "digest" u:p`, "AddAuth x u:p", "ADDAUTH x u:p", "adauth x u:p", "addaut x u:p",
		"ad x u:p", "connect -auth digest:u:p", "set /app/password p", "set /app/PASSWD p", "create /a x digest:u:hash=:r",
		`addauth "digest`, "'addauth digest u:p", "help\taddauth",
		"zooid cli -sasl u:p", "create /x/dbSecret 1",
	} {
		if err := keepHistory(file, line); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := readHistory(file); string(text) != "ls /\nget /a\n" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", st.Mode(), err)
	}
	if err := keepHistory("", "ls /"); err != nil {
		t.Error(err)
	}
	if err := keepHistory(filepath.Join(file, "x"), "ls /"); err == nil {
		t.Error("a file that can't be written is no error")
	}
	if err := os.WriteFile(file, bytes.Repeat([]byte("get /a/long/path\n"), historyBytesMax/16), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		text, err := readHistory(file)
		if err != nil || len(text) > historyBytesMax/2 || !bytes.HasPrefix(text, []byte("get /a/long/path\n")) {
			t.Errorf("a large file: %d bytes, %v", len(text), err)
		}
	}
}

// TestTerminalIsSafe shows that no znode's content can steer a terminal.
func TestTerminalIsSafe(t *testing.T) {
	t.Parallel()
	o := screen.New(io.Discard, io.Discard)
	hostile := []byte("a\x1b[2Jb\x07c\u009bd\te\nf")
	if got := o.Printable(hostile); got != string(hostile) {
		t.Errorf("not on a terminal: %q", got)
	}
	o.Terminal = true
	if got, want := o.Printable(hostile), "a\ufffd[2Jb\ufffdc\ufffdd\te\nf"; got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
}

// TestImportRefusesNonsense reads files that export didn't write.
func TestImportRefusesNonsense(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	head := `{"format":"zooid-export-1","root":"/x","znodes":[`
	for name, text := range map[string]string{
		"empty.json": "", "list.json": "[]", "other.json": `{"format":"other","root":"/","znodes":[]}`,
		"key.json": `{"what":1}`,
		"cut.json": head + `{"path":"/"}`, "cut2.json": head + `{"path":`,
		"both.json":   head + `{"path":"/","data":"","base64":""}]}`,
		"base64.json": head + `{"path":"/","base64":"!"}]}`, "acl.json": head + `{"path":"/","acl":["x"]}]}`,
		"path.json":   head + `{"path":"a"}]}`,
		"orphan.json": head + `{"path":"/a/b"}]}`, "empty.yaml": "",
		"key.yaml":  "format: zooid-export-1\nroot: /x\n---\nwhat: 1\n",
		"empty.tar": "", "text.tar": strings.Repeat("x", 2000), "text.json.gz": "x",
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, flags := range []string{"", "-unchecked "} {
			if out := v.run(t, "import "+flags+file); v.s.exit != exitFailed {
				t.Errorf("%s%s: exit code %d: %s", flags, name, v.s.exit, out)
			}
		}
	}
	if out := v.must(t, "ls", "/"); out != "[zookeeper]\n" {
		t.Errorf("left behind: %s", out)
	}
}
