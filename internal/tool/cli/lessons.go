package cli

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/access"
)

// A topic is a section of help's list of commands, which are grouped by purpose.
type topic struct {
	title string
	names []string
}

// topics returns the topics, which hold every command once.
func topics() []topic {
	return []topic{
		{"Look", []string{"ls", "get", "stat", "tree", "find", "grep", "du", "getAllChildrenNumber", "getEphemerals"}},
		{"Change", []string{"create", "set", "delete", "deleteall", "rm", "txn", "sync"}},
		{"Copy and compare", []string{"cp", "mv", "mirror", "diff", "export", "import"}},
		{"Watch", []string{"watch", "addWatch", "removewatches", "printwatches"}},
		{"Permissions",
			[]string{
				"getAcl", "setAcl", "acl explain", "policy get", "policy set", "policy check", "policy explain",
				"addauth", "whoami",
			}},
		{"Quotas and limits",
			[]string{"setquota", "listquota", "delquota", "limits set", "limits get", "limits list", "limits delete"}},
		{"Servers", []string{"top", "stat top", "4lw", "session list", "config", "reconfig"}},
		{"This shell", []string{"help", "history", "redo", "connect", "close", "version", "quit", "exit"}},
	}
}

// A lesson is help's text about a command, without its flags.
type lesson struct {
	text     string
	examples []string
}

const placesText = `A place is a path in this ensemble, or host:port,…/path in another, which is reached
with the flags that this shell was started with.`

// A guide is help's text about a word that is not a command.
type guide struct{ name, about, text string }

// guides returns the guides, which help lists after the commands.
func guides() []guide {
	return []guide{
		{"acl", "permissions: how an ACL is written, and who may do what", `An ACL is a list of entries scheme:id:permissions, separated by commas. The permissions
are
  c  create children
  d  delete children (so the ACL of its parent decides who may delete a znode)
  r  read data and list children
  w  write data
  a  set the ACL
and the schemes of all servers are
  world:anyone         everybody
  auth:                the identities of this session, as the server knows them
  digest:USER:HASH     whoever knows the password; zooid digest USER:PASSWORD prints the hash
  ip:ADDRESS[/BITS]    clients at an address, or in a network
  x509:SUBJECT         the holder of a certificate of that subject (TLS)
  sasl:USER            whoever has logged in as that user
No entry forbids anything: one entry that matches is enough. A new znode gets the ACL
given to create, or world:anyone:cdrwa; it inherits none.

Examples:
  getAcl /app
  acl explain /app
  whoami
  addauth digest alice:secret
  setAcl /app auth::cdrwa,world:anyone:r
  create /app/secret x digest:alice:9kP5rAWWRQWcNLSo4tDl1ZPFdkg=:cdrwa
`},
		{"values", "data from files and standard input", `The data of create and set is the argument itself, or
  -        standard input, if zooid cli runs only this command
  @FILE    the content of a file
byte by byte: echo adds a line end, printf doesn't. To use - or a text that begins with @
as data, write it after --, or in quotes where this shell reads the line.

Examples:
  zooid cli set /app/config - < config.json
  create /app/logo @logo.png
  set -- /app/handle @alice
  set /app/handle "@alice"
`},
		{"words", "the four-letter words of servers", `The word is sent to each server of the connect string, without a session. A server answers
the words in its 4lw.commands.whitelist (only srvr if that isn't set).

` + wordTable()},
	}
}

// wordTable returns a table of the four-letter words.
func wordTable() string {
	var b strings.Builder
	for _, w := range access.Words() {
		fmt.Fprintf(&b, "  %s  %s\n", w.Name, w.About)
	}
	return b.String()
}

