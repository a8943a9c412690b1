package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// guarded is a znode outside of the load's root, on which the policies of these tests have rules.
const guarded = "/guarded"

// as connects a client to a server, as superuser or as nobody.
func (s *Server) as(t *testing.T, super bool) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	o := zk.Options{SessionTimeout: sessionTimeout}
	if user, password, _ := strings.Cut(superUser, ":"); super {
		o.Auth = []zk.Auth{zk.DigestAuth(user, password)}
	}
	c, err := zk.Open(ctx, s.Addr, o)
	if err != nil {
		t.Fatalf("connect to server %d: %v", s.ID, err)
	}
	return c
}

// setPolicy sets a policy by way of a server: it creates the znode or, if that is there, sets its data.
func (s *Server) setPolicy(t *testing.T, text string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	c := s.as(t, true)
	defer c.Close()
	_, err := c.Create(ctx, policy.Path, []byte(text), zk.ModePersistent, zk.OpenACL())
	if errors.Is(err, zk.ErrNodeExists) {
		_, err = c.Set(ctx, policy.Path, []byte(text), -1)
	}
	return err
}

// denied checks whether a server lets anybody write and read the guarded znode.
func (s *Server) denied(t *testing.T, write, read bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	c := s.as(t, false)
	defer c.Close()
	if err := c.Sync(ctx, guarded); err != nil {
		t.Fatal(err)
	}
	_, setErr := c.Set(ctx, guarded, nil, -1)
	_, _, getErr := c.Get(ctx, guarded)
	for _, got := range []struct {
		what string
		err  error
		want bool
	}{{"a write", setErr, write}, {"a read", getErr, read}} {
		if got.err != nil && !errors.Is(got.err, zk.ErrNoAuth) || (got.err != nil) != got.want {
			t.Errorf("server %d: %s of %s: %v; want it denied: %t", s.ID, got.what, guarded, got.err, got.want)
		}
	}
}

// TestUpgrade upgrades the servers of a running ensemble one by one, under load, from each version that has landed.
// Nothing acknowledged and no session is lost. A policy from before is in force all the time, on servers of both
// versions; another one is taken once the last server is upgraded.
func TestUpgrade(t *testing.T) {
	for name, from := range map[string]struct{ commit, level string }{
		"hashed": {hashedCommit, secondLevel}, "founded": {foundedCommit, secondLevel}, "landed": {landedCommit, fifthLevel},
	} {
		t.Run(name, func(t *testing.T) {
			seed, _ := hurtful(t)
			if from.commit != hashedCommit && !*long {
				t.Skip("the same is done with servers of an earlier version")
			}
			old, present := buildOf(t, from.commit), Build(t)
			load := trio(seed, 1500)
			load.Programs, load.Strangers = []string{old, old, old}, true
			load.Config = map[string]string{"snapCount": "2000", "autopurge.snapRetainCount": "3"}
			r := Begin(t, load)
			write(t, r.Servers[0].Addr, guarded)
			if err := r.Servers[0].setPolicy(t, "deny write below "+guarded); err != nil {
				t.Fatalf("the policy of the earlier version: %v", err)
			}
			for i, s := range r.Servers {
				r.WaitAnswered(300)
				r.upgrade(i, present)
				if i == len(r.Servers)-1 {
					break
				}
				awaitLevel(t, from.level, r.Servers...)
				if from.level == secondLevel {
					if err := s.setPolicy(t, "deny read below "+guarded); !errors.Is(err, zk.ErrUnimplemented) {
						t.Errorf("a policy by way of server %d, beside an earlier version: %v", s.ID, err)
					}
				}
				for _, s := range r.Servers {
					s.denied(t, true, false)
				}
			}
			awaitLevel(t, presentLevel, r.Servers...)
			for _, s := range r.Servers {
				s.denied(t, true, false)
			}
			if err := r.Servers[1].setPolicy(t, "deny read below "+guarded); err != nil {
				t.Errorf("a policy, at level %s: %v", presentLevel, err)
			}
			for _, s := range r.Servers {
				s.denied(t, false, true)
			}
			r.WaitAnswered(300)
			r.undisturbedVerdict()
			sameState(t, r.Servers...)
		})
	}
}

