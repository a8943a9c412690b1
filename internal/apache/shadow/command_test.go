//go:build unix

package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// parsed returns the settings of a command line whose flags are first.
func parsed(t *testing.T, flags string, primary, shadow *zktest.Ensemble) *Settings {
	t.Helper()
	var s Settings
	set := flag.NewFlagSet("", flag.ContinueOnError)
	s.Register(set)
	must(t, set.Parse(append(strings.Fields(flags), "-listen", "127.0.0.1:0", primary.Connect(), shadow.Connect())))
	must(t, s.Arguments(set.Args()))
	return &s
}

// TestRun: what is printed of differences, and the exit code.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  string
		use   func(t *testing.T, user, shadow *zk.Client)
		code  int
		lines []string // that standard output has
	}{
		{"equal", "", func(*testing.T, *zk.Client, *zk.Client) {}, exitEqual, nil},
		{"different", "-max=1 -every=1ms", func(t *testing.T, user, shadow *zk.Client) {
			must(t, shadow.Delete(t.Context(), "/a", -1))
			for range 2 {
				_, _, err := user.Get(t.Context(), "/a")
				must(t, err)
			}
		}, exitDiffers, []string{"differs: getData /a (session "}},
		{"json", "-json", func(t *testing.T, user, shadow *zk.Client) {
			must(t, shadow.Delete(t.Context(), "/a", -1))
			_, _, err := user.Get(t.Context(), "/a")
			must(t, err)
		}, exitDiffers, []string{`{"operation":"getData","path":"/a",`}},
		{"unsure", "", func(t *testing.T, user, _ *zk.Client) {
			_, _, err := user.Reconfig(t.Context(), zk.Reconfig{Joining: []string{"nonsense"}})
			if err == nil {
				t.Error("a nonsensical reconfig went through")
			}
		}, exitUnsure, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
			s := parsed(t, c.args, primary, shadow)
			l, err := net.Listen("tcp", s.listen)
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs bytes.Buffer
			code, proxy := make(chan int, 1), make(chan *Proxy, 1)
			go func() {
				n, err := s.serve(ctx, l, &out, &errs, func(p *Proxy) { proxy <- p })
				if err != nil {
					n = exitFailed
				}
				code <- n
			}()
			p := <-proxy
			user := client(t, l.Addr().String())
			_, err = user.Create(t.Context(), "/a", nil, zk.ModePersistent, open)
			must(t, err)
			rest := func() { patient(t, "everything played", func() bool { n := p.Counts(); return n.Queued == 0 }) }
			rest()
			c.use(t, user, client(t, shadow.Connect()))
			rest()
			user.Close()
			rest()
			time.Sleep(10 * time.Millisecond) // for -every
			cancel()
			if got := <-code; got != c.code {
				t.Errorf("exit %d, want %d\n%s%s", got, c.code, &out, &errs)
			}
			lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != len(c.lines) {
				t.Fatalf("printed %q", lines)
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, c.lines[i]) || strings.Contains(c.args, "-json") && !json.Valid([]byte(line)) {
					t.Errorf("printed %q, want %q", line, c.lines[i])
				}
			}
			if !strings.Contains(errs.String(), "replies and notifications compared") ||
				!strings.Contains(errs.String(), "getData") && c.code == exitDiffers {
				t.Errorf("the summary: %s", &errs)
			}
		})
	}
}

// TestDrain: what clients have done before the interrupt is still played, unless that takes too long.
func TestDrain(t *testing.T) {
	t.Parallel()
	const writes = 50
	for _, c := range []struct {
		args    string
		patient bool
		code    int
		says    string
	}{
		{"-every 0", true, exitEqual, "earlier requests are still being replayed"},
		{"-every 0 -drain 10ms", false, exitUnsure, "requests not replayed yet"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
			s := parsed(t, c.args, primary, shadow)
			var held atomic.Bool
			gate := make(chan struct{})
			s.DialShadow = filtered(func(frame []byte) []byte {
				if held.Load() {
					<-gate
				}
				return frame
			})
			l, err := net.Listen("tcp", s.listen)
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs bytes.Buffer
			code, proxy := make(chan int, 1), make(chan *Proxy, 1)
			go func() {
				n, err := s.serve(ctx, l, &out, &errs, func(p *Proxy) { proxy <- p })
				if err != nil {
					n = exitFailed
				}
				code <- n
			}()
			p := <-proxy
			user := client(t, l.Addr().String())
			_, err = user.Create(t.Context(), "/first", nil, zk.ModePersistent, open)
			must(t, err)
			patient(t, "the first played", func() bool { return p.Counts().Queued == 0 })
			held.Store(true)
			for i := range writes {
				_, err := user.Create(t.Context(), "/"+strconv.Itoa(i), nil, zk.ModePersistent, open)
				must(t, err)
			}
			user.Close()
			cancel()
			if c.patient {
				patient(t, "the listener closed", func() bool {
					conn, err := net.Dial("tcp", l.Addr().String())
					if err == nil {
						conn.Close()
					}
					return err != nil
				})
				select {
				case got := <-code:
					t.Fatalf("exit %d with requests that haven't been played\n%s", got, &errs)
				default:
				}
				close(gate)
			} else {
				defer close(gate)
			}
			if got := <-code; got != c.code || !strings.Contains(errs.String(), c.says) {
				t.Errorf("exit %d, want %d and %q\n%s%s", got, c.code, c.says, &out, &errs)
			}
			if !c.patient {
				return
			}
			for i := range writes {
				if _, there, err := client(t, shadow.Connect()).Exists(t.Context(), "/"+strconv.Itoa(i)); err != nil || !there {
					t.Fatalf("the shadow lacks /%d: %v", i, err)
				}
			}
		})
	}
}

// TestListenerFails: an error of the listener ends the command.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	p := New(Options{Tell: func(*Difference) {}, Say: func(string) {}})
	if err := p.Run(t.Context(), t.Context(), brokenListener{}); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the error is %v", err)
	}
}

type brokenListener struct{}

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("broken") }
func (brokenListener) Close() error              { return nil }
func (brokenListener) Addr() net.Addr            { return nil }
