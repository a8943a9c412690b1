package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/subtree"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{``, `[]`},
		{`  ls   /a	`, `["ls" "/a"]`},
		{`create /a "two words" 'and "three" more'`, `["create" "/a" "two words" "and \"three\" more"]`},
		{`set /a it's`, `["set" "/a" "it's"]`},
		{`set /a ""`, `["set" "/a" ""]`},
		{`a"b c"d`, `["a\"b" "c\"d"]`},
		{`"a"b`, `["a" "b"]`},
		{`set /a "b`, `error`},
		{`'`, `error`},
	} {
		words, err := split(c.line)
		got := fmt.Sprintf("%q", words)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("split(%q) = %s, want %s", c.line, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"get /a", `["/a"] map[]`},
		{"get -s -w /a", `["/a"] map[s: w:]`},
		{"get /a -sw", `["/a"] map[s: w:]`},
		{"set -v2 /a x", `["/a" "x"] map[v:2]`},
		{"set --v=2 /a x", `["/a" "x"] map[v:2]`},
		{"set -sv 2 /a x", `["/a" "x"] map[s: v:2]`},
		{"set /a -1.5", `["/a" "-1.5"] map[]`},
		{"set /a -", `["/a" "-"] map[]`},
		{"set -- /a -v", `["/a" "-v"] map[]`},
		{"txn -f x create -e /a ; set -v 1 /b c", `["create" "-e" "/a" ";" "set" "-v" "1" "/b" "c"] map[f:x]`},
		{"acl explain -o json /a", `["/a"] map[o:json]`},
		{"set /a x -v", "set: the flag -v needs a value"},
		{"get -z /a", "get has no flag -z"},
		{"get -sz /a", "get has no flag -sz"},
		{"get -s=x /a", "get: the flag -s takes no value"},
		{"getAcl /a /b", `getAcl takes at most 1 arguments, and "/b" is one more`},
		{"sync", "sync path"},
	} {
		words, err := split(c.line)
		if err != nil {
			t.Fatal(err)
		}
		command, rest := find(words)
		if command == nil {
			t.Fatalf("%s: no such command", c.line)
		}
		a, err := command.parse(rest, nil)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%q %v", a.words, a.flags)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

// TestTable holds the rows to what the rest of the package relies on.
func TestTable(t *testing.T) {
	t.Parallel()
	for i, part := range [][]command{zkCliCommands(), ownCommands()} {
		if !slices.IsSortedFunc(part, func(a, b command) int { return strings.Compare(a.name, b.name) }) {
			t.Errorf("part %d of the table is not sorted by name", i)
		}
	}
	seen := map[string]bool{}
	for _, c := range commands() {
		if seen[c.name] {
			t.Errorf("%s stands twice in the table", c.name)
		}
		seen[c.name] = true
		if c.run == nil || c.about == "" || c.max >= 0 && c.min > c.max {
			t.Errorf("%s: its row is incomplete", c.name)
		}
		if found, rest := find(strings.Fields(c.name)); found == nil || found.name != c.name || len(rest) != 0 {
			t.Errorf("%s isn't found by its name", c.name)
		}
		for _, f := range c.flags {
			if f.about == "" || f.name == outputFlag.name {
				t.Errorf("%s -%s: no description, or a name all commands share", c.name, f.name)
			}
			if !strings.Contains(c.usage, "-"+f.name) && f.name != "dry-run" {
				t.Errorf("%s -%s is missing in its usage %q", c.name, f.name, c.usage)
			}
		}
	}
}

// TestParseACL tells the reason and the place of what is wrong; nothing is sent.
func TestParseACL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"world:anyone:r":                                      "",
		"world:anyone:":                                       "",
		"auth::cdrwa,ip:10.0.0.0/8:r,ip:::1:w":                "",
		"digest:u:hash=:cdrwa,sasl:bob@REALM:r":               "",
		"x509:CN=a,OU=b:r,world:anyone:r,x509:CN=c,O=d, e:cd": "",
		"x509:CN=a,OU=b":                                      `ACL "x509:CN=a,OU=b", byte 0: x509:CN=a,OU=b does not have the form scheme:id:perm`,
		"x509:CN=a:r":                                         "",
		"":                                                    `ACL "", byte 0:  does not have the form scheme:id:perm`,
		"nonsense":                                            `ACL "nonsense", byte 0: nonsense does not have the form scheme:id:perm`,
		"world:anyone:r,ip:w":                                 `ACL "world:anyone:r,ip:w", byte 15: ip:w does not have the form scheme:id:perm`,
		"world:anyone:r,":                                     `ACL "world:anyone:r,", byte 15:  does not have the form scheme:id:perm`,
		"world:anyone:rx":                                     `ACL "world:anyone:rx", byte 14: Unknown perm type: x`,
		"auth::r,world:everybody:r":                           `ACL "auth::r,world:everybody:r", byte 14: the only id of the scheme world is anyone`,
		"ip:10.0.0:r":                                         `ACL "ip:10.0.0:r", byte 3: 10.0.0 is neither an address nor a network such as 10.0.0.0/8`,
		"digest:u:r":                                          `ACL "digest:u:r", byte 7: a digest is user:hash; auth::perms, after addauth, saves working out the hash`,
		"::r":                                                 `ACL "::r", byte 0: there is no scheme before the colon`,
	} {
		list, err := subtree.ParseACL(text)
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if err == nil && subtree.ACLText(list) != text {
			t.Errorf("%q was read as %s", text, subtree.ACLText(list))
		}
	}
}

