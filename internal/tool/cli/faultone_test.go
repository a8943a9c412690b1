package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// A changing is a small run of a command that changes something. FROM stands for the
// tree of a run, QUOTA for where quotas below it lie, FILE for an exported tree.
type changing struct {
	command string
	before  []string // lines
	line    string
	again   int  // the exit code of the line after it has done its work, or begun it
	twice   bool // after an unsure end the line is not run again: it would do more
	passing bool // what it makes goes with the session, whose end may be what is lost
}

var changings = []changing{
	{command: "create", line: "create FROM/new x", again: exitFailed},
	{command: "create", line: "create -s FROM/new- x", twice: true},
	{command: "create", line: "create -p FROM/new/deep/er x", again: exitFailed},
	{command: "create", line: "mkdir -p FROM/new/deep", again: exitFailed},
	{command: "create", line: "create -c FROM/new x", again: exitFailed},
	{command: "create", line: "create -t 3600000 FROM/new x", again: exitFailed},
	{command: "create", line: "create -e FROM/new x", passing: true},
	{command: "set", line: "set FROM/c x"},
	{command: "set", line: "set -v 0 FROM/c x", again: exitFailed},
	{command: "delete", line: "delete FROM/c", again: exitFailed},
	{command: "delete", line: "delete -v 0 FROM/c", again: exitFailed},
	{command: "rm", line: "rm FROM/c", again: exitFailed},
	{command: "rm", line: "rm -f FROM/c"},
	{command: "setAcl", line: "setAcl FROM/c world:anyone:ra"},
	{command: "setAcl", line: "setAcl -R FROM world:anyone:ra"},
	{command: "setquota", line: "setquota -n 1000 FROM"},
	{command: "setquota", before: []string{"setquota -n 1000 FROM"}, line: "setquota -B 100000 FROM"},
	{command: "delquota", before: []string{"setquota -n 1000 FROM"}, line: "delquota FROM", again: exitFailed},
	{command: "delquota", before: []string{"setquota -n 1000 FROM"}, line: "delquota -n FROM"},
	{command: "txn", line: "txn set FROM/c x ; create FROM/new y ; delete FROM/a/b", again: exitFailed},
	{command: "import", before: []string{"export FROM FILE", "deleteall FROM"}, line: "import -overwrite FILE FROM"},
	{command: "import",
		before: []string{"export FROM FILE", "set FROM/a/b x", "setAcl FROM/a/b world:anyone:rwa", "delete FROM/c"},
		line:   "import -overwrite FILE FROM"},
}

// faultless are the commands that TestEveryChangeHasAFaultTest doesn't ask about, with
// the reason. What isn't here must be in changings or faulties.
var faultless = map[string]string{
	"addauth": "changes this session only", "close": "changes this session only", "connect": "changes this session only",
	"addWatch": "changes this session only", "removewatches": "changes this session only",
	"exit": "ends this session only",
	"quit": "ends this session only", "printwatches": "prints", "redo": "is the command that it runs",
	"policy get": "reads", "policy explain": "reads", "policy check": "reads a file",
	"policy set": "one request, under one version",
	"limits get": "reads", "limits list": "reads", "limits delete": "one request",
	"limits set": "one request, behind the creation of an empty znode; again it does the same",
	"reconfig":   "one request, under one version: see TestUnsureReconfig",
	"config":     "reads", "get": "reads", "getAcl": "reads", "getAllChildrenNumber": "reads", "getEphemerals": "reads",
	"history":   "prints",
	"listquota": "reads", "ls": "reads", "stat": "reads", "sync": "reads", "version": "prints", "whoami": "reads",
	"acl explain": "reads",
	"diff":        "reads", "du": "reads", "find": "reads", "grep": "reads", "help": "prints", "session list": "reads",
	"stat top": "reads",
	"4lw":      "reads, but for crst and srst, which only reset figures", "top": "reads", "tree": "reads",
	"watch":  "reads",
	"export": "writes files, see TestExportTarget and TestFullDisk",
}

// TestEveryChangeHasAFaultTest fails for a new command that has neither a fault test
// nor a reason to have none.
func TestEveryChangeHasAFaultTest(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, f := range faulties {
		name, _, _ := strings.Cut(f.line, " ")
		tested[name] = true
	}
	for _, c := range changings {
		tested[c.command] = true
	}
	for _, c := range commands() {
		why, left := faultless[c.name]
		if tested[c.name] == left || left && why == "" {
			t.Errorf("%s: tested under faults: %t; left out: %t, because it %q; want one of both", c.name, tested[c.name], left,
				why)
		}
		delete(tested, c.name)
	}
	for name := range tested {
		t.Errorf("there is no command %s", name)
	}
}

