package external

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
)

// program returns a provider by this test's own program, and the file with the process ids.
func programProvider(t *testing.T, manner string, change func(*Options)) (*Provider, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(t.TempDir(), "pids")
	o := Options{
		Scheme: "ldap", Target: "exec:" + self + " judge " + manner + " " + pids, Timeout: 20 * time.Second, Concurrency: 4,
	}
	if change != nil {
		change(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, pids
}

func handle(p *Provider, credential, address string) (authprovider.Identities, error) {
	return p.HandleAuthentication(authprovider.Request{Scheme: "ldap", Auth: []byte(credential), Address: address})
}

// copies returns how many copies of the program were started.
func copies(t *testing.T, pids string) int {
	t.Helper()
	text, err := os.ReadFile(pids)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// TestProgram: what a program answers counts; one copy answers many questions.
func TestProgram(t *testing.T) {
	t.Parallel()
	p, pids := programProvider(t, "honest", nil)
	if p.Scheme() != "ldap" || !p.IsValid("ann") || p.IsValid("") || p.IsValid("a\nb") || !p.IsAuthenticated() {
		t.Error("it isn't the scheme that was asked for")
	}
	ids, err := handle(p, "ann:secret", "10.0.0.1")
	if err != nil || !slices.Equal(ids.IDs, []string{"ann", "staff"}) || ids.Super || time.Until(ids.Expires) <= 0 ||
		time.Until(ids.Expires) > time.Minute {
		t.Errorf("%+v, %v", ids, err)
	}
	if ids, err = handle(p, "root:secret", "10.0.0.1"); err != nil || !ids.Super {
		t.Errorf("%+v, %v", ids, err)
	}
	for _, c := range []struct{ credential, says string }{
		{"ann:guess", "wrong password"},
		{"ann:echo", "isn't shown"},
		{strings.Repeat("x", credentialBytesMax+1), "most allowed"},
	} {
		_, err = handle(p, c.credential, "10.0.0.1")
		if err == nil || errors.Is(err, authprovider.ErrUndecided) || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "ann:") {
			t.Errorf("%.20q: %v, want a refusal with %q", c.credential, err, c.says)
		}
	}
	if n := copies(t, pids); n != 1 {
		t.Errorf("%d copies have run", n)
	}
}

// TestPatternsAreNoIdentities: where * stands for any text in ACLs, nobody is let in under an id with one.
func TestPatternsAreNoIdentities(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"", authprovider.Glob} {
		p, _ := programProvider(t, "honest", func(o *Options) { o.Matches = rule })
		if p.Rule() != rule || !p.IsValid("an*") {
			t.Errorf("the rule %q, and it refuses patterns: %v", p.Rule(), !p.IsValid("an*"))
		}
		if most := strings.Repeat("*", authprovider.GlobStarsMax); !p.IsValid(most) || p.IsValid(most+"*") != (rule == "") {
			t.Errorf("the rule %q, and the wrong number of stars is valid", rule)
		}
		for name, want := range map[string]bool{"ann": true, "an*": rule == ""} {
			ids, err := handle(p, name+":secret", "10.0.0.1")
			if want != (err == nil) || !want && (!errors.Is(err, authprovider.ErrUndecided) || len(ids.IDs) > 0) {
				t.Errorf("%s with the rule %q: %v, %v", name, rule, ids.IDs, err)
			}
		}
	}
}

// TestHostileProgram: a program that fails admits nobody. It is killed, and asked again with the next question.
func TestHostileProgram(t *testing.T) {
	t.Parallel()
	for manner, says := range map[string]string{
		"hang": "i/o timeout", "die": "no answer came", "garbage": "isn't a JSON object",
		"megabytes": "more than 16384 bytes", "endless": "more than 16384 bytes", "twice": "follows", "late": "was answered",
	} {
		t.Run(manner, func(t *testing.T) {
			t.Parallel()
			p, pids := programProvider(t, manner, func(o *Options) {
				if manner == "hang" {
					o.Timeout = 300 * time.Millisecond
				}
			})
			for n := 1; n <= 2; n++ {
				ids, err := handle(p, "ann:secret", "10.0.0.1")
				if !errors.Is(err, authprovider.ErrUndecided) || len(ids.IDs) > 0 {
					t.Errorf("%+v, %v", ids, err)
				}
				// Its two lines may come one after the other; then the second one is found with the next question.
				if !strings.Contains(err.Error(), says) && (manner != "twice" || !strings.Contains(err.Error(), "was answered")) {
					t.Errorf("%v, want %q", err, says)
				}
			}
			if n := copies(t, pids); n > 2 {
				t.Errorf("%d copies have run", n)
			}
			for _, pid := range strings.Fields(readFile(t, pids)) {
				for deadline := time.Now().Add(30 * time.Second); runs(pid); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the process %s still runs", pid)
					}
				}
			}
		})
	}
}

