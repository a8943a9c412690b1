package tree

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

var rewrite = flag.Bool("rewrite", false, "write what happened into the transcripts")

// TestTranscripts runs testdata/*.txt: blocks of commands, a line of dashes, and
// what happened, ended by an empty line. Run with -rewrite, read the diff.
//
//	create /a data=x acl=world:anyone:31 flags=1 ttl=5 v=-1      and create2, setData...
//	multi { create /a ; delete /b v=3 }
//	session, attach, expire, settings, reap, term, time, config, snapshot
//	enter s=1 cnx=10 by=7 seq=1 scope=1                            by: the entrance
//	policy role a = sasl:b ; deny read below /c except a          set by a superuser
//	zxid to=N, created /a to=N                                    as if after a long life
//	get, exists, getACL, ls, ls2, count, ephemerals, multiRead    reads
//	s=2 cnx=7 seq=3 ids=digest:alice:x,super:                     who asks; on any command
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playTranscript(t, string(text))
			if got == string(text) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(text), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d: got %q (run with -rewrite and read the diff)", file, i+1, line)
				}
			}
			t.Fatalf("%s is longer than what happened", file)
		})
	}
}

// A stage is a tree with what the commands leave out.
type stage struct {
	t     *testing.T
	tree  *Tree
	term  uint64
	index uint64
	now   int64
	next  map[int64]int64 // sequence by connection
	out   strings.Builder
}

func playTranscript(t *testing.T, text string) string {
	s := &stage{t: t, tree: New(Options{Reconfigure: anyMembers}), term: 1, now: 1000, next: map[int64]int64{}}
	return s.play(text)
}

// anyMembers takes the new members as they are, and refuses none.
func anyMembers(_ string, req *jute.ReconfigRequest, _ bool) (string, jute.Code) {
	if req.NewMembers == nil {
		return "", jute.ErrBadArguments
	}
	return *req.NewMembers, jute.OK
}

// play copies comments and commands, and writes what happened under each block.
func (s *stage) play(text string) string {
	s.out.Reset()
	var commands []string
	skipping := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case skipping && line != "":
			continue
		case line == "----":
			s.out.WriteString("----\n")
			for _, c := range commands {
				s.command(c)
			}
			fmt.Fprintf(&s.out, "digest %016x\n", s.tree.Digest())
			commands, skipping = nil, true
			continue
		case line != "" && line[0] != '#':
			commands = append(commands, line)
		}
		skipping = false
		s.out.WriteString(line + "\n")
	}
	if len(commands) > 0 {
		s.t.Fatalf("commands without a line of dashes after them: %q", commands)
	}
	return s.out.String()
}

// args are the words of a command: plain ones and key=value.
type args struct {
	plain []string
	named map[string]string
}