// TestLessons holds what help teaches to what the commands take.
func TestLessons(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, topic := range topics() {
		for _, name := range topic.names {
			seen[name]++
		}
	}
	for _, c := range commands() {
		if seen[c.name] != 1 {
			t.Errorf("%s stands in %d topics, want one", c.name, seen[c.name])
		}
		delete(seen, c.name)
	}
	for name := range seen {
		t.Errorf("a topic names %s, which is no command", name)
	}
	for name, l := range lessons() {
		if c, rest := find(strings.Fields(name)); c == nil || len(rest) > 0 {
			t.Errorf("there is a lesson on %s, which is no command", name)
		}
		for _, line := range l.examples {
			words, err := split(line)
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			c, rest := find(words)
			if c == nil || c.name != name {
				t.Errorf("%s: an example for %s", line, name)
				continue
			}
			a, err := c.parse(rest, nil)
			if err == nil && name == "txn" {
				_, err = new(shell).txnParts(t.Context(), a)
			}
			if err != nil && !strings.Contains(line, "-f ") {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"lss": "ls", "getacl": "getAcl", "creat": "create", "delteall": "deleteall", "zzzzzz": "", "mirrow": "mirror",
		strings.Repeat("x", lineMax): "",
	} {
		if got := strings.Join(nearest(name), " "); got != want && !strings.HasPrefix(got, want+" ") {
			t.Errorf("%.40s: got %q, want %q", name, got, want)
		}
	}
}

func TestQuotaText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want quota
	}{
		{"count=5,bytes=-1", quota{5, -1, -1, -1}},
		{"count=5,bytes=7=;byteHardLimit=9;countHardLimit=8", quota{5, 7, 8, 9}},
		{"nonsense", noQuota},
		{"", noQuota},
	} {
		got := parseQuota(c.text)
		if got != c.want {
			t.Errorf("parseQuota(%q) = %v, want %v", c.text, got, c.want)
		}
		if again := parseQuota(got.String()); again != got {
			t.Errorf("%v was read back as %v", got, again)
		}
	}
}

func TestClientServers(t *testing.T) {
	t.Parallel()
	config := "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:observer;b:2182\nserver.3=c:1:2\nversion=100000000"
	if got, want := clientServers(config), "100000000 0.0.0.0:2181,b:2182"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSizeText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB",
	} {
		if got := sizeText(n, false); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// TestSessionsOfEnsemble reads what servers of an ensemble say about a session.
func TestSessionsOfEnsemble(t *testing.T) {
	t.Parallel()
	sessions := map[string]*sessionJSON{}
	addConnections(sessions, "zk1:2181", " /10.0.0.7:51530[1](queued=2,recved=7,sent=7,sid=0x10,lop=PING,est=1,to=30000,lzxid=0x1,lresp=1,llat=0,minlat=0,avglat=0,maxlat=3)\n /10.0.0.7:51531[0](queued=0,recved=1,sent=0)\n\n")
	dump := "SessionTracker dump:\nGlobal Sessions(1):\n0x10\t30000ms\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x10:\n\t/e2\n\t/e1\nConnections dump:\nConnections Sets (1)/(2):\n0x10 is no owner\n\t/nothing\n"
	addEphemerals(sessions, dump)
	addEphemerals(sessions, dump)
	got := fmt.Sprintf("%d %+v", len(sessions), *sessions["0x10"])
	want := "1 {ID:0x10 Server:zk1:2181 Client:10.0.0.7:51530 TimeoutMs:30000 Queued:2 Received:7 LastOp:PING You:false Ephemerals:[/e1 /e2]}"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