// changeRun is one run of a changing.
type changeRun struct {
	*faultRun
	file, quota string
}

// prepareChange plants the tree of a run and runs the lines before.
func prepareChange(t *testing.T, c *zk.Client, address, root string, ch changing) *changeRun {
	r := &changeRun{faultRun: prepare(t, c, root, faulties[0]), file: filepath.Join(t.TempDir(), "tree.json")}
	r.quota = quotaRoot + r.from
	for _, line := range ch.before {
		if r.line(t.Context(), address, line); r.exit != 0 {
			t.Fatalf("%s: %s", line, r.out)
		}
	}
	return r
}

func (r *changeRun) line(ctx context.Context, address, line string) {
	r.run(ctx, address, strings.ReplaceAll(line, "FILE", r.file))
}

// all reads the tree and its quotas, whose stats are the server's.
func (r *changeRun) all() string {
	quotas := r.tree(r.quota)
	delete(quotas, quotaStats)
	_, counted, err := r.c.Exists(r.t.Context(), r.quota+quotaStats)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprintf("%q, quotas %q, counted: %t", r.tree(r.from), quotas, counted)
}

// TestChangesUnderFaults runs each command that changes something once for each
// request it sends: that is lost, its reply is lost, the server is killed there, or
// the command is interrupted. Exit code 0 must be true, an end that may have changed
// something must say so, and the command, run again, must complete its work.
func TestChangesUnderFaults(t *testing.T) {
	t.Parallel()
	for i, ch := range changings {
		t.Run(fmt.Sprintf("%s %d", ch.command, i), func(t *testing.T) {
			t.Parallel()
			address := startZooid(t)
			c := superClient(t, address)
			r := prepareChange(t, c, address, "/0", ch)
			was := r.all()
			r.line(t.Context(), address, ch.line)
			want := r.all()
			if r.exit != 0 || was == want && !ch.passing {
				t.Fatalf("exit code %d, %s: %s became %s", r.exit, r.out, was, want)
			}
			kinds := []faultKind{cutBefore, cutAfter, killed, actOnly}
			if testing.Short() {
				kinds = kinds[i%len(kinds):][:1]
			}
			for _, kind := range kinds {
				n := everyStep(t, address, nil, kind, func(g *gate, k int) {
					r := prepareChange(t, c, address, fmt.Sprintf("/%d-%d", kind, k), ch)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					switch kind {
					case actOnly:
						g.act = cancel
					case killed:
						g.act = func() { time.AfterFunc(200*time.Millisecond, cancel) }
					}
					r.line(ctx, g.Addr().String(), ch.line)
					what := fmt.Sprintf("%s at request %d: exit code %d, printed %s", faultNames[kind], k, r.exit, r.out)
					if ch.passing {
						if r.exit != 0 && r.out == "" {
							t.Errorf("%s: not a word", what)
						}
						return
					}
					now := r.all()
					switch {
					case r.exit == 0 && now != want:
						t.Errorf("%s\nbut it is %s\n      want %s", what, now, want)
					case r.exit != 0 && now != was && !tellsOfChange(r.out):
						t.Errorf("%s\nand doesn't tell that something may have changed:\n%s became\n%s", what, was, now)
					case r.exit != 0 && r.out == "":
						t.Errorf("%s: not a word", what)
					}
					if ch.twice && now != was {
						if now != want {
							t.Errorf("%s\nand it is %s\n      want %s", what, now, want)
						}
						return
					}
					expect := 0
					if now != was {
						expect = ch.again
					}
					r.line(t.Context(), address, ch.line)
					for range 3 { // what the run before has sent may arrive only now
						if r.exit != exitFailed || !strings.Contains(r.out, "BadVersion") {
							break
						}
						r.line(t.Context(), address, ch.line)
					}
					if now := r.all(); now != want || r.exit != expect {
						t.Errorf("%s\nrun again: exit code %d, want %d, %s: it is %s\n      want %s", what, r.exit, expect, r.out, now,
							want)
					}
				})
				t.Logf("%s: %d steps", faultNames[kind], n)
				if n < 1 {
					t.Errorf("it sends %d requests", n)
				}
			}
		})
	}
}

// tellsOfChange reports whether a failed command has said that something is, or may
// be, changed.
func tellsOfChange(out string) bool {
	return strings.Contains(out, "it may have been applied") || strings.Contains(out, "what was written stays") ||
		strings.Contains(out, "the ACLs that were set stay") || strings.Contains(out, "the quota is removed")
}

