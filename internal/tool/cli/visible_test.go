package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/zk"
)

// evil is what nobody wants on a terminal: it steers it, and deceives who reads.
const evil = "\x1b[31mEVIL\x1b[2J\x1b]0;title\x07\u009b2Jx\r\b\x7f\u202egnp\u2066\u200f\u2028\ufeff"

// evilName is as much of it as a path may hold.
const evilName = "EVIL\u202egnp\u2066\u200f\u2028x"

// tame returns what a terminal would get of text beside the shell's own codes, and
// complains about everything that steers it.
func tame(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, "\x1b[31mEVIL") {
		t.Errorf("%s: a colour of somebody else: %q", what, text)
	}
	own := strings.NewReplacer("\r\x1b[K", "", terminal.Cleared, "", screen.ColourEnd, "", screen.Red.Begin(),
		"", screen.Green.Begin(), "", screen.Yellow.Begin(), "", screen.Blue.Begin(), "", screen.Magenta.Begin(), "")
	rest := own.Replace(text)
	if at := strings.IndexFunc(rest, func(r rune) bool { return terminal.Steers(r) && r != '\n' && r != '\t' }); at >= 0 {
		t.Errorf("%s: printed %q, at byte %d", what, rest, at)
	}
}

// atScreen returns a session whose output is that for a terminal with colours.
func atScreen(t *testing.T, address string) *session {
	v := newSession(t, address)
	o := v.s.out
	o.Terminal, o.ErrTerm, o.Colours, o.Period = true, true, true, 0
	return v
}

// evilServer answers four-letter words with what must not be printed as it is.
func evilServer(t *testing.T) string {
	return freeport.Serve(t, func(c net.Conn) {
		word := make([]byte, 4)
		_, _ = io.ReadFull(c, word)
		switch string(word) {
		case "cons":
			fmt.Fprintf(c, " /10.0.0.7:51530%s[1](queued=2,sid=0x10%s,lop=%s,to=30000)\n", evil, evil, evil)
		case "dump":
			fmt.Fprintf(c, "Sessions with Ephemerals (1):\n0x10%s:\n\t/%s\n", evil, evil)
		default:
			fmt.Fprintf(c, "Mode: %s\nZxid: %s\nLatency min/avg/max: %s\n", evil, evil, evil)
		}
	})
}

// TestNothingSteersTheTerminal has every command print hostile names, data, ACLs,
// answers and arguments.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), atScreen(t, address)
	acl := append(zk.WorldACL(zk.PermAll), zk.ACL{Perms: zk.PermRead, ID: zk.ID{Scheme: "digest", ID: evil + ":hash"}})
	root := "/" + evilName
	for _, path := range []string{root, root + "/" + evilName} {
		if _, err := c.Create(t.Context(), path, []byte("y"+evil+"\ny"), zk.ModePersistent, acl); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Create(t.Context(), root+"/ephemeral"+evilName, nil, zk.ModeEphemeral, acl); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), evilName+".json")
	for _, form := range []string{"text", "json"} {
		for _, words := range [][]string{
			{"get", root}, {"get", "-s", "-w", root}, {"get", "-x", root}, {"ls", root}, {"ls", "-R", "/"}, {"tree"}, {"find"},
			{"find", "-path", "EVIL"}, {"grep", "y", "/"}, {"grep", "-c", "y", "/"},
			{"du"}, {"getAcl", root}, {"acl", "explain", root}, {"export", root}, {"export", "-format", "yaml", root},
			{"export", "-format", "tar", root}, {"export", root, file},
			{"import", "-dry-run", file, root + "2"}, {"import", file, root + "2"}, {"diff", "-noacl", root, root + "2"},
			{"cp", root, root + "3"}, {"mirror", "-dry-run", root, root + "4"},
			{"mv", root + "3", root + "5"}, {"setquota", "-n", "1", root}, {"listquota", root}, {"create", root + "/c", evil},
			{"create", "-e", root + "/e"}, {"getEphemerals"}, {"set", root, evil},
			{"txn", "set", root, "x", ";", "delete", root + "/c"}, {"deleteall", "-dry-run", root},
			{"watch", "-n", "1", "-t", "10ms", root}, {"setAcl", root, "sasl:" + evil + ":r"},
			{"deleteall", root + "2"}, {"deleteall", root + "5"}, {"whoami"}, {"session", "list", "-e"}, {"top", "-n", "1"},
			{"delete", root + "/e"}, {"delquota", root}, {"history"}, {evil}, {"redo", evil},
		} {
			v.out.Reset()
			v.s.execute(t.Context(), append(words, map[string][]string{"json": {"-o", "json"}}[form]...))
			tame(t, fmt.Sprintf("%q", words), v.out.String())
		}
	}
	for _, command := range commands() {
		name := strings.Fields(command.name)
		if command.name == "export" || command.name == "connect" || command.name == "close" || command.name == "quit" ||
			command.name == "exit" {
			continue
		}
		for _, rest := range [][]string{
			{evil}, {"/" + evil}, {"/" + evilName}, {"/", evil}, {"/", "/" + evil, evil}, {"-" + evil}, {"-v", evil, "/"},
			{"-t", evil, "/"}, {"127.0.0.1:1" + evil, "/x"}, {},
		} {
			if command.name == "watch" || strings.HasSuffix(command.name, "top") {
				rest = append([]string{"-n", "1"}, rest...)
			}
			if command.name == "watch" {
				rest = append([]string{"-t", "10ms"}, rest...)
			}
			v.out.Reset()
			v.s.execute(t.Context(), append(name, rest...))
			tame(t, fmt.Sprintf("%s %q", command.name, rest), v.out.String())
		}
	}
	v.s.host = evilServer(t)
	for _, words := range [][]string{{"session", "list", "-e"}, {"top", "-n", "1"}, {"top", "-n", "2", "-i", "1ms"}} {
		v.out.Reset()
		v.s.execute(t.Context(), words)
		tame(t, fmt.Sprintf("%q of a hostile server", words), v.out.String())
		if !strings.Contains(v.out.String(), "EVIL") {
			t.Errorf("%q printed nothing of the hostile server: %q", words, v.out.String())
		}
	}
	_, offered, _ := v.s.complete(t.Context(), "get /", len("get /"))
	tame(t, "completion", strings.Join(offered, " "))
}

// TestOnePlaceToPrint holds the shell to output's functions: whatever else wrote to
// its streams could be forgotten when text is made visible.
func TestOnePlaceToPrint(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "output.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			source := string(text[call.Pos()-1 : call.End()-1])
			if strings.HasPrefix(source, "fmt.Print") ||
				strings.HasPrefix(source, "fmt.Fprint") &&
					(strings.Contains(source, "out.errs,") || strings.Contains(source, "o.errs,") ||
						strings.Contains(source, "out.w,") ||
						strings.Contains(source, "io.Err,")) {
				t.Errorf("%v: %s: print by output's printf, errf or messagef", set.Position(call.Pos()), source)
			}
			return true
		})
	}
}

// TestTopClearsTerminal holds top to its own code, which a terminal must get unchanged.
func TestTopClearsTerminal(t *testing.T) {
	v := atScreen(t, startZooid(t))
	if out := v.run(t, "top -n 2 -i 1ms"); strings.Count(out, terminal.Cleared) != 2 {
		t.Errorf("top printed %q, want the screen cleared before each of two rounds", out)
	}
}
