//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/cli"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/terminal"
)

const topHelp = `usage: zooid top [-n ROUNDS] [-i 2s] [-k 10] [-bytes] [-json] zoo.cfg
       zooid top [-n ROUNDS] [-i 2s] [-k 10] [-bytes] [-json] [TLS flags] HOST[:PORT]

Shows what a server's clients ask for most: paths, sessions, identities and operations by
requests a second, or with -bytes by bytes a second. It asks the admin server
(admin.enableServer=true): the one of this zoo.cfg on this host, or the one at HOST, whose
port is 8080 unless given; over TLS with the flags of zooid cli, such as -tls-ca, -tls-cert
and -profile. The rates are of the last seconds, the latest of which count most; of many
requests some are looked at. On a terminal it goes on until Ctrl-C, else it shows them once;
-n says how often, -i how long between, -k how many of each kind.
Exit codes: 0 shown, 1 the server shows nothing, 2 not reachable or wrong arguments.
`

// Limits and defaults of top.
const (
	topInterval  = 2 * time.Second
	topPatience  = 10 * time.Second // for one answer
	topKeys      = 10
	topKeysMax   = 50 // an answer with this many is smaller than answerBytesMax
	topAdminPort = 8080
)

// runTop shows what is busiest on a server.
func runTop(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("top", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, topHelp) }
	t := topScreen{out: stdout, live: terminal.Is(stdout), colours: terminal.Colours(stdout)}
	rounds := flags.Int("n", 0, "")
	interval := flags.Duration("i", topInterval, "")
	flags.IntVar(&t.keys, "k", topKeys, "")
	flags.BoolVar(&t.bytes, "bytes", false, "")
	flags.BoolVar(&t.json, "json", false, "")
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, topHelp)
		return 0
	}
	var reach cli.Access
	var others []string
	for len(args) > 0 {
		rest, taken, err := reach.Take(args)
		if err != nil {
			fmt.Fprintf(stderr, "zooid top: %s\n", terminal.OneLine(err.Error()))
			return exitUnreachable
		}
		if !taken {
			others, rest = append(others, args[0]), args[1:]
		}
		args = rest
	}
	if flags.Parse(others) != nil {
		return exitUnreachable
	}
	if flags.NArg() != 1 || t.keys < 1 || t.keys > topKeysMax || *interval <= 0 || *rounds < 0 {
		fmt.Fprint(stderr, topHelp)
		return exitUnreachable
	}
	var err error
	if t.ask, err = topServer(flags.Arg(0), &reach); err != nil {
		fmt.Fprintf(stderr, "zooid top: %s\n", terminal.OneLine(err.Error()))
		return exitUnreachable
	}
	if *rounds == 0 && !t.live {
		*rounds = 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for round := 1; ; round++ {
		if code, err := t.round(ctx, *rounds != 1); err != nil && ctx.Err() == nil {
			fmt.Fprintf(stderr, "zooid top: %s\n", terminal.OneLine(err.Error()))
			return code
		}
		if round == *rounds {
			return 0
		}
		select {
		case <-ctx.Done():
			return 0 // the usual way to end top
		case <-time.After(*interval):
		}
	}
}

// topServer returns what asks the admin server of a zoo.cfg, or at a host, which reach says how to reach.
func topServer(arg string, reach *cli.Access) (topAsk, error) {
	if _, err := os.Stat(arg); err == nil || strings.HasSuffix(arg, ".cfg") {
		cfg, err := config.Load(arg, nil)
		if err == nil && !cfg.Admin.Enabled {
			err = errors.New("the server has no admin server to ask; set admin.enableServer=true and restart it")
		}
		return func(ctx context.Context, command string) (int, []byte, error) {
			path := strings.TrimSuffix(cfg.Admin.CommandURL, "/") + command
			return askAdmin(ctx, cfg, http.MethodGet, path, "", nil)
		}, err
	}
	host, port, err := net.SplitHostPort(arg)
	if err != nil {
		host, port = strings.Trim(arg, "[]"), strconv.Itoa(topAdminPort)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || strings.ContainsAny(host, "/@?#") {
		return nil, fmt.Errorf("%.80q is neither a file nor HOST[:PORT]", arg)
	}
	if err := reach.Check(); err != nil {
		return nil, err
	}
	base := "http://"
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	if reach.Secure() {
		base = "https://"
		transport.DialTLSContext = func(ctx context.Context, _, at string) (net.Conn, error) { return reach.Dial(ctx, at) }
	}
	base += here(host, int(n)) + "/commands"
	return func(ctx context.Context, command string) (int, []byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+command, nil)
		if err != nil {
			return 0, nil, err
		}
		return answerTo(req, transport)
	}, nil
}