// runs reports whether a process is there, as far as /proc shows.
func runs(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return err == nil
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// TestProgramThatEnds: a program that exits while idle fails no login. One that exits again and again is started only
// so often.
func TestProgramThatEnds(t *testing.T) {
	t.Parallel()
	p, _ := programProvider(t, "once", nil)
	for n := range 3 {
		if _, err := handle(p, fmt.Sprintf("u%d:x", n), "10.0.0.1"); err != nil {
			t.Errorf("login %d: %v", n, err)
		}
	}
	p, pids := programProvider(t, "die", nil)
	begun := time.Now()
	var err error
	logins := 200
	if testing.Short() {
		logins = 20
	}
	for range logins {
		if _, err = handle(p, "ann:secret", "10.0.0.1"); !errors.Is(err, authprovider.ErrUndecided) {
			t.Fatal(err)
		}
	}
	if n, most := copies(t, pids), 4+1+int(time.Since(begun).Seconds()*startsPerSecond); n > most {
		t.Errorf("%d copies have run, want %d at most", n, most)
	}
}

// TestProgramHasNoEnvironment: secrets in the server's environment aren't the program's.
func TestProgramHasNoEnvironment(t *testing.T) {
	t.Setenv("PLANTED", "planted")
	p, _ := programProvider(t, "environment", nil)
	ids, err := handle(p, "x", "10.0.0.1")
	if err != nil || !slices.Equal(ids.IDs, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}) {
		t.Errorf("%+v, %v", ids, err)
	}
}

// TestSlowLoginsOfOneAddress: an address whose logins make the program hang has at most half of the turns; logins of
// others are checked meanwhile.
func TestSlowLoginsOfOneAddress(t *testing.T) {
	t.Parallel()
	p, _ := programProvider(t, "honest", func(o *Options) { o.Timeout = 3 * time.Second })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := handle(p, "eve:hang", "10.6.6.6"); !errors.Is(err, authprovider.ErrUndecided) {
				t.Errorf("a credential that makes it hang: %v", err)
			}
		})
	}
	for p.turns.users("10.6.6.6") < 50 {
		time.Sleep(time.Millisecond)
	}
	for n := range 20 {
		if _, err := handle(p, fmt.Sprintf("u%d:secret", n), "10.0.0.1"); err != nil {
			t.Errorf("an honest client: %v", err)
		}
	}
	all.Wait()
	if len(p.turns.shares) != 0 || p.turns.waiting != 0 || len(p.turns.all) != 0 {
		t.Errorf("turns are left: %+v", p.turns)
	}
}

func (t *turns) users(address string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.shares[address]; s != nil {
		return s.users
	}
	return 0
}

// TestWaitingMax: a login that would wait behind too many others isn't checked.
func TestWaitingMax(t *testing.T) {
	t.Parallel()
	p, _ := programProvider(t, "honest", nil)
	p.turns.waiting = waitingMax
	if _, err := handle(p, "ann:secret", "10.0.0.1"); !errors.Is(err, authprovider.ErrUndecided) {
		t.Errorf("%v", err)
	}
}

// TestCache: an answer counts again for the same credential from the same address, for its
// time; a refusal never does.
func TestCache(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	answer := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		if string(q.Credential) == "bad" {
			fmt.Fprintf(w, `{"request":%d,"refused":""}`, q.Request)
			return
		}
		fmt.Fprintf(w, `{"request":%d,"ids":[%q]}`, q.Request, q.Credential)
	}
	s := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(s.Close)
	p, err := New(Options{Scheme: "corp", Target: s.URL, Timeout: 20 * time.Second, Concurrency: 2, Cache: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	want := func(n int64, credential, address string) {
		t.Helper()
		_, err := handle(p, credential, address)
		if (err != nil) != (credential == "bad") || asked.Load() != n {
			t.Errorf("%s: %v; asked %d times, want %d", credential, err, asked.Load(), n)
		}
	}
	want(1, "ann", "10.0.0.1")
	want(1, "ann", "10.0.0.1")
	want(2, "ann", "10.0.0.2")
	want(3, "bad", "10.0.0.1")
	want(4, "bad", "10.0.0.1")
	key := p.known.key(&authprovider.Request{Address: "10.0.0.1", Auth: []byte("ann")})
	if _, ok := p.known.get(key, time.Now().Add(time.Hour)); ok {
		t.Error("an answer counts after its time")
	}
	if _, ok := p.known.get(p.known.key(&authprovider.Request{Address: "10.0.0.1a", Auth: []byte("nn")}), time.Now()); ok {
		t.Error("address and credential run together")
	}
	now := time.Now()
	p.known.put(key, authprovider.Identities{IDs: []string{"x"}, Expires: now.Add(time.Second)}, now)
	if _, ok := p.known.get(key, now.Add(time.Second)); ok {
		t.Error("an answer counts when its identities have ended")
	}
	for n := range cacheEntriesMax {
		p.known.put(cacheKey{byte(n), byte(n >> 8), 1}, authprovider.Identities{IDs: []string{"x"}}, now)
	}
	if _, ok := p.known.get(key, now); ok || len(p.known.kept) != cacheEntriesMax ||
		len(p.known.order) != cacheEntriesMax {
		t.Errorf("%d answers are kept, and the oldest: %v", len(p.known.kept), ok)
	}
}

// TestHostileEndpoint: nobody is admitted by an endpoint that fails, that sends the credential elsewhere, or whose
// certificate isn't trusted.
func TestHostileEndpoint(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("the credential went elsewhere")
	}))
	t.Cleanup(elsewhere.Close)
	good := `{"request":1,"ids":["ann"]}`
	for name, answer := range map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated); fmt.Fprint(w, good) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"megabytes": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, good+strings.Repeat(" ", answerBytesMax)) },
		"headers": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			fmt.Fprint(w, good)
		},
		"slow": func(w http.ResponseWriter, r *http.Request) { time.Sleep(1500 * time.Millisecond); fmt.Fprint(w, good) },
		"gone": func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
	} {
		s := httptest.NewServer(answer)
		p, err := New(Options{Scheme: "corp", Target: s.URL, Timeout: time.Second, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		if ids, err := handle(p, "ann:secret", "10.0.0.1"); !errors.Is(err, authprovider.ErrUndecided) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %+v, %v", name, ids, err)
		}
		p.Close()
		s.Close()
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, good) }))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for file, known := range map[string]bool{"": false, ca: true} {
		p, err := New(Options{Scheme: "corp", Target: s.URL, Timeout: 20 * time.Second, Concurrency: 1, CAFile: file})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := handle(p, "ann:secret", "10.0.0.1"); (err == nil) != known {
			t.Errorf("with the authorities %q: %v", file, err)
		}
		p.Close()
	}
}

