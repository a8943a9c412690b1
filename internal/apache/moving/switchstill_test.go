//go:build unix

package moving

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// unreachable is an election port of which nothing is known from here (RFC 5737), whether no answer comes from there or
// a firewall refuses.
const unreachable = "192.0.2.1:3888"

// TestReleaseBesideApache: a try that was cut short when it began to release the new servers doesn't go on beside an
// Apache server that was started since, nor if one may have been where nobody can see it, but by the operator's word.
func TestReleaseBesideApache(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		at   string
		word []int64
		says string
	}{
		{l.Addr().String(), nil, "Apache has been restarted"},
		{l.Addr().String(), []int64{1}, "Apache has been restarted"},
		{unreachable, nil, "isn't known whether Apache's servers [1] have been started since"},
		{unreachable, []int64{2}, "-stopped with the ids"},
		{unreachable, []int64{1}, "resuming from there"},
	} {
		var said bytes.Buffer
		r := &switchRun{says: &sayer{w: &said, line: terminal.NewProgress(&said)}, server: &config.Config{}}
		r.word, r.server.Storage.DataDir = c.word, filepath.Join(t.TempDir(), "none")
		data, err := json.Marshal(releasePlan{Servers: []stoppedServer{{ID: 1, Election: []string{c.at}}}})
		if err != nil {
			t.Fatal(err)
		}
		code, err := r.release(t.Context(), proof.Record{Try: proof.NewTry(), Step: stepRelease, Data: data}, &said)
		if text := fmt.Sprint(said.String(), err); code != switchSilent || err == nil || !strings.Contains(text, c.says) {
			t.Errorf("%s, %v: %d, %s; want %q", c.at, c.word, code, text, c.says)
		}
	}
}

// TestStillClosed: a server whose ports can't be reached from here is asked again before the new servers are released.
func TestStillClosed(t *testing.T) {
	t.Parallel()
	m := learner.Member{ID: 1, Quorum: []string{"192.0.2.1:2888"}, Election: []string{unreachable}}
	e := follow.Ensemble{Members: []learner.Member{m}}
	for name, c := range map[string]struct {
		last  int64 // of the second tail; 0 for none
		try   proof.Try
		word  []int64
		tails string
		seen  bool // the port was open before the stop, and is closed
		says  string
	}{
		"closed":             {seen: true},
		"stopped":            {last: 7},
		"started again":      {last: 8, says: "server 1 had stopped, but has been started since: its log ends at 0x8"},
		"no answer":          {says: "its command didn't answer again"},
		"an old answer":      {last: 7, try: proof.NewTry(), says: "its command didn't answer again"},
		"no answer needed":   {word: []int64{1}},
		"tails come by hand": {tails: "tails"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, said := stopping(t, "exit 3")
			r.word, r.tails, r.ended = c.word, c.tails, []stoppedServer{{ID: 1, Election: []string{unreachable}, Last: 7}}
			if c.seen {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
				r.ended[0].Seen, r.ended[0].Election[0] = true, l.Addr().String()
			}
			if c.last > 0 {
				if c.try == "" {
					c.try = r.try
				}
				file := filepath.Join(t.TempDir(), "tail")
				line := (&proof.Testimony{Try: c.try, Last: c.last, Files: proof.Files{Known: true}}).Line()
				if err := os.WriteFile(file, printed(t, line, &files.Tail{After: 6, Last: c.last}), 0o600); err != nil {
					t.Fatal(err)
				}
				r.stop = "cat " + file
			}
			err := r.stillClosed(t.Context(), &stopPlan{Ensemble: e, At: 7})
			if (err == nil) != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%v; want %q", err, c.says)
			}
			if wants := c.tails != ""; strings.Contains(said.String(), "it isn't seen") != wants {
				t.Errorf("said %q", said)
			}
		})
	}
}

// TestReleaseOfAnOlderBuild: a release that an older build has begun, whose record doesn't name Apache's servers, is
// checked for all servers that the try had stopped.
func TestReleaseOfAnOlderBuild(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ at, says string }{
		{l.Addr().String(), "Apache has been restarted"},
		{unreachable, "isn't known whether Apache's servers [3] have been started since"},
		{"", "the journal doesn't say which of Apache's servers have stopped"},
	} {
		r, said := stopping(t, "exit 3")
		r.server = &config.Config{}
		r.server.Storage.DataDir = filepath.Join(t.TempDir(), "none")
		path := filepath.Join(r.words[1], journalName)
		journal, _, err := proof.OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.at != "" {
			m := learner.Member{ID: 3, Quorum: []string{"192.0.2.1:2888"}, Election: []string{c.at}}
			err = journal.Begin(r.try, stepStop, stopPlan{Ensemble: follow.Ensemble{Members: []learner.Member{m}}})
		}
		if err == nil {
			err = journal.Begin(r.try, stepRelease, map[string]any{"Zxid": 7, "Closed": []string{c.at}})
		}
		if err == nil {
			err = journal.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		before, err := r.openJournal()
		if err != nil {
			t.Fatal(err)
		}
		code, err := r.release(t.Context(), before, said)
		r.journal.Close()
		if text := fmt.Sprint(said, err); code != switchSilent || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d, %s; want %q", c.at, code, text, c.says)
		}
	}
}

// TestDropsOrder: what undoes a switch removes the order to found an ensemble, too. With an empty directory the server
// would found one without data, beside Apache. An order that isn't of a switch stays.
func TestDropsOrder(t *testing.T) {
	t.Parallel()
	for _, marked := range []bool{true, false} {
		for name, drop := range map[string]func(*config.Config, proof.Try) error{
			"undo":      func(c *config.Config, try proof.Try) error { return dropOf(c.Storage.DataDir, try) },
			"seed drop": func(c *config.Config, _ proof.Try) error { _, err := dropSeed(c); return err },
		} {
			c := &config.Config{}
			c.Storage.DataDir = t.TempDir()
			c.Storage.DataLogDir = c.Storage.DataDir
			r := &switchRun{server: c, try: proof.NewTry()}
			c.Quorum.Distributed = true
			if marked {
				if err := (&proof.Mark{Try: r.try}).Put(c.Storage.DataDir); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.foundsAlone(); err != nil {
				t.Fatal(err)
			}
			if err := drop(c, r.try); err != nil && marked {
				t.Errorf("%s: %v", name, err)
			}
			if ordered := newensemble.FoundingOrdered(c.Storage.DataDir); ordered == marked {
				t.Errorf("%s, marked: %v: the server is ordered to found: %v", name, marked, ordered)
			}
		}
	}
}
