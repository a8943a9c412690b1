package zk

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// told records the requests that a hook reports.
type told struct {
	mu       sync.Mutex
	requests []RequestEnd
}

func (v *told) hooks() []Hooks {
	return []Hooks{{Request: func(_ context.Context, r RequestEnd) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.requests = append(v.requests, r)
	}}}
}

// losing takes the session and closes the connection at the first request.
func losing(p *peer) { p.accept().next() }

// A read that is sent again is reported as one request with two attempts.
func TestRepeatedReadIsToldOnce(t *testing.T) {
	t.Parallel()
	var v told
	scripted(t, Options{Hooks: v.hooks()}, func(t *testing.T, c *Client, n *network) {
		get(t, c, "/a")
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.requests) != 1 || v.requests[0].Attempts != 2 || v.requests[0].Result() != "OK" {
			t.Errorf("told %+v", v.requests)
		}
	}, losing, accepting)
}

// When a lost connection fails the calls of a pipeline, each is reported once and before Close returns: those sent,
// those queued behind them, and later ones.
func TestLostPipelineIsTold(t *testing.T) {
	t.Parallel()
	var v told
	scripted(t, Options{Hooks: v.hooks()}, func(t *testing.T, c *Client, n *network) {
		p := c.Pipeline()
		first := p.Set(t.Context(), "/a", nil, 0)
		second := p.Get(t.Context(), "/b")
		first.Wait(t.Context())
		second.Wait(t.Context())
		third := p.Get(t.Context(), "/c")
		third.Wait(t.Context())
		c.Close()
		v.mu.Lock()
		defer v.mu.Unlock()
		results := map[string]string{}
		for _, r := range v.requests {
			results[r.Path] += r.Result() + " " + r.Server
			if r.Path == "/a" && !MaybeApplied(r.Err) {
				t.Errorf("a lost write was told as %v", r.Err)
			}
			if r.Received != 0 || r.Attempts != 1 {
				t.Errorf("told %+v", r)
			}
		}
		server := n.dials[0]
		for path, want := range map[string]string{
			"/a": "ConnectionLoss " + server, "/b": "ConnectionLoss " + server, "/c": "ConnectionLoss ",
		} {
			if results[path] != want {
				t.Errorf("%s was told as %q, want %q", path, results[path], want)
			}
		}
	}, losing, accepting)
}

// Each code of the servers has a word, and unknown ones don't make new labels.
func TestResultWords(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for code := Code(-1); code >= -2000; code-- {
		word := RequestEnd{Err: &Error{Op: "getData", Err: code}}.Result()
		words[word] = true
		if known := !strings.HasPrefix(code.String(), "code "); known != (word != "UnknownCode") {
			t.Errorf("%s has the word %s", code, word)
		}
	}
	if len(words) != len(codeWords)+1 || !words["UnknownCode"] {
		t.Errorf("words %v", words)
	}
	if r := (RequestEnd{Err: &Error{Err: ErrReplyTooLarge}}).Result(); r != "ReplyTooLarge" {
		t.Error(r)
	}
	if r := (RequestEnd{Err: &Error{Err: context.DeadlineExceeded}}).Result(); r != "DeadlineExceeded" {
		t.Error(r)
	}
	if r := (RequestEnd{Err: jute.ErrNoNode}).Result(); r != "NoNode" {
		t.Error(r)
	}
}

// Without a hook a call is not observed, so nothing is measured and nothing allocated for it.
func TestNothingIsObservedWithoutHooks(t *testing.T) {
	c := cannedClient(t, Options{Hooks: []Hooks{{Watch: func(Event) {}}}})
	k := c.newPlainCall(jute.OpWhoAmI, "")
	c.s.observe(t.Context(), k)
	if k.seen != nil {
		t.Error("a call is observed though no hook wants to know")
	}
	allocs := testing.AllocsPerRun(1000, func() {
		if _, _, err := c.Get(t.Context(), "/a"); err != nil {
			t.Error(err)
		}
	})
	// The path and the reply's data; cannedServer, in the same process, allocates nothing for a request.
	if allocs > 2 {
		t.Errorf("a Get allocates %v times, want 2", allocs)
	}
}