// TestTargets: what can't be asked, or not safely, isn't taken.
func TestTargets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(open, []byte("#!/bin/sh\n"), 0o700), os.Chmod(open, 0o770)); err != nil {
		t.Fatal(err)
	}
	for target, says := range map[string]string{
		"exec:judge": "whole path", "exec:": "whole path", "exec:" + dir + "/missing": "find the program",
		"exec:" + open:        "others than its owner",
		"http://example.com/": "in clear", "http://localhost:1/": "", "http://[::1]:1/": "", "https://example.com/": "",
		"https://":                       "isn't a URL",
		"https://u:planted@example.com/": "password", "ftp://example.com/": "exec:", "https://example.com/%zz": "isn't a URL",
	} {
		_, err := New(Options{Scheme: "corp", Target: target, Timeout: time.Second, Concurrency: 1})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", target, err, says)
		}
	}
	for _, o := range []Options{
		{Scheme: "digest", Target: "https://example.com/"},
		{Scheme: "corp", Target: "https://example.com/", CAFile: dir + "/missing"},
		{Scheme: "corp", Target: "https://example.com/", CAFile: open},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestAnswers: what is an answer and what isn't.
func TestAnswers(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"x",`, idsMax) + `"x"`
	for text, ok := range map[string]bool{
		`{"request":7,"ids":["ann"]}`:                                        true,
		` {"request":7,"ids":["ann"],"super":true,"seconds":1} ` + "\n":      true,
		`{"request":7,"refused":""}`:                                         true,
		`{"request":8,"ids":["ann"]}`:                                        false,
		`{"ids":["ann"]}`:                                                    false,
		`{"request":7}`:                                                      false,
		`{"request":7,"ids":[]}`:                                             false,
		`{"request":7,"super":true}`:                                         false,
		`{"request":7,"ids":["ann"],"refused":"no"}`:                         false,
		`{"request":7,"refused":"no","super":true}`:                          false,
		`{"request":7,"ids":["ann"],"seconds":0}`:                            false,
		`{"request":7,"ids":["ann"],"seconds":99999999999}`:                  false,
		`{"request":7,"ids":["ann",""]}`:                                     false,
		`{"request":7,"ids":["a\nb"]}`:                                       false,
		`{"request":7,"ids":["` + strings.Repeat("x", idsBytesMax+1) + `"]}`: false,
		`{"request":7,"ids":[` + many + `]}`:                                 false,
		`{"request":7,"ids":["ann"],"admin":true}`:                           false,
		`{"request":7,"ids":["ann"]}{}`:                                      false,
		`{"request":7,"ids":"ann"}`:                                          false,
		`[]`:                                                                 false,
		``:                                                                   false,
	} {
		if a, err := parseAnswer([]byte(text), 7); (err == nil) != ok {
			t.Errorf("%.100s: %+v, %v", text, a, err)
		}
	}
}

// FuzzAnswer: no answer ends the server, and one that is taken keeps the bounds.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"request":7,"ids":["ann"],"super":true,"seconds":1}`))
	f.Add([]byte(`{"request":7,"refused":"no"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b, 7)
		if err == nil &&
			(a.Refused == nil && len(a.IDs) == 0 || len(a.IDs) > idsMax ||
				slices.ContainsFunc(a.IDs, func(id string) bool { return !isID(id) })) {
			t.Errorf("%q: %+v", b, a)
		}
	})
}
