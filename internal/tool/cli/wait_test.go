package cli

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// TestTLSErrorsAtOnce doesn't wait for what more attempts don't mend: the test would
// not end within its time.
func TestTLSErrorsAtOnce(t *testing.T) {
	t.Parallel()
	named, unnamed := startSecure(t)
	ca, cert := store("trust.pem"), store("client.pem")
	for name, k := range map[string]struct {
		flags []string
		says  string
	}{
		"stranger":       {[]string{"-server", named, "--tls"}, "-tls-ca names"},
		"any host's CA":  {[]string{"-server", named, "--tls-any-host"}, "certificate"},
		"host":           {[]string{"-server", unnamed, "--tls-ca", ca, "--tls-cert", cert}, "-tls-any-host"},
		"two strangers":  {[]string{"-server", named + "," + unnamed, "--tls"}, "x509"},
		"no certificate": {[]string{"-server", named, "--tls-ca", ca}, "-tls-cert"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, words := range [][]string{{"ls", "/"}, {"-waitforconnection", "ls", "/"}} {
				_, errs, code := once("", append(append(k.flags, "-timeout", "3600000"), words...)...)
				if code != exitNotConnected || !strings.Contains(errs, k.says) {
					t.Errorf("exit code %d: %s", code, errs)
				}
			}
		})
	}
	t.Run("another ensemble", func(t *testing.T) {
		t.Parallel()
		_, errs, code := once("", "-server", named, "--tls-ca", ca, "--tls-cert", cert,
			"-timeout", "3600000", "diff", "/", unnamed+"/")
		if code != exitNotConnected || !strings.Contains(errs, "-tls-any-host") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	})
}

// TestOneGoodServerIsWaitedFor keeps trying while one server may still answer.
func TestOneGoodServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	named, unnamed := startSecure(t)
	flags := []string{"--tls-ca", store("trust.pem"), "--tls-cert", store("client.pem"), "-timeout", "60000"}
	for range 4 { // the order of the servers is drawn
		out, errs, code := once("", append([]string{"-server", unnamed + "," + named}, append(flags, "ls", "/")...)...)
		if code != 0 || out != "[zookeeper]\n" {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
	}
}

// startMute runs a server that takes no session, and answers srvr with a text.
func startMute(t *testing.T, srvr string) string {
	return freeport.Serve(t, func(c net.Conn) {
		word := make([]byte, 4)
		if _, err := io.ReadFull(c, word); err == nil && string(word) == "srvr" {
			_, _ = io.WriteString(c, srvr)
		}
	})
}

// TestHintOfALostQuorum tells servers without a quorum from those that want TLS.
func TestHintOfALostQuorum(t *testing.T) {
	t.Parallel()
	lost := startMute(t, "This ZooKeeper instance is not currently serving requests\n")
	full := startMute(t, "Zookeeper version: 1\nMode: follower\n")
	silent := startMute(t, "")
	late := &connectError{host: "zk1:2181", err: &zk.WaitError{Err: context.DeadlineExceeded}}
	if got := late.Error(); got != "no connection to zk1:2181: no server has answered" {
		t.Errorf("without an answer: %s", got)
	}
	for servers, want := range map[string]string{
		lost: "but has no quorum", lost + "," + silent: "but has no quorum", full + "," + lost: "but has no quorum",
		full: "it may be full", silent: "add -tls or -tls-ca",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, errs, code := once("", "-server", servers, "-timeout", "3000", "ls", "/")
			if code != exitNotConnected || !strings.Contains(errs, want) ||
				strings.Contains(want, "quorum") && strings.Contains(errs, "tls") {
				t.Errorf("%s: exit code %d: %s", servers, code, errs)
			}
		})
	}
}

// TestSilenceIsExplained says something at a terminal about a command whose server
// doesn't answer.
func TestSilenceIsExplained(t *testing.T) {
	t.Parallel()
	g := newGate(t, startZooid(t))
	defer g.Close()
	v := atScreen(t, g.Addr().String())
	said := make(chan bool)
	g.at, g.ops, g.fault = 1, []jute.Op{jute.OpSync}, actOnly
	g.act = func() { <-said }
	ended := make(chan string)
	go func() { ended <- v.run(t, "sync /") }()
	for !strings.Contains(v.out.String(), "still running, connected to "+g.Addr().String()+"; Ctrl-C ends it") {
		select {
		case out := <-ended:
			t.Fatalf("it ended: %s", out)
		case <-time.After(time.Millisecond):
		}
	}
	close(said)
	if out := <-ended; v.s.exit != 0 || !strings.Contains(out, "Sync is OK") {
		t.Errorf("exit code %d: %s", v.s.exit, out)
	}
	if out := v.run(t, "sync /"); strings.Contains(out, "still running") {
		t.Errorf("a command that is answered: %s", out)
	}
}

// TestPromptNamesServer shows in the prompt which of several servers it is, and that it
// was lost.
func TestPromptNamesServer(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	if v := newSession(t, address); v.s.prompt() != "[zk: "+address+"(CONNECTED) 0] " {
		t.Errorf("of one server: %s", v.s.prompt())
	}
	r := startRelay(t, address)
	at := r.Addr().String()
	v := newSession(t, at+",127.0.0.1:1")
	if want := "[zk: " + at + ",127.0.0.1:1(CONNECTED to " + at + ") 0] "; v.s.prompt() != want {
		t.Errorf("got  %s\nwant %s", v.s.prompt(), want)
	}
	states := v.s.client.States()
	defer states.Close()
	r.Close()
	r.cut()
	for v.s.client.State().State.String() != "connecting" {
		if _, err := states.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := "(CONNECTING, lost " + at + ") 0] "; !strings.HasSuffix(v.s.prompt(), want) {
		t.Errorf("got %s, want %s", v.s.prompt(), want)
	}
}

// signalled is an output that says when it holds a text.
type signalled struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	said chan struct{} // closed then
}

func (o *signalled) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := strings.Contains(o.text.String(), o.want)
	o.text.Write(b)
	if !before && strings.Contains(o.text.String(), o.want) {
		close(o.said)
	}
	return len(b), nil
}

// TestWaitIsTold: where the errors go to a file, too, a line says that the shell waits for a connection, and why. The
// server lets nobody in before it is written.
func TestWaitIsTold(t *testing.T) {
	t.Parallel()
	errs := &signalled{want: "waiting for up to 1h0m0s\n", said: make(chan struct{})}
	at := startZooid(t)
	shut := freeport.Serve(t, func(c net.Conn) {
		select {
		case <-errs.said:
		default:
			return
		}
		server, err := net.Dial("tcp", at)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, c)
			server.Close()
		}()
		_, _ = io.Copy(c, server)
	})
	var out strings.Builder
	code := Main("cli", []string{"-server", shut, "-timeout", "3600000", "ls", "/"},
		Streams{In: strings.NewReader(""), Out: &out, Err: errs}, "TEST")
	if code != 0 || out.String() != "[zookeeper]\n" || !strings.HasPrefix(errs.text.String(), "no connection to "+shut) {
		t.Errorf("exit code %d: %s%s", code, &out, &errs.text)
	}
}