// TestNewerBesideOlder asks for policies and restores while a server of an earlier version is a member: of one that
// knows neither, though it knows level 2, and of one that knows both. They are refused with a message, no server
// stops, and all have the same state. Once the last server is upgraded both work.
func TestNewerBesideOlder(t *testing.T) {
	for name, commit := range map[string]string{"that knows neither": earlyCommit, "that knows both": hashedCommit} {
		t.Run(name, func(t *testing.T) {
			seed, _ := hurtful(t)
			old, present := buildOf(t, commit), Build(t)
			load := trio(seed, 500)
			load.Programs, load.Strangers = []string{old, old, old}, true
			r := Begin(t, load)
			write(t, r.Servers[0].Addr, guarded)
			older, restorer := r.Servers[0], r.Servers[1]
			admin := fmt.Sprintf("127.0.0.1:%d", freeport.Take(t, 1)[0])
			_, port, _ := strings.Cut(admin, ":")
			restorer.change(t, map[string]string{
				"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": port,
				"admin.rateLimiterIntervalInMS": "0",
			})
			r.upgrade(1, present)
			r.upgrade(2, present)
			awaitLevel(t, secondLevel, r.Servers...)
			snapshot := adminCall(t, admin, "snapshot", nil, http.StatusOK)

			text := "deny write below " + guarded
			for _, leader := range []int{0, 1} {
				r.lead(leader)
				for _, s := range r.Servers[1:] {
					if err := s.setPolicy(t, text); !errors.Is(err, zk.ErrUnimplemented) {
						t.Errorf("a policy by way of server %d while server %d leads: %v", s.ID, leader+1, err)
					}
				}
				says := adminCall(t, admin, "restore", snapshot, http.StatusInternalServerError)
				if !bytes.Contains(says, []byte("upgrade all servers")) {
					t.Errorf("a restore while server %d leads is answered %s", leader+1, says)
				}
			}
			// The older server admits the policy; the leader, of this version, doesn't.
			if err := older.setPolicy(t, text); !errors.Is(err, zk.ErrUnimplemented) {
				t.Errorf("a policy by way of the older server: %v", err)
			}
			for _, s := range r.Servers {
				s.denied(t, false, false)
			}
			r.WaitAnswered(200)
			r.upgrade(0, present)
			awaitLevel(t, presentLevel, r.Servers...)
			if err := older.setPolicy(t, text); err != nil {
				t.Errorf("a policy at level %s: %v", presentLevel, err)
			}
			for _, s := range r.Servers {
				s.denied(t, true, false)
			}
			r.undisturbedVerdict()
			sameState(t, r.Servers...)

			startThem(t, r.Servers...)
			for _, s := range r.Servers {
				if _, err := s.Ready(); err != nil {
					t.Fatal(err)
				}
			}
			adminCall(t, admin, "restore", snapshot, http.StatusOK)
			for _, s := range r.Servers {
				s.denied(t, false, false) // the snapshot is from before the policy
			}
			for _, s := range r.Servers {
				s.Stop()
			}
			sameState(t, r.Servers...)
		})
	}
}

// adminCall calls a command of an admin server as superuser, again while the server starts, and returns the body of
// the answer.
func adminCall(t *testing.T, addr, command string, body []byte, want int) []byte {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	for deadline := time.Now().Add(startPatience); ; time.Sleep(readyPause) {
		url := "http://" + addr + "/commands/" + command
		req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "digest "+superUser)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			var answer []byte
			answer, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && resp.StatusCode == want {
				return answer
			}
			err = errors.Join(err, fmt.Errorf("%s, want %d: %.500s", resp.Status, want, answer))
			if !errors.Is(err, io.ErrUnexpectedEOF) && resp.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("%s of %s: %v", command, addr, err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s of %s: %v", command, addr, err)
		}
	}
}

// lineage waits until servers have agreed on one, and returns what they have kept of it.
func lineage(t *testing.T, servers ...*Server) string {
	t.Helper()
	var kept []string
	for _, s := range servers {
		file := filepath.Join(s.LogDir(), "lineage.kept")
		b, err := os.ReadFile(file)
		for deadline := time.Now().Add(startPatience); err != nil; b, err = os.ReadFile(file) {
			if time.Now().After(deadline) {
				t.Fatalf("server %d knows no lineage: %v; its log ends:\n%s", s.ID, err, s.LogEnd())
			}
			time.Sleep(readyPause)
		}
		kept = append(kept, string(b))
	}
	for i, text := range kept {
		if text != kept[0] {
			t.Fatalf("server %d has kept %q, server %d %q", servers[0].ID, kept[0], servers[i].ID, text)
		}
	}
	return kept[0]
}

