package compat

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// TestAuditLog runs one script of all operations against Apache and Zooid, alone and in an ensemble, and compares the
// audit lines of each server.
func TestAuditLog(t *testing.T) {
	reference, subject := programs(t)
	for _, n := range []int{1, 3} {
		want, got := audited(t, reference, n), audited(t, subject, n)
		for i := range want {
			if want[i] != got[i] {
				t.Errorf("server %d of %d: %s and %s differ:\n%s", i+1, n, reference.Name, subject.Name,
					difference(t, want[i], got[i]))
			}
			fmt.Printf("\n%s: server %d of %d: %d lines of %s, same on %s: %v\n", t.Name(), i+1, n, strings.Count(want[i], "\n"),
				reference.Name, subject.Name, want[i] == got[i])
		}
	}
}

// audited returns what each of n servers audits of the script, which follows the roles: the first server is the leader.
func audited(t *testing.T, p Program, n int) []string {
	t.Helper()
	opts := Options{Config: map[string]string{"reconfigEnabled": "true", "audit.file": "audit.log",
		// On a busy machine, no session ends, and no follower leaves the leader, because nothing was heard for seconds.
		"maxSessionTimeout": "120000", "initLimit": "120", "syncLimit": "60"},
		Properties: map[string]string{
			"znode.container.checkIntervalMs":                    "500",
			"zookeeper.audit.enable":                             "true",
			"zookeeper.extendedTypesEnabled":                     "true",
			"zookeeper.DigestAuthenticationProvider.superDigest": "super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
			"zookeeper.digest.enabled":                           "true",
		}}
	servers := StartEnsemble(t, p, n, opts)
	if n > 1 {
		slices.SortStableFunc(servers, func(a, b *Server) int { return strings.Compare(modeOf(t, b), modeOf(t, a)) })
	}
	auditScript(t, servers)
	var all []string
	for _, s := range servers {
		s.Stop()
		all = append(all, auditLines(t, s))
	}
	return all
}

// scriptPatience bounds a script on a busy machine; it takes seconds on others.
const scriptPatience = 5 * time.Minute

// auditScript does each operation, with and without success, on the servers.
func auditScript(t *testing.T, servers []*Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	open := func(s *Server, auth ...zk.Auth) *zk.Client {
		c, err := zk.Open(ctx, s.Addr, zk.Options{Auth: auth, SessionTimeout: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	digest := func(user string) zk.Auth { return zk.Auth{Scheme: "digest", Auth: []byte(user)} }
	world := zk.WorldACL(zk.PermAll)
	for i, s := range servers {
		anyone, known := open(s), open(s, digest("bob:secret"), digest("al ice=x,y:secret"))
		top := fmt.Sprintf("/s%d", i)
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		fails := func(_ any, err error) {
			t.Helper()
			if err == nil {
				t.Fatal("it succeeded")
			}
		}
		create := func(c *zk.Client, path string, mode zk.CreateMode, acl []zk.ACL) (any, error) {
			return c.Create(ctx, path, []byte("x"), mode, acl)
		}
		must(create(anyone, top, zk.ModePersistent, world))
		must(create(known, top+"/p", zk.ModePersistent, world))
		must(create(known, top+"/q", zk.ModePersistentSequential, world))
		must(create(known, top+"/e", zk.ModeEphemeral, world))
		must(create(known, top+"/f", zk.ModeEphemeralSequential, world))
		must(create(known, top+"/c", zk.ModeContainer, world))
		must(create(known, top+"/ü z\\n", zk.ModePersistent, world))
		_, _, err := known.CreateStat(ctx, top+"/p2", nil, zk.ModePersistent, zk.WorldACL(zk.PermRead))
		must(nil, err)
		_, _, err = known.CreateTTL(ctx, top+"/t", nil, zk.ModePersistentWithTTL, world, time.Hour)
		must(nil, err)
		_, _, err = known.CreateTTL(ctx, top+"/t", nil, zk.ModePersistentSequentialWithTTL, world, time.Hour)
		must(nil, err)
		fails(create(known, top+"/p", zk.ModePersistent, world))
		fails(create(known, top+"/no/such", zk.ModeEphemeralSequential, world))
		fails(create(known, top+"/no/such", zk.ModeContainer, world))
		_, _, err = known.CreateTTL(ctx, top+"/no/such", nil, zk.ModePersistentWithTTL, world, time.Hour)
		fails(nil, err)
		fails(create(known, top+"/inv", zk.ModePersistent,
			[]zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "nosuch", ID: "x"}}}))
		must(known.Set(ctx, top+"/p", []byte("y"), -1))
		fails(known.Set(ctx, top+"/p", []byte("y"), 7))
		fails(known.Set(ctx, top+"/none", []byte("y"), -1))
		fails(known.Set(ctx, top+"/p2", []byte("y"), -1))
		must(known.SetACL(ctx, top+"/p",
			[]zk.ACL{
				{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}},
				{Perms: zk.PermRead | zk.PermWrite, ID: zk.ID{Scheme: "world", ID: "anyone"}},
				{Perms: 0, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}},
				{Perms: zk.PermCreate | zk.PermDelete, ID: zk.ID{Scheme: "digest", ID: "a:b"}},
			}, -1))
		fails(known.SetACL(ctx, top+"/p", world, 17))
		fails(known.SetACL(ctx, top+"/none", world, -1))
		fails(anyone.SetACL(ctx, top+"/p", world, -1))
		fails(nil, known.Delete(ctx, top, -1))
		fails(nil, known.Delete(ctx, top+"/none", -1))
		must(nil, known.Delete(ctx, top+"/c", -1))
		must(known.Multi(ctx, zk.CreateOp(top+"/m1", nil, zk.ModePersistent, world),
			zk.CreateOp(top+"/m2", nil, zk.ModeEphemeral, world),
			zk.CreateOp(top+"/m3", nil, zk.ModePersistentSequential, world),
			zk.CreateOp(top+"/m4", nil, zk.ModeContainer, world),
			zk.CreateTTLOp(top+"/m5", nil, zk.ModePersistentWithTTL, world, time.Hour), zk.CheckOp(top+"/m1", 0),
			zk.SetOp(top+"/m1", []byte("z"), 0), zk.DeleteOp(top+"/m1", -1)))
		fails(known.Multi(ctx, zk.CreateOp(top+"/m6", nil, zk.ModePersistent, world), zk.DeleteOp(top+"/none", -1)))
		must(create(known, top+"/c2", zk.ModeContainer, world))
		must(create(known, top+"/c2/x", zk.ModePersistent, world))
		must(nil, known.Delete(ctx, top+"/c2/x", -1))
		awaitGone(ctx, t, known, top+"/c2") // which is audited before what follows
		must(known.Multi(ctx))
		fails(known.Multi(ctx, zk.CheckOp(top+"/m1", 77)))
		must(nil, known.Sync(ctx, "/"))
		_, _, err = known.Get(ctx, top+"/p")
		must(nil, err)
		_, _, err = known.Reconfig(ctx, zk.Reconfig{Leaving: []string{"9"}})
		fails(nil, err)
		must(nil, known.Sync(ctx, "/"))
		must(nil, known.Close())
		must(nil, anyone.Close())
	}
	super := open(servers[0], digest("super:test"))
	if len(servers) > 1 {
		_, _, err := super.Reconfig(ctx, zk.Reconfig{Leaving: []string{fmt.Sprint(77)}})
		t.Log("a reconfig:", err)
	}
	if err := super.Close(); err != nil {
		t.Fatal(err)
	}
}