func parseArgs(s *stage, words []string) args {
	a := args{named: map[string]string{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok || w[0] == '/' || w[0] == '"' {
			key, value = "", w
		}
		if value[:min(1, len(value))] == `"` {
			v, err := strconv.Unquote(value)
			if err != nil {
				s.t.Fatalf("word %q: %v", w, err)
			}
			value = v
		}
		if key == "" {
			a.plain = append(a.plain, value)
		} else {
			a.named[key] = value
		}
	}
	return a
}

func (a args) path() string {
	if len(a.plain) == 0 {
		return ""
	}
	return a.plain[0]
}

func (s *stage) int(a args, key string, otherwise int64) int64 {
	v, ok := a.named[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *stage) ids(a args) (ids []jute.ID) {
	for _, word := range strings.FieldsFunc(a.named["ids"], func(r rune) bool { return r == ',' }) {
		scheme, id, _ := strings.Cut(word, ":")
		ids = append(ids, jute.ID{Scheme: scheme, ID: id})
	}
	return ids
}

func (s *stage) acl(a args) []jute.ACL {
	text, ok := a.named["acl"]
	if !ok {
		return jute.WorldACL(jute.PermAll)
	}
	var acl []jute.ACL
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		i := strings.LastIndexByte(word, ':')
		perms, err := strconv.Atoi(word[i+1:])
		if err != nil {
			s.t.Fatal(err)
		}
		scheme, id, _ := strings.Cut(word[:i], ":")
		acl = append(acl, jute.ACL{Perms: jute.Perm(perms), ID: jute.ID{Scheme: scheme, ID: id}})
	}
	return acl
}

var transcriptOps = map[string]jute.Op{
	"create": jute.OpCreate, "create2": jute.OpCreate2, "createContainer": jute.OpCreateContainer,
	"createTTL": jute.OpCreateTTL,
	"delete":    jute.OpDelete, "setData": jute.OpSetData, "setACL": jute.OpSetACL, "check": jute.OpCheck,
	"closeSession": jute.OpCloseSession,
	"reconfig":     jute.OpReconfig, "deleteContainer": jute.OpDeleteContainer, "getData": jute.OpGetData,
	"getChildren": jute.OpGetChildren,
}

func (s *stage) op(name string, a args) modelOp {
	op, ok := transcriptOps[name]
	if !ok {
		s.t.Fatalf("unknown command %q", name)
	}
	flags := map[jute.Op]int64{jute.OpCreateContainer: 4, jute.OpCreateTTL: 5}[op]
	o := modelOp{op: op, path: a.path(), acl: s.acl(a), flags: jute.CreateMode(s.int(a, "flags", flags))}
	o.ttl, o.version = s.int(a, "ttl", -1), int32(s.int(a, "v", -1))
	if data, ok := a.named["data"]; ok {
		o.data = []byte(data)
	}
	return o
}

// command runs one line.
func (s *stage) command(line string) {
	words := strings.Fields(line)
	name := words[0]
	a := parseArgs(s, words[1:])
	q := Request{Session: s.int(a, "s", 1), Identities: s.ids(a)}
	q.Cnx = s.int(a, "cnx", q.Session)
	switch name {
	case "get", "exists", "getACL", "ls", "ls2", "count", "ephemerals", "multiRead":
		s.read(name, line, a, q)
		return
	case "term":
		s.term++
		s.index++
		if err := s.tree.NewTerm(s.term, s.index); err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&s.out, "term %d: zxid %#x\n", s.term, s.tree.LastZxid())
		return
	case "time":
		s.now += s.int(a, "add", 0)
		return
	case "inside":
		fmt.Fprintf(&s.out, "inside: %d local, %d global\n", s.tree.sessions.Locals(1), s.tree.sessions.Globals())
		return
	case "restore":
		again, err := load(drain(s.tree, chunkSize))
		if err != nil || again.Digest() != s.tree.Digest() {
			s.t.Fatalf("restore: %v, or the digest differs", err)
		}
		fmt.Fprintf(&s.out, "restored from version %d\n", (&Image{tree: s.tree}).lowestVersion())
		s.tree = again
		return
	case "policy": // the rest of the line, with ; between its lines, of a superuser
		q.Identities = []jute.ID{{Scheme: "super"}}
		text := []byte(strings.ReplaceAll(strings.TrimSpace(strings.TrimPrefix(line, name)), " ; ", "\n"))
		o := modelOp{op: jute.OpCreate, path: policy.Path, data: text, acl: jute.WorldACL(jute.PermAll), version: -1}
		if s.tree.find(policy.Path) != 0 {
			o.op = jute.OpSetData
		}
		s.next[q.Cnx]++
		q.Op, q.Body, q.Seq = o.op, encode(&o), s.next[q.Cnx]
		s.apply(line, &q)
		return
	case "zxid":
		s.tree.position.zxid = s.int(a, "to", 0)
		return
	case "created":
		n := s.tree.at(s.tree.find(a.path()))
		s.tree.totals.digest -= s.tree.statHash(n)
		s.tree.editExtra(n).created = s.int(a, "to", 0)
		s.tree.totals.digest += s.tree.statHash(n)
		return
	case "reapable":
		paths, next := s.tree.Reapable(0, 1<<20, s.now, s.int(a, "neverUsed", 0))
		fmt.Fprintf(&s.out, "reapable: %q, then %d\n", paths, next)
		return
	}
	s.internal(name, line, a, &q)
	s.apply(line, &q)
}

func (s *stage) apply(line string, q *Request) {
	batch := AppendRecord(AppendBatchHeader(nil, s.now), q)
	s.index++
	if err := s.tree.Apply(s.term, s.index, batch, s.print); err != nil {
		fmt.Fprintf(&s.out, "error: %v\n", err)
	}
	if bad := invariants(s.tree); bad != "" {
		s.t.Fatalf("after %q: %s", line, bad)
	}
}