// lacks checks that a server has no znode at a path.
func (s *Server) lacks(t *testing.T, path string) {
	t.Helper()
	if strings.Contains(contents(t, s.Addr), path) {
		verdict.Final(t, verdict.Checker)
		t.Errorf("server %d has %s of another ensemble", s.ID, path)
	}
}

// TestHashedTwice: two ensembles of a version that derived cluster ids from server lines have the same lines. Once
// upgraded they are told apart: a server with a directory of the one gets nothing from the servers of the other, and
// gives them nothing.
func TestHashedTwice(t *testing.T) {
	hurtful(t)
	old, present := buildOf(t, hashedCommit), Build(t)
	e := layOutOnly(t, Options{Servers: 3, Programs: []string{old, old, old}})
	use := func(program string) {
		t.Helper()
		for _, s := range e.Servers {
			s.program = program
		}
		startThem(t, e.Servers...)
		for _, s := range e.Servers {
			if _, err := s.Ready(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := func() {
		t.Helper()
		for _, s := range e.Servers {
			if code := s.Stop(); code != 0 {
				t.Fatalf("server %d ends with %d", s.ID, code)
			}
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	found := func(paths ...string) (is string) {
		t.Helper()
		use(old)
		for i, path := range paths {
			write(t, e.Servers[i].Addr, path)
		}
		stop()
		use(present)
		awaitLevel(t, presentLevel, e.Servers...)
		is = lineage(t, e.Servers...)
		stop()
		return is
	}
	for _, s := range e.Servers {
		s.change(t, map[string]string{"quorum.secret": defaultConfig["quorum.secret"]})
	}
	first, third := found("/first", "/by-first"), e.Servers[2]
	cluster := third.cluster(t)
	for _, s := range e.Servers {
		move(s.Data(), s.Data()+".first")
		if err := s.layOutEmpty(); err != nil {
			t.Fatal(err)
		}
	}
	second := found("/second", "/by-second")
	if got := third.cluster(t); got != cluster || first == second {
		t.Fatalf("cluster %s and then %s, lineage %q and then %q; this test needs one cluster id and two lineages",
			cluster, got, first, second)
	}
	move(third.Data(), third.Data()+".second")
	move(third.Data()+".first", third.Data())
	startThem(t, e.Servers...)
	others := e.Servers[:2]
	for _, s := range others {
		if _, err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, others[0].Addr, "/more")
	noneServes(t, "has the lineage", third)
	others[0].awaitLog(t, "has the lineage")
	for _, s := range others {
		s.holds(t, []string{"/second", "/by-second", "/more"})
		s.lacks(t, "/first")
	}
	stop()
	// All of the first ensemble's directories are as they were.
	for _, s := range others {
		move(s.Data(), s.Data()+".second")
		move(s.Data()+".first", s.Data())
	}
	use(present)
	for _, s := range e.Servers {
		s.holds(t, []string{"/first", "/by-first"})
		s.lacks(t, "/second")
	}
	if got := lineage(t, e.Servers...); got != first {
		t.Errorf("the lineage is %q, and was %q", got, first)
	}
	stop()
	sameState(t, e.Servers...)
}

// TestEmptyDiskBesideOlder: servers of a version that makes the older proof have a secret of words. One of them gets an
// empty disk and this version's program. It learns from the others' own connections that they are older, joins by the
// older proof, and with all of them upgraded the older proof is over.
func TestEmptyDiskBesideOlder(t *testing.T) {
	hurtful(t)
	t.Parallel()
	old, present := buildOf(t, hashedCommit), Build(t)
	e := Start(t, Options{
		Servers: 3, Programs: []string{old, old, old},
		Config: map[string]string{"quorum.secret": "a secret made of plain words"},
	})
	write(t, e.Servers[0].Addr, "/old")
	third := e.Servers[2]
	third.Stop()
	empty(t, third)
	third.program = present
	restart(t, third)
	third.awaitLog(t, "this server has joined the ensemble") // its mode tells nothing: it was a voter before
	awaitLevel(t, secondLevel, third)
	for i, s := range e.Servers[:2] { // the third one's vote is needed for either
		s.Stop()
		write(t, third.Addr, fmt.Sprintf("/without-%d", i+1))
		s.program = present
		restart(t, s)
	}
	awaitLevel(t, presentLevel, e.Servers...)
	oneTree(t, []string{"/old", "/without-1", "/without-2"}, e.Servers...)
}
