//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/fourletter/ask"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/moving/proof"
	"github.com/zooid-project/zooid/internal/terminal"
)

const healthHelp = `usage: zooid health [-alive] [-timeout 5s] zoo.cfg

Asks the server on this host that runs with this zoo.cfg if it can serve clients: its
admin server if the file has admin.enableServer=true, else its client port by the word
srvr. Prints "ready", or why not. With -alive an answer is enough, so that a server which
waits for others isn't restarted for it. Exit codes: 0 ready, or alive; 1 not ready;
2 not reachable.
`

// Exit codes of health, drain and reload.
const (
	exitNotReady    = 1
	exitUnreachable = 2
)

// healthTimeout is how long health waits for an answer unless told otherwise.
const healthTimeout = 5 * time.Second

// answerBytesMax bounds the answers that these commands read.
const answerBytesMax = 1 << 20

// runHealth asks a server whether it is ready.
func runHealth(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("health", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, healthHelp) }
	timeout, alive := flags.Duration("timeout", healthTimeout, ""), flags.Bool("alive", false, "")
	cfg, code := localConfig("health", healthHelp, flags, args, stdout, stderr)
	if cfg == nil {
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	look := readiness
	if *alive {
		look = aliveness
	}
	reasons, err := look(ctx, cfg)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "zooid health: not reachable:", terminal.OneLine(err.Error()))
		return exitUnreachable
	case *alive:
		fmt.Fprintln(stdout, "alive")
		return 0
	case len(reasons) > 0:
		for _, why := range reasons {
			fmt.Fprintln(stdout, "not ready:", terminal.OneLine(why.Text))
		}
		return exitNotReady
	}
	fmt.Fprintln(stdout, "ready")
	return 0
}

// localConfig parses the arguments of commands that query the server on this host. If cfg
// is nil, the caller exits with code.
func localConfig(name, help string, flags *flag.FlagSet, args []string,
	stdout, stderr io.Writer) (cfg *config.Config, code int) {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, help)
		return nil, 0
	}
	if flags.Parse(args) != nil {
		return nil, exitUnreachable
	}
	if flags.NArg() != 1 {
		fmt.Fprint(stderr, help)
		return nil, exitUnreachable
	}
	cfg, err := config.Load(flags.Arg(0), nil)
	if err != nil {
		fmt.Fprintf(stderr, "zooid %s: %v\n", name, err)
		return nil, exitUnreachable
	}
	return cfg, 0
}

// aliveness is readiness for callers who only ask whether the server of cfg answers.
func aliveness(ctx context.Context, cfg *config.Config) ([]admin.Reason, error) {
	if !cfg.Admin.Enabled {
		return readinessByWord(ctx, cfg)
	}
	status, body, err := askAdmin(ctx, cfg, http.MethodGet, "/livez", "", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("it isn't alive: status %d, %.60q", status, body)
	}
	return nil, err
}

// readiness asks the server of cfg for the reasons why it isn't ready.
func readiness(ctx context.Context, cfg *config.Config) ([]admin.Reason, error) {
	if !cfg.Admin.Enabled {
		return readinessByWord(ctx, cfg)
	}
	page, err := readyPage(ctx, cfg)
	return page.Reasons, err
}

// A ready is the page /readyz of the admin server. Before the server knows them, and in earlier versions, it has no
// zxid and no lineage.
type ready struct {
	Ready         bool
	Reasons       []admin.Reason
	Zxid, Lineage string
}

// readyPage asks the admin server for /readyz.
func readyPage(ctx context.Context, cfg *config.Config) (page ready, err error) {
	status, body, err := askAdmin(ctx, cfg, http.MethodGet, "/readyz", "", nil)
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(body, &page); err != nil ||
		status != http.StatusOK && status != http.StatusServiceUnavailable {
		return page, fmt.Errorf("what answers there is no admin server of zooid: status %d, %.60q", status, body)
	}
	if !page.Ready && len(page.Reasons) == 0 {
		page.Reasons = []admin.Reason{{Text: "It gives no reason."}}
	}
	return page, nil
}