// lessons returns the lessons, by name of the command. Not every command needs one.
func lessons() map[string]lesson {
	return map[string]lesson{
		"4lw": {"Asks every server of the connect string, or the named ones. help words lists the words.", []string{"mntr", "4lw ruok", "4lw stat zk2:2181", "mntr -o json"}},
		"acl explain": {
			"Explains each entry of the ACL, and what you may do by the ACL and the policy. Your\nidentities are those that whoami prints.",
			[]string{"acl explain /app"},
		},
		"addWatch": {
			"Events are printed between commands, even while you type. watch is more readable.", []string{"addWatch /app", "addWatch -m PERSISTENT /app/config"},
		},
		"addauth": {
			"The identity applies until the session ends. The history doesn't keep it. bearer @FILE\nreads a token from a file.",
			[]string{"addauth digest alice:secret", "addauth bearer @/run/token"},
		},
		"connect": {"The old session ends, with its watches and ephemeral znodes.", []string{"connect", "connect zk1:2181,zk2:2181/app"}},
		"cp":      {placesText + " Missing parents are\ncreated; ephemeral znodes aren't copied.", []string{"cp /app /app-copy", "cp /app zk9:2181/app"}},
		"create": {"Data with blanks needs quotes; - is standard input, @FILE a file (help values). An ACL is\nscheme:id:permissions,… (help acl). Parents that -p creates are open to everybody;\nwithout -p, the parents must exist.",
			[]string{
				"create /app", "create -p /app/config/db x", `create /app/greeting "hello world"`, "create -s -e /app/worker-", "create /app/secret x digest:alice:9kP5rAWWRQWcNLSo4tDl1ZPFdkg=:cdrwa", "create -t 60000 /app/lease x",
			}},
		"deleteall": {
			"Deletes from the bottom up, many znodes per transaction. Znodes that were deleted before\na failure stay deleted.",
			[]string{"deleteall -dry-run /app", "deleteall /app"},
		},
		"diff": {placesText + "\n- marks znodes only in the first, + only in the second, ! in both but different.", []string{"diff /app /app-copy", "diff -noacl /app zk9:2181/app"}},
		"du":   {"Prints the bytes of data, the number of znodes and the path of each subtree.", []string{"du -s /", "du -h -n 10 /"}},
		"export": {
			"Without a file, it writes to standard output. The file appears when it is complete, and\nends with a checksum. A tar file can be unpacked. Servers don't show which znodes are\ncontainers, nor TTLs and sequence numbers: import creates persistent znodes. Quotas are\nznodes below /zookeeper/quota; export them separately.",
			[]string{"export /app app.json", "export /app app.tar.gz", "export -format yaml /app"},
		},
		"find": {"A znode must match all flags. Before a number, + means more and - means less.",
			[]string{
				"find -name worker-* /app", "find -type ephemeral", "find -size +100000", "find -older 720h -children 0 /app",
				"find -owner 0x1000a3f2b0001",
			}},
		"get": {"Data is printed unchanged; on a terminal, without control characters.", []string{"get /app/config", "get -s -w /app/config", "get -x /app/binary"}},
		"grep": {
			"The pattern is a Go regular expression (RE2).",
			[]string{"grep -i timeout /app", `grep -F "a.b" /`, "grep -l localhost /"},
		},
		"import": {
			"Existing znodes with other content are left alone unless -overwrite is given. If an import\nis run again, it writes what is missing. The whole file is read before the first znode is\nwritten, and refused if it was cut or changed. -unchecked accepts files that were edited,\nor written by a version whose exports had no checksum.",
			[]string{"import -dry-run app.json", "import app.json /app-copy", "import -overwrite app.yaml"},
		},
		"ls": {"", []string{"ls /", "ls -s /app", "ls -R /app"}},
		"mirror": {placesText + " It can be run repeatedly.\nIt reads both subtrees before it changes anything. A znode that another client changes in\nthe meantime is left alone, and mirror ends there.",
			[]string{"mirror -dry-run /app zk9:2181/app", "mirror -delete /app /app-copy"}},
		"mv": {placesText + "\nFor more than 1000 znodes, or another ensemble, mv copies, compares, then deletes.\nEphemeral znodes, quotas and the counters of sequential znodes can't be moved; containers\nand znodes with a TTL become persistent.",
			[]string{"mv /app /old/app", "mv -resume /app zk9:2181/app"}},
		"reconfig": {
			"Needs reconfigEnabled=true on the servers;\n" + reconfigRights + ".\nconfig shows the membership.",
			[]string{"reconfig -remove 3", `reconfig -add "server.4=zk4:2888:3888;2181"`},
		},
		"removewatches": {"", []string{"removewatches /app", "removewatches -c /app"}},
		"rm":            {"The same as delete, or with -r as deleteall, under the same rules.", []string{"rm /app/old", "rm -r /app"}},
		"session list": {
			"Asks every server of the connect string. A * marks your session.", []string{"session list", "session list -e"},
		},
		"set": {
			"-v protects another client's change from being overwritten; stat prints the version. Data\ncan come from standard input (-) or a file (@FILE): see help values.",
			[]string{
				"set /app/config new", "set -v 3 /app/config new", "set /app/config @config.json", "set -b /app/binary AAEC",
			},
		},
		"setAcl": {"help acl explains ACLs. After addauth, auth stands for your identities.", []string{"setAcl /app world:anyone:r,auth::cdrwa", "setAcl -R /app ip:10.0.0.0/8:cdrwa"}},
		"setquota": {
			"It sets one limit at a time. With -n and -b, the server's log warns; with -N and -B, writes\nare refused if the servers have enforceQuota=true.",
			[]string{"setquota -n 1000 /app", "setquota -B 10000000 /app"},
		},
		"sync": {"Reads after it see everything that was written before it, through any server.", []string{"sync /app"}},
		"top":  {"It needs no session, and works without a quorum.", []string{"top", "top -n 1"}},
		"tree": {"", []string{"tree -L 2 /", "tree -s /app"}},
		"txn": {
			"A separate ; divides the operations; a quoted ; is data. In another shell, quote the whole\ntransaction; quotes within it are kept.",
			[]string{"txn create /a 1 ; set /b 2 ; delete /c", "txn check -v 3 /a ; set /a 4", "txn -f changes.txt"},
		},
		"watch": {"Ctrl-C ends it. With -n 1, it waits for an event; exit code 1: the time of -t is over.", []string{"watch -r -d /app", "watch -n 1 -t 30s /app/ready"}},
	}
}

// nearest returns the names of the shell's commands that a mistyped one may have meant.
func nearest(name string) []string {
	var names []string
	for _, c := range commands() {
		first, _, _ := strings.Cut(c.name, " ")
		names = append(names, first)
	}
	return config.Nearest(name, names)
}

// beginningWith returns the commands of two words whose first is name.
func beginningWith(name string) (whole []string) {
	for _, c := range commands() {
		if strings.HasPrefix(c.name, name+" ") {
			whole = append(whole, c.name)
		}
	}
	return whole
}