// TestWritersBetween has another client write right before each request of a command
// that compares before it changes: what that one wrote must be there afterwards.
func TestWritersBetween(t *testing.T) {
	t.Parallel()
	theirs := "world:anyone:rwda"
	set := func(path string) func(r *changeRun) error {
		return func(r *changeRun) error {
			_, err := r.c.Set(t.Context(), r.from+path, []byte("theirs"), zk.AnyVersion)
			return err
		}
	}
	limit := func(flag string) func(r *changeRun) error {
		return func(r *changeRun) error {
			data, st, err := r.c.Get(t.Context(), r.quota+quotaLimits)
			if err != nil {
				return err
			}
			q := parseQuota(string(data))
			*q.field(flag) = 777
			_, err = r.c.Set(t.Context(), r.quota+quotaLimits, []byte(q.String()), st.Version)
			return err
		}
	}
	exports := []string{"export FROM FILE", "set FROM/c mine", "setAcl FROM/a/b world:anyone:ra"}
	for _, w := range []struct {
		name   string
		before []string
		line   string
		write  func(r *changeRun) error
		there  string // what all shows of the write
	}{
		{"import over data", exports, "import -overwrite FILE FROM", set("/c"), "theirs"},
		{"import over other data", exports, "import -overwrite FILE FROM", set("/a/b"), "theirs"},
		{"import over an ACL", exports, "import -overwrite FILE FROM", func(r *changeRun) error {
			acl, err := subtree.ParseACL(theirs)
			if err == nil {
				_, err = r.c.SetACL(t.Context(), r.from+"/a/b", acl, zk.AnyVersion)
			}
			return err
		}, "world:anyone:drwa"},
		{"setAcl -R", nil, "setAcl -R FROM world:anyone:ra", func(r *changeRun) error {
			acl, err := subtree.ParseACL(theirs)
			if err == nil {
				_, err = r.c.SetACL(t.Context(), r.from+"/c", acl, zk.AnyVersion)
			}
			return err
		}, "world:anyone:drwa"},
		{"setquota", []string{"setquota -n 5000 FROM"}, "setquota -B 100000 FROM", limit("b"), "bytes=777"},
		{"delquota of a limit", []string{"setquota -n 5000 FROM"}, "delquota -n FROM", limit("b"), "bytes=777"},
		{"delquota", []string{"setquota -n 5000 FROM"}, "delquota FROM", limit("b"), "bytes=777"},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			address := startZooid(t)
			c := superClient(t, address)
			// What comes before the command has looked is not what it compares with.
			looks := []jute.Op{jute.OpSetData, jute.OpSetACL, jute.OpMulti, jute.OpDelete, jute.OpCreate, jute.OpCreate2}
			wrote := 0
			everyStep(t, address, looks, actOnly, func(g *gate, k int) {
				r := prepareChange(t, c, address, fmt.Sprintf("/w%d", k), changing{before: w.before})
				var err error
				done := false
				g.act = func() { err, done = w.write(r), true }
				r.line(t.Context(), g.Addr().String(), w.line)
				if !done || err != nil {
					return
				}
				wrote++
				if all := r.all(); !strings.Contains(all, w.there) {
					t.Errorf("at write %d: lost: exit code %d, %s; now %s", k, r.exit, r.out, all)
				}
			})
			if wrote == 0 {
				t.Error("nobody wrote")
			}
		})
	}
}

// TestUnsureReconfig loses the reply of a reconfig. The gate stands before a server
// alone, which refuses what it gets; the client can't know that.
func TestUnsureReconfig(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := superClient(t, address)
	for kind, says := range map[faultKind]string{
		cutAfter: "it may have been applied", cutBefore: "it may have been applied",
	} {
		everyStep(t, address, []jute.Op{jute.OpReconfig}, kind, func(g *gate, k int) {
			r := &changeRun{faultRun: &faultRun{t: t, c: c}}
			r.line(t.Context(), g.Addr().String(), "reconfig -add server.9=127.0.0.1:1:2;3")
			if k == 1 && (r.exit != exitFailed || !strings.Contains(r.out, says)) {
				t.Errorf("%s: exit code %d, %s", faultNames[kind], r.exit, r.out)
			}
		})
	}
}

// TestImportReadOnlyParents imports below parents that admit no new children, as
// somebody who isn't super.
func TestImportReadOnlyParents(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	v := newSession(t, address)
	file := filepath.Join(t.TempDir(), "tree.json")
	for _, line := range []string{
		"create /p top", "create /p/a 1", "create /p/a/b 2", "create /p/a/b/c 3", "create /p/z 4",
		"setAcl -R /p world:anyone:rda", "export /p " + file, "import " + file + " /q", "diff /p /q",
	} {
		if out := v.run(t, line); v.s.exit != 0 {
			t.Fatalf("%s: %s", line, out)
		}
	}
}