// whoServes asks whoever answers at the addresses of cfg what it is, and why it doesn't serve.
func whoServes(ctx context.Context, cfg *config.Config) (s proof.Answer, err error) {
	var reasons []admin.Reason
	if cfg.Admin.Enabled {
		var page ready
		if page, err = readyPage(ctx, cfg); err != nil {
			return s, err
		}
		reasons, s.Zooid = page.Reasons, true
		fmt.Sscanf(page.Zxid, "0x%x", &s.Zxid)
		fmt.Sscanf(page.Lineage, "%x", &s.Lineage)
	} else {
		text, err := askServer(ctx, cfg, "srvr")
		if err != nil {
			return s, err
		}
		if reasons, err = reasonsIn(text); err != nil {
			return s, err
		}
		for line := range strings.Lines(text) {
			if version, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
				s.Version = strings.TrimSpace(version)
			}
			fmt.Sscanf(line, "Zxid: 0x%x", &s.Zxid)
		}
		// A server that doesn't serve yet gives no version.
		s.Zooid = strings.Contains(s.Version, "-zooid-") || s.Version == "" && len(reasons) > 0
		if more, err := askServer(ctx, cfg, "mntr"); err == nil { // or it isn't in the whitelist
			for line := range strings.Lines(more) {
				fmt.Sscanf(line, "zk_zooid_lineage\t%x", &s.Lineage)
			}
		}
	}
	for _, r := range reasons {
		s.Reasons = append(s.Reasons, r.Text)
	}
	return s, nil
}

// askServer asks the server of cfg a four-letter word.
func askServer(ctx context.Context, cfg *config.Config, word string) (string, error) {
	at := cfg.Client
	if own, ok := cfg.Quorum.Members.Find(cfg.Quorum.MyID); ok && !own.Client.IsZero() {
		at = own.Client
	}
	if at.Port < 0 {
		return "", errors.New("it takes clients over TLS alone; set admin.enableServer=true to have it asked over HTTP")
	}
	return ask.Word(ctx, nil, here(at.Host, at.Port), word, answerBytesMax)
}

// readinessByWord checks readiness with the four-letter word srvr, which every server answers.
func readinessByWord(ctx context.Context, cfg *config.Config) ([]admin.Reason, error) {
	text, err := askServer(ctx, cfg, "srvr")
	if err != nil {
		return nil, err
	}
	return reasonsIn(text)
}

// reasonsIn finds in an answer to srvr why the server isn't ready.
func reasonsIn(text string) ([]admin.Reason, error) {
	switch {
	case strings.Contains(text, "not currently serving"):
		return []admin.Reason{{Code: admin.ReasonNoQuorum, Text: strings.TrimSpace(text)}}, nil
	case strings.Contains(text, "READ-ONLY mode"):
		return []admin.Reason{
			{Code: admin.ReasonReadOnly, Text: "The server is cut off from its ensemble and serves reads alone."},
		}, nil
	case strings.Contains(text, "\nDRAINED;"):
		return []admin.Reason{{Code: admin.ReasonDraining, Text: admin.DrainingText}}, nil
	case !strings.HasPrefix(text, "Zookeeper version:"):
		return nil, fmt.Errorf("what answers there is no server: %.60q", text)
	}
	return nil, nil
}

// here returns the address to dial on this machine for a server that listens on host and port.
func here(host string, port int) string {
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// askAdmin sends a request to the admin server of cfg, over TLS if the server accepts
// nothing else, and returns the status and the body.
func askAdmin(ctx context.Context, cfg *config.Config, method, path, authorization string,
	body io.Reader) (int, []byte, error) {
	url := "http://"
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	if cfg.Admin.ForceHTTPS {
		url = "https://"
		var err error
		if transport.TLSClientConfig, err = adminClientTLS(cfg); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url+here(cfg.Admin.Host, cfg.Admin.Port)+path, body)
	if err != nil {
		return 0, nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return answerTo(req, transport)
}

// answerTo returns the status and the body of the answer to a request, at most answerBytesMax bytes.
func answerTo(req *http.Request, by http.RoundTripper) (int, []byte, error) {
	res, err := (&http.Client{Transport: by}).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	return res.StatusCode, answer, err
}

// adminClientTLS returns a configuration that presents the server's own certificate and accepts any
// certificate that the trust store verifies, whatever host it names: the server is on this host.
func adminClientTLS(cfg *config.Config) (*tls.Config, error) {
	o := adminPortOptions(cfg, slog.New(slog.DiscardHandler))
	if o.Trust.Location == "" {
		return nil, errors.New("the admin server's certificate can't be verified: there is no trust store; set ssl.quorum.trustStore.location")
	}
	port, err := keystore.NewPort(o)
	if err != nil {
		return nil, err
	}
	return port.Dialled("localhost", false), nil
}