// A topAsk asks an admin server by a command, and returns the status and the body of its answer.
type topAsk func(ctx context.Context, command string) (status int, body []byte, err error)

// A topAnswer is the answer to the command top.
type topAnswer struct {
	Error      *string
	Requests   float64                  `json:"requests_per_second"`
	Bytes      float64                  `json:"bytes_per_second"`
	Every      int                      `json:"sampled_every"`
	ByRequests map[string][]busiestJSON `json:"by_requests"`
	ByBytes    map[string][]busiestJSON `json:"by_bytes"`
}

type busiestJSON struct {
	Key       string
	PerSecond float64 `json:"per_second"`
}

// A topScreen prints answers.
type topScreen struct {
	ask                        topAsk
	out                        io.Writer
	live, colours, bytes, json bool
	keys                       int
}

// round asks once and prints the answer; if err is not nil, code is the exit code.
func (t *topScreen) round(ctx context.Context, again bool) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, topPatience)
	defer cancel()
	status, body, err := t.ask(ctx, "/top?n="+strconv.Itoa(t.keys))
	if err != nil {
		return exitUnreachable, fmt.Errorf("not reachable: %w", err)
	}
	var answer topAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return exitUnreachable, fmt.Errorf("what answers there is no admin server of zooid: status %d, %.60q", status, body)
	}
	if answer.Error != nil {
		return exitNotReady, errors.New(*answer.Error)
	}
	var text bytes.Buffer
	if t.json {
		if err := json.Compact(&text, body); err != nil {
			return exitUnreachable, err
		}
		_, err = fmt.Fprintf(t.out, "%s\n", terminal.VisibleJSON(text.Bytes()))
		return exitNotReady, err
	}
	if t.live && again {
		text.WriteString(terminal.Cleared)
	}
	t.table(&text, &answer)
	_, err = t.out.Write(text.Bytes())
	return exitNotReady, err
}

// table prints an answer as text.
func (t *topScreen) table(w io.Writer, answer *topAnswer) {
	looked := ""
	if answer.Every > 1 {
		looked = fmt.Sprintf("; one of %d looked at", answer.Every)
	}
	fmt.Fprintf(w, "%s requests/s, %s/s%s\n", quantity(answer.Requests, 1000, ""), quantity(answer.Bytes, 1024, "B"),
		looked)
	lists, unit, base := answer.ByRequests, "REQ/S", 1000.0
	if t.bytes {
		lists, unit, base = answer.ByBytes, "B/S", 1024
	}
	width := terminal.Columns(t.out)
	for _, kind := range []string{"paths", "sessions", "identities", "operations"} {
		head := fmt.Sprintf("%9s  %s", unit, strings.ToUpper(kind))
		if t.colours {
			head = "\x1b[1m" + head + "\x1b[0m"
		}
		fmt.Fprintf(w, "\n%s\n", head)
		for _, e := range lists[kind] {
			line := []rune(fmt.Sprintf("%9s  %s", quantity(e.PerSecond, base, ""), terminal.OneLine(e.Key)))
			if t.live && width > 0 && len(line) > width {
				line = append(line[:width-1], '…')
			}
			fmt.Fprintln(w, string(line))
		}
	}
}

// quantity formats a number with three or four digits and a unit.
func quantity(n, base float64, unit string) string {
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if n < base {
			break
		}
		n, prefix = n/base, p
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	if n < 100 {
		text = strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	if prefix+unit != "" {
		text += " " + prefix + unit
	}
	return text
}