// awaitGone waits until the server has deleted an empty container.
func awaitGone(ctx context.Context, t *testing.T, c *zk.Client, path string) {
	t.Helper()
	for {
		_, there, err := c.Exists(ctx, path)
		if err != nil {
			t.Fatalf("waiting until %s is gone: %v", path, err)
		}
		if !there {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

var (
	auditMark    = regexp.MustCompile(`^.*\bSlf4jAuditLogger(?: -|:) `)
	auditSession = regexp.MustCompile(`\bsession=0x[0-9a-f]+`)
	auditUsers   = regexp.MustCompile(`\tuser=[^\t]*`)
	auditHash    = regexp.MustCompile(`digest:([^:\t]*):[^:\t]*:`)
)

// auditLines returns the audit lines of a server with their levels, session ids replaced by the order of their first
// appearance. Apache keeps a connection's users and a session's znodes in sets: here they are sorted. The hashes of
// passwords that Apache shows in ACLs are masked, as Zooid does.
func auditLines(t *testing.T, s *Server) string {
	t.Helper()
	name := "server.log"
	if s.Program.zooid != "" {
		name = "audit.log"
	}
	text, err := os.ReadFile(filepath.Join(s.Folder, name))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	var lines []string
	begun := 0 // where the znodes of one session begin
	for line := range strings.Lines(string(text)) {
		mark := auditMark.FindString(line)
		if mark == "" {
			continue
		}
		level := "INFO "
		if strings.Contains(mark, "ERROR") {
			level = "ERROR "
		}
		line = auditSession.ReplaceAllStringFunc(line[len(mark):], func(id string) string {
			if seen[id] == 0 {
				seen[id] = len(seen) + 1
			}
			return fmt.Sprintf("session=%d", seen[id])
		})
		line = auditUsers.ReplaceAllStringFunc(line, func(users string) string {
			// Zooid marks names that nobody vouches for (docs/protocol.md).
			users = strings.NewReplacer(`\u002c`, ",", "?", "").Replace(users)
			names := strings.Split(strings.TrimPrefix(users, "\tuser="), ",")
			slices.Sort(names)
			return "\tuser=" + strings.Join(names, ",")
		})
		if s.Program.zooid == "" {
			line = auditHash.ReplaceAllString(line, "digest:$1:x:")
		} else if m := auditHash.FindStringSubmatch(line); m != nil && m[0] != "digest:"+m[1]+":x:" {
			t.Errorf("a hash shows: %s", line)
		}
		lines = append(lines, level+line)
		if !strings.Contains(line, "operation=ephemeralZNodeDeletion") {
			begun = len(lines)
			continue
		}
		slices.Sort(lines[begun:]) // several sessions in a row stay in the order of their numbers
	}
	return strings.Join(lines, "")
}