// internal fills in the request of a write.
func (s *stage) internal(name, line string, a args, q *Request) {
	passwd := []byte("0123456789abcdef")
	copy(passwd, a.named["passwd"])
	timeout := int32(s.int(a, "timeout", 10000))
	switch name {
	case "session":
		q.Op, q.Body = jute.OpCreateSession, jute.AppendBuffer(jute.AppendInt(nil, timeout), passwd)
		s.next[q.Cnx] = 0
		return
	case "attach":
		q.Op, q.Body = OpAttach, jute.AppendInt(jute.AppendBuffer(nil, passwd), timeout)
		return
	case "enter":
		q.Op, q.Seq = OpEnter, s.int(a, "seq", 1)
		q.Body = AppendEnter(nil, s.int(a, "by", 1), Scope(s.int(a, "scope", int64(Local))), passwd, timeout)
		if cut := s.int(a, "cut", 0); cut > 0 {
			q.Body = q.Body[:len(q.Body)-int(cut)]
		}
		return
	case "expire":
		q.Op, q.Body, q.Cnx = OpExpire, jute.AppendLong(nil, s.int(a, "term", int64(s.term))), 0
		return
	case "settings":
		v := DefaultSettings()
		v.ExtendedTypes, v.EnforceQuota = s.int(a, "extended", 0) == 1, s.int(a, "quota", 0) == 1
		v.SkipACL, v.ReconfigEnabled = s.int(a, "skipACL", 0) == 1, s.int(a, "reconfig", 0) == 1
		v.FeatureLevel = int32(s.int(a, "level", 1))
		q.Op, q.Session, q.Cnx, q.Body = OpSettings, 0, 0, v.Append(nil)
		return
	case "members":
		q.Op, q.Session, q.Cnx, q.Body = OpMembers, 0, 0, []byte(a.path())
		q.Seq = s.int(a, "inForce", 0)
		return
	case "change":
		step := map[string]ChangeStep{"named": ChangeNamed, "done": ChangeDone, "dropped": ChangeDropped}[a.path()]
		q.Op, q.Session, q.Cnx, q.Body = OpChange, 0, 0, AppendChange(nil, s.int(a, "id", 0), step)
		return
	case "reap":
		q.Op, q.Session, q.Cnx = jute.OpDeleteContainer, 0, 0
		q.Body = AppendDeleteContainer(nil, a.path(), s.int(a, "neverUsed", 0))
		return
	}
	var o modelOp
	if name == "multi" {
		o.op = jute.OpMulti
		o.sub = s.subs(line)
	} else {
		o = s.op(name, a)
	}
	q.Op, q.Body = o.op, encode(&o)
	if cut := s.int(a, "cut", 0); cut > 0 {
		q.Body = q.Body[:len(q.Body)-int(cut)]
	}
	if o.op == jute.OpReconfig && len(a.named) > 0 {
		req := jute.ReconfigRequest{CurConfigID: s.int(a, "id", -1)}
		if text, ok := a.named["new"]; ok {
			req.NewMembers = &text
		}
		q.Body = jute.AppendInt(req.Append(nil), int32(s.int(a, "reachable", 0)))
	}
	q.Seq = s.int(a, "seq", s.next[q.Cnx]+1)
	if _, given := a.named["seq"]; !given {
		s.next[q.Cnx]++
	}
}

// subs parses { op args ; op args }.
func (s *stage) subs(line string) (ops []modelOp) {
	_, inner, _ := strings.Cut(line, "{")
	inner, _, _ = strings.Cut(inner, "}")
	for part := range strings.SplitSeq(inner, ";") {
		if words := strings.Fields(part); len(words) > 0 {
			ops = append(ops, s.op(words[0], parseArgs(s, words[1:])))
		}
	}
	return ops
}

func showStat(n jute.Stat) string {
	return fmt.Sprintf("c=%#x m=%#x p=%#x ctime=%d mtime=%d v=%d/%d/%d owner=%#x len=%d children=%d",
		n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime, n.Version, n.Cversion, n.Aversion, n.EphemeralOwner, n.DataLength,
		n.NumChildren)
}

