package shadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache/compare"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const help = `usage: zooid shadow -listen ADDRESS [flags] PRIMARY[,...] SHADOW[,...]

A proxy for clients of Apache ZooKeeper (the primary). It passes their bytes on unchanged, plays
every request to Zooid (the shadow) as well, and reports replies and watch events
that differ. Both trees must be equal at the start, and all clients of the primary must
come through this proxy. The primary's clients never wait for the shadow.

All connections use one server of the primary, and one of the shadow; the next one
named if it can't be reached. The primary sees one address: maxClientCnxns must allow
for that, and ACLs by ip don't tell clients apart.

  -listen ADDRESS  where clients connect
  -ignore LIST     fields that needn't be equal, such as cversion,acl. zxids and times
                   never are; session ids are mapped
  -every TIME      print the counts so often (1m); 0 prints them at the end only
  -max N           print at most this many differences (1000); all are counted
  -json            print each difference as a line of JSON
  -drain TIME      after an interrupt, play what has come before for so long (30s)

The shadow is reached by TLS with the flags of zooid cli: -tls, -tls-ca, -profile, ... The primary
is reached in plaintext. A client that speaks TLS is passed on, and not shadowed.

What isn't shadowed, and said: SASL logins, reconfig, sessions that began before the proxy did, and
connections for which the shadow is too slow. What differs because of that is unsure. docs/migration.md
tells more. It runs until it is interrupted (SIGINT or SIGTERM): clients go elsewhere at once, and
it ends when what has come before has been played, at the latest after -drain or a second interrupt.

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

// Reach provides the flags that say how to reach the shadow.
type Reach interface {
	// Take parses a flag and its value at the front of args.
	Take(args []string) (rest []string, ok bool, err error)
	Check() error
	Dial(ctx context.Context, server string) (net.Conn, error)
}

// settings holds the parsed command line.
type settings struct {
	Options
	listen string
	every  time.Duration
	max    int
	json   bool
	drain  time.Duration
}

// parse reads the command line. help is true if it asks for the help text.
func (s *settings) parse(args []string, reach Reach) (help bool, err error) {
	s.every, s.max, s.drain, s.DialShadow = time.Minute, 1000, 30*time.Second, reach.Dial
	var words []string
	for len(args) > 0 {
		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		switch {
		case !strings.HasPrefix(args[0], "-"):
			words, args = append(words, args[0]), args[1:]
			continue
		case name == "h" || name == "help":
			return true, nil
		case name == "json":
			s.json, args = true, args[1:]
			continue
		case strings.HasPrefix(name, "tls") || name == "profile":
			rest, ok, err := reach.Take(args)
			if err != nil || !ok {
				return false, errors.Join(err, fmt.Errorf("read the flag -%s", name))
			}
			args = rest
			continue
		}
		if args = args[1:]; !given {
			if len(args) == 0 {
				return false, fmt.Errorf("the flag -%s is unknown, or needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		if err := s.set(name, value); err != nil {
			return false, err
		}
	}
	if s.listen == "" || len(words) != 2 {
		return false, errors.New("name -listen ADDRESS, the primary and the shadow")
	}
	for i, to := range []*[]string{&s.Primary, &s.Shadow} {
		for address := range strings.SplitSeq(words[i], ",") {
			if _, _, err := net.SplitHostPort(address); err != nil {
				return false, fmt.Errorf("%q: want HOST:PORT[,HOST:PORT...]", words[i])
			}
			*to = append(*to, address)
		}
	}
	return false, reach.Check()
}

func (s *settings) set(name, value string) (err error) {
	switch name {
	case "listen":
		s.listen = value
	case "ignore":
		s.Ignored, err = compare.ParseIgnored(value)
	case "every":
		if s.every, err = time.ParseDuration(value); err == nil && s.every < 0 {
			err = errors.New("want no negative time")
		}
	case "drain":
		if s.drain, err = time.ParseDuration(value); err == nil && s.drain < 0 {
			err = errors.New("want no negative time")
		}
	case "max":
		if s.max, err = strconv.Atoi(value); err == nil && s.max < 0 {
			err = errors.New("want no negative number")
		}
	default:
		return fmt.Errorf("there is no flag -%s", name)
	}
	if err != nil {
		return fmt.Errorf("-%s %s: %w", name, value, err)
	}
	return nil
}

// Command runs zooid shadow and returns the exit code.
func Command(args []string, reach Reach, stdout, stderr io.Writer) int {
	var s settings
	wanted, err := s.parse(args, reach)
	if wanted {
		fmt.Fprint(stdout, help)
		return exitEqual
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid shadow: %s\n\n%s", terminal.Visible(err.Error()), help)
		return exitFailed
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		fmt.Fprintln(stderr, "zooid shadow:", terminal.Visible(err.Error()))
		return exitFailed
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return s.serve(ctx, l, stdout, stderr, func(*Proxy) {})
}

// patiently returns a context that ends some time after ctx, as the settings say, or at the next interrupt.
func (s *settings) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
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
func (s *settings) serve(ctx context.Context, l net.Listener, stdout, stderr io.Writer, begun func(*Proxy)) int {
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
	s.Say(fmt.Sprintf("clients are awaited at %v", l.Addr()))
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
		fmt.Fprintln(stderr, "zooid shadow:", terminal.Visible(err.Error()))
		return exitFailed
	case counts.Sum().Different > 0:
		return exitDiffers
	case !counts.Whole():
		return exitUnsure
	}
	return exitEqual
}
