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

const placesText = `A place is a path of this ensemble, or host:port,…/path of another, which is reached
with the flags this shell was started with.`

// A guide is help's text about a word that is not a command.
type guide struct{ name, about, text string }

// guides returns the guides, which help lists after the commands.
func guides() []guide {
	return []guide{
		{"acl", "permissions: how an ACL is written, and who may do what", `An ACL is a list of entries scheme:id:permissions, with commas between them. The
permissions are
  c  create children
  d  delete children (so the ACL of its parent decides who may delete a znode)
  r  read data and list children
  w  write data
  a  set the ACL
and the schemes that all servers know
  world:anyone         everybody
  auth:                the identities of this session, as the server knows them
  digest:USER:HASH     whoever knows the password; zooid digest USER:PASSWORD prints the hash
  ip:ADDRESS[/BITS]    clients at an address, or in a network
  x509:SUBJECT         the holder of a certificate of that subject (TLS)
  sasl:USER            whoever has logged in as that user
No entry forbids anything: one that fits is enough. A new znode has the ACL it was given,
world:anyone:cdrwa without; it inherits none.

Examples:
  getAcl /app
  acl explain /app
  whoami
  addauth digest alice:secret
  setAcl /app auth::cdrwa,world:anyone:r
  create /app/secret x digest:alice:9kP5rAWWRQWcNLSo4tDl1ZPFdkg=:cdrwa
`},
		{"values", "data from files and standard input", `The data of create and set is what stands there, or
  -        what standard input has, if the command is run by itself
  @FILE    what a file has
byte by byte: echo ends it with a line end, printf doesn't. A value that is - or begins
with @ stands behind --, or in quotes where this shell reads the line.

Examples:
  zooid cli set /app/config - < config.json
  create /app/logo @logo.png
  set -- /app/handle @alice
  set /app/handle "@alice"
`},
		{"words", "the four-letter words of servers", `Each server of the connect string is asked, without a session. A server answers those in
its 4lw.commands.whitelist (srvr alone if that isn't set).

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
		"4lw": {"Asks every server of the connect string, or those named. help words lists the words.", []string{"mntr", "4lw ruok", "4lw stat zk2:2181", "mntr -o json"}},
		"acl explain": {
			"Tells for each entry of the ACL whom it means, and what you may do by it and by the\npolicy: you are all the identities that whoami prints.",
			[]string{"acl explain /app"},
		},
		"addWatch": {
			"Events are printed between commands, also while you type. watch follows changes more\nreadably.", []string{"addWatch /app", "addWatch -m PERSISTENT /app/config"},
		},
		"addauth": {
			"The identity counts until the session ends. It isn't kept in the history.\nA token may be in a file: bearer @FILE.",
			[]string{"addauth digest alice:secret", "addauth bearer @/run/token"},
		},
		"connect": {"Watches and ephemeral znodes of the old session go with it.", []string{"connect", "connect zk1:2181,zk2:2181/app"}},
		"cp":      {placesText + " Parents that are missing are made; ephemeral\nznodes are left out.", []string{"cp /app /app-copy", "cp /app zk9:2181/app"}},
		"create": {"Data with blanks needs quotes; - is standard input, @FILE a file (help values). An ACL is\nscheme:id:permissions,… (help acl). Parents that -p makes are open to everybody; without\n-p they must be there.",
			[]string{
				"create /app", "create -p /app/config/db x", `create /app/greeting "hello world"`, "create -s -e /app/worker-", "create /app/secret x digest:alice:9kP5rAWWRQWcNLSo4tDl1ZPFdkg=:cdrwa", "create -t 60000 /app/lease x",
			}},
		"deleteall": {
			"Deletes from the bottom up, many znodes to a transaction. What was deleted before a\nfailure stays deleted.",
			[]string{"deleteall -dry-run /app", "deleteall /app"},
		},
		"diff": {placesText + "\n- is only in the first, + only in the second, ! in both but different.", []string{"diff /app /app-copy", "diff -noacl /app zk9:2181/app"}},
		"du":   {"Prints bytes of data, znodes and path, each with all below it.", []string{"du -s /", "du -h -n 10 /"}},
		"export": {
			"Without a file it goes to standard output. The file appears when it is whole, and ends\nwith a checksum. A tar can be unpacked. Servers don't tell containers, times to live\nand sequence numbers: the znodes come back as persistent ones. Quotas are znodes below\n/zookeeper/quota, to be exported by themselves.",
			[]string{"export /app app.json", "export /app app.tar.gz", "export -format yaml /app"},
		},
		"find": {"All flags must hold. Numbers take + for more and - for less.",
			[]string{
				"find -name worker-* /app", "find -type ephemeral", "find -size +100000", "find -older 720h -children 0 /app",
				"find -owner 0x1000a3f2b0001",
			}},
		"get": {"Data is printed as it is; on a terminal without control characters.", []string{"get /app/config", "get -s -w /app/config", "get -x /app/binary"}},
		"grep": {
			"The pattern is a regular expression of Go's (RE2).",
			[]string{"grep -i timeout /app", `grep -F "a.b" /`, "grep -l localhost /"},
		},
		"import": {
			"Znodes that are there with other content are left alone unless -overwrite is given.\nAn import may be run again; it writes what is missing. The file is read whole before the\nfirst znode is written, and refused if it was cut or changed. -unchecked takes files that\nwere edited, or written by a version whose exports had no checksum.",
			[]string{"import -dry-run app.json", "import app.json /app-copy", "import -overwrite app.yaml"},
		},
		"ls": {"", []string{"ls /", "ls -s /app", "ls -R /app"}},
		"mirror": {placesText + " It may be run again and again.\nBoth are read before anything is changed; a znode that others change meanwhile is left\nalone, and ends it.",
			[]string{"mirror -dry-run /app zk9:2181/app", "mirror -delete /app /app-copy"}},
		"mv": {placesText + "\nMore than 1000 znodes, or another ensemble, take steps: copy, compare, delete.\nEphemeral znodes, quotas and the counters of sequential znodes can't be moved; containers\nand znodes with a TTL become persistent.",
			[]string{"mv /app /old/app", "mv -resume /app zk9:2181/app"}},
		"reconfig": {
			"Needs reconfigEnabled=true on the servers;\n" + reconfigRights + ".\nconfig shows the membership.",
			[]string{"reconfig -remove 3", `reconfig -add "server.4=zk4:2888:3888;2181"`},
		},
		"removewatches": {"", []string{"removewatches /app", "removewatches -c /app"}},
		"rm":            {"The same as delete, and with -r as deleteall, under the same rules.", []string{"rm /app/old", "rm -r /app"}},
		"session list": {
			"Asks every server of the connect string; yours has a *.", []string{"session list", "session list -e"},
		},
		"set": {
			"The version guards against overwriting another's change: stat prints it. Data may come\nfrom standard input (-) or a file (@FILE): help values tells more.",
			[]string{
				"set /app/config new", "set -v 3 /app/config new", "set /app/config @config.json", "set -b /app/binary AAEC",
			},
		},
		"setAcl": {"help acl tells how an ACL is written. auth stands for yourself, after addauth.", []string{"setAcl /app world:anyone:r,auth::cdrwa", "setAcl -R /app ip:10.0.0.0/8:cdrwa"}},
		"setquota": {
			"One limit at a time; -n and -b warn in the server's log, -N and -B refuse if the servers\nhave enforceQuota=true.",
			[]string{"setquota -n 1000 /app", "setquota -B 10000000 /app"},
		},
		"sync": {"Reads after it see everything that was written before it, through whatever server.", []string{"sync /app"}},
		"top":  {"Needs no session, and works while there is no quorum.", []string{"top", "top -n 1"}},
		"tree": {"", []string{"tree -L 2 /", "tree -s /app"}},
		"txn": {
			"Parts are apart by a ; of its own; a quoted one is data. In another shell, quote the\nwhole: what is quoted within it stays so.",
			[]string{"txn create /a 1 ; set /b 2 ; delete /c", "txn check -v 3 /a ; set /a 4", "txn -f changes.txt"},
		},
		"watch": {"Ctrl-C ends it. One-shot, it makes a script wait: exit code 1 says that -t was over.", []string{"watch -r -d /app", "watch -n 1 -t 30s /app/ready"}},
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
