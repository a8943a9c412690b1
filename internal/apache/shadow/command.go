package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache/compare"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// Help is the help text of zooid shadow.
const Help = `usage: zooid shadow -listen ADDRESS [flags] PRIMARY[,...] SHADOW[,...]

A proxy for clients of Apache ZooKeeper (the primary). It forwards their bytes unchanged, sends
every request to Zooid (the shadow) as well, and reports the replies and watch events that
differ. Both trees must be equal at the start, and all clients of the primary must connect
through this proxy. They never wait for the shadow.

  zooid shadow -listen :2181 zk1:2182 zooid1:2181

All connections use one server of the primary and one of the shadow: the first named that can be
reached. To the primary, all clients have the proxy's address: maxClientCnxns must allow that
many, and ACLs with the scheme ip can't tell clients apart.

  -listen ADDRESS  where clients connect
  -ignore LIST     fields that may differ, such as cversion,acl. Zxids and times always may;
                   session ids are mapped
  -every TIME      how often to print the counts (1m); 0 prints them only at the end
  -max N           print at most N differences (1000); all are counted
  -json            print each difference as a line of JSON
  -drain TIME      how long to send pending requests to the shadow after an interrupt (30s)

The shadow is reached by TLS with the flags of zooid cli: -tls, -tls-ca, -profile, ... The primary
is reached in plaintext. Connections of clients that use TLS are forwarded, but not compared.

Not compared, and reported: SASL logins, reconfig, sessions older than the proxy, and connections
for which the shadow is too slow. A difference that these may have caused is reported as unsure;
see docs/migration.md. The proxy runs until SIGINT or SIGTERM. It then closes its clients'
connections at once, and ends when all pending requests were compared, after the time of -drain, or
at a second interrupt.

exit code: 0 everything was equal; 1 something differed; 2 wrong arguments, or it can't
listen; 3 nothing differed, but not everything was compared.
`

// The exit codes.
const (
	exitEqual   = 0
	exitDiffers = 1
	exitFailed  = 2
	exitUnsure  = 3
)

// Settings are what the command line of zooid shadow says.
type Settings struct {
	Options
	listen string
	every  time.Duration
	max    int
	json   bool
	drain  time.Duration
}

// Register adds the flags that set s.
func (s *Settings) Register(flags *flag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "", "")
	flags.Func("ignore", "", func(value string) (err error) {
		s.Ignored, err = compare.ParseIgnored(value)
		return err
	})
	flags.DurationVar(&s.every, "every", time.Minute, "")
	flags.DurationVar(&s.drain, "drain", 30*time.Second, "")
	flags.IntVar(&s.max, "max", 1000, "")
	flags.BoolVar(&s.json, "json", false, "")
}

// Arguments takes the other arguments, and checks them and the flags.
func (s *Settings) Arguments(words []string) error {
	switch {
	case s.every < 0 || s.drain < 0 || s.max < 0:
		return errors.New("-every, -drain and -max must not be negative")
	case s.listen == "" || len(words) != 2:
		return errors.New("name -listen ADDRESS, the primary and the shadow")
	}
	for i, to := range []*[]string{&s.Primary, &s.Shadow} {
		for address := range strings.SplitSeq(words[i], ",") {
			if _, _, err := net.SplitHostPort(address); err != nil {
				return fmt.Errorf("%q: want HOST:PORT[,HOST:PORT...]", words[i])
			}
			*to = append(*to, address)
		}
	}
	return nil
}

// Run serves clients until ctx ends, and returns the exit code.
func (s *Settings) Run(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return exitFailed, err
	}
	return s.serve(ctx, l, stdout, stderr, func(*Proxy) {})
}

// patiently returns a context that ends some time after ctx, as the settings say, or at the next interrupt.
func (s *Settings) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	playing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer cancel()
		next, stop := signal.NotifyContext(playing, os.Interrupt, syscall.SIGTERM)
		defer stop()
		select {
		case <-next.Done():
		case <-time.After(s.drain):
		}
	})
	return playing, cancel
}

// serve serves clients until ctx ends, plays what is left, and returns the exit code. It calls begun with the proxy.
func (s *Settings) serve(ctx context.Context, l net.Listener, stdout, stderr io.Writer,
	begun func(*Proxy)) (int, error) {
	var mu sync.Mutex // guards stderr
	s.Say = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(stderr, time.Now().Format(time.DateTime), terminal.OneLine(terminal.Visible(text)))
	}
	told := 0
	s.Tell = func(d *Difference) {
		if told++; told > s.max {
			if told == s.max+1 {
				s.Say(fmt.Sprintf("%d differences have been printed; further ones are only counted (-max)", s.max))
			}
			return
		}
		if s.json {
			json.NewEncoder(stdout).Encode(d)
			return
		}
		fmt.Fprintln(stdout, terminal.OneLine(terminal.Visible(d.String())))
	}
	p := New(s.Options)
	begun(p)
	s.Say(fmt.Sprintf("listening for clients at %v", l.Addr()))
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() {
		for s.every > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.every):
				counts := p.Counts()
				mu.Lock()
				fmt.Fprint(stderr, time.Now().Format(time.DateTime), " ", terminal.Visible(counts.String()))
				mu.Unlock()
			}
		}
	})
	playing, leave := s.patiently(ctx)
	err := p.Run(ctx, playing, l)
	leave()
	cancel()
	reports.Wait()
	counts := p.Counts()
	fmt.Fprint(stderr, terminal.Visible(counts.String()))
	switch {
	case err != nil:
		return exitFailed, err
	case counts.Sum().Different > 0:
		return exitDiffers, nil
	case !counts.Whole():
		return exitUnsure, nil
	}
	return exitEqual, nil
}