// print writes what happened to a request.
func (s *stage) print(r *Result) {
	op := r.Op.String()
	switch r.Op {
	case OpAttach:
		op = "attach"
	case OpExpire:
		op = "expire"
	case OpEnter:
		op = "enter"
	case OpSettings:
		op = "settings"
	}
	fmt.Fprintf(&s.out, "%s: %v zxid=%#x", op, r.Outcome, r.Zxid)
	if r.Err != jute.OK {
		fmt.Fprintf(&s.out, " err=%s", strings.ReplaceAll(r.Err.String(), " ", "-"))
	}
	if r.Path != "" {
		fmt.Fprintf(&s.out, " path=%q", r.Path)
	}
	if r.Timeout != 0 {
		fmt.Fprintf(&s.out, " timeout=%d", r.Timeout)
	}
	if r.Data != nil {
		fmt.Fprintf(&s.out, " data=%q", r.Data)
	}
	if r.Stat != (jute.Stat{}) {
		fmt.Fprintf(&s.out, "\n  %s", showStat(r.Stat))
	}
	s.out.WriteString("\n")
	for _, m := range r.Multi {
		fmt.Fprintf(&s.out, "  %s", m.Op)
		if m.Op == jute.OpError {
			fmt.Fprintf(&s.out, " %v", m.Err)
		}
		if m.Path != "" {
			fmt.Fprintf(&s.out, " %q", m.Path)
		}
		if m.Stat != (jute.Stat{}) {
			fmt.Fprintf(&s.out, " %s", showStat(m.Stat))
		}
		s.out.WriteString("\n")
	}
	names := map[jute.EventType]string{1: "created", 2: "deleted", 3: "data", 4: "children"}
	for _, e := range r.Events {
		fmt.Fprintf(&s.out, "  event %s %s\n", names[e.Type], e.Path)
	}
}

// read runs a read and writes its decoded reply.
func (s *stage) read(name, line string, a args, q Request) {
	var d jute.Decoder
	var b []byte
	var code jute.Code
	switch name {
	case "get":
		b, code = s.tree.AppendGetData(nil, a.path(), q.Identities)
	case "exists":
		b, code = s.tree.AppendExists(nil, a.path(), q.Identities)
	case "getACL":
		b, code = s.tree.AppendGetACL(nil, a.path(), q.Identities)
	case "ls":
		b, code = s.tree.AppendGetChildren(nil, a.path(), q.Identities)
	case "ls2":
		b, code = s.tree.AppendGetChildren2(nil, a.path(), q.Identities)
	case "count":
		b, code = s.tree.AppendAllChildrenNumber(nil, a.path(), q.Identities)
	case "ephemerals":
		b, code = s.tree.AppendEphemerals(nil, q.Session, a.path())
	case "multiRead":
		o := modelOp{op: jute.OpMulti, sub: s.subs(line)}
		b, code = s.tree.AppendMultiRead(nil, encode(&o), q.Identities, ReplyBytesMax)
	}
	fmt.Fprintf(&s.out, "%s %s:", name, a.path())
	if code != jute.OK {
		fmt.Fprintf(&s.out, " %v\n", code)
		return
	}
	d.Reset(b)
	switch name {
	case "get":
		var r jute.GetDataResponse
		r.Decode(&d)
		if r.Data == nil {
			s.out.WriteString(" null\n")
		} else {
			fmt.Fprintf(&s.out, " %q\n", r.Data)
		}
		fmt.Fprintf(&s.out, "  %s\n", showStat(r.Stat))
	case "exists":
		var r jute.Stat
		r.Decode(&d)
		fmt.Fprintf(&s.out, " %s\n", showStat(r))
	case "getACL":
		var r jute.GetACLResponse
		r.Decode(&d)
		fmt.Fprintf(&s.out, " %v v=%d\n", r.ACL, r.Stat.Aversion)
	case "ls", "ephemerals":
		fmt.Fprintf(&s.out, " %q\n", d.Strings())
	case "ls2":
		var r jute.Children2Response
		r.Decode(&d)
		fmt.Fprintf(&s.out, " %q\n  %s\n", r.Children, showStat(r.Stat))
	case "count":
		fmt.Fprintf(&s.out, " %d\n", d.Int())
	case "multiRead":
		results, err := jute.DecodeMultiResponse(&d)
		fmt.Fprintf(&s.out, " %v\n", err)
		for _, m := range results {
			fmt.Fprintf(&s.out, "  %s %v %q %q\n", m.Op, m.Err, m.Data, m.Children)
		}
	}
	if d.Err() != nil || d.Remaining() != 0 {
		s.t.Fatalf("%q: reply has %d bytes left, %v", line, d.Remaining(), d.Err())
	}
}
