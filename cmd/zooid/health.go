//go:build unix

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const healthHelp = `usage: zooid health [-alive] [-timeout 5s] [TLS flags] zoo.cfg

Asks the server that runs on this host with this zoo.cfg whether it can serve clients.
It asks the admin server if the file has admin.enableServer=true, otherwise the client
port by the word srvr. Prints "ready", or why the server isn't. With -alive, any answer
is enough, so that a server which waits for others isn't restarted. Exit codes: 0 ready,
or alive; 1 not ready; 2 not reachable.

If the port accepts TLS only, health uses the key and trust stores that the file names,
or the flags of zooid cli, such as -tls-ca, -tls-cert and -profile, or ZOOID_TLS_….
`

// Exit codes of health, drain and reload.
const (
	exitNotReady    = 1
	exitUnreachable = 2
)

// healthTimeout is how long health waits for an answer unless told otherwise.
const healthTimeout = 5 * time.Second

// runHealth asks a server whether it is ready.
func runHealth(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("health", flag.ContinueOnError)
	timeout, alive := flags.Duration("timeout", healthTimeout, ""), flags.Bool("alive", false, "")
	s, code := parseLocal(healthHelp, flags, args, stdout, stderr)
	if s.cfg == nil {
		return code
	}
	if !s.settle(stderr, "health") {
		return exitUnreachable
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	look := s.readiness
	if *alive {
		look = s.aliveness
	}
	reasons, err := look(ctx)
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "zooid health: not reachable: %s\n  hint: is the server running? zooid doctor %s examines it\n",
			terminal.OneLine(err.Error()), terminal.OneLine(flags.Arg(0)))
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

// aliveness is readiness for callers that only ask whether the server answers.
func (s *localServer) aliveness(ctx context.Context) ([]admin.Reason, error) {
	if !s.cfg.Admin.Enabled {
		return s.readinessByWord(ctx)
	}
	status, body, err := s.askAdmin(ctx, http.MethodGet, "/livez", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("it isn't live: status %d, %.60q", status, body)
	}
	return nil, err
}

// readiness asks the server for the reasons why it isn't ready.
func (s *localServer) readiness(ctx context.Context) ([]admin.Reason, error) {
	if !s.cfg.Admin.Enabled {
		return s.readinessByWord(ctx)
	}
	page, err := s.readyPage(ctx)
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
func (s *localServer) readyPage(ctx context.Context) (page ready, err error) {
	status, body, err := s.askAdmin(ctx, http.MethodGet, "/readyz", "")
	if err != nil {
		return page, err
	}
	if err := json.Unmarshal(body, &page); err != nil ||
		status != http.StatusOK && status != http.StatusServiceUnavailable {
		return page, fmt.Errorf("this isn't zooid's admin server: status %d, %.60q", status, body)
	}
	if !page.Ready && len(page.Reasons) == 0 {
		page.Reasons = []admin.Reason{{Text: "It gives no reason."}}
	}
	return page, nil
}

// whoServes asks the server that answers at the addresses of cfg for its state, and why it doesn't serve.
func whoServes(ctx context.Context, cfg *config.Config) (a proof.Answer, err error) {
	s := localServer{cfg: cfg}
	var reasons []admin.Reason
	if cfg.Admin.Enabled {
		var page ready
		if page, err = s.readyPage(ctx); err != nil {
			return a, err
		}
		reasons, a.Zooid = page.Reasons, true
		fmt.Sscanf(page.Zxid, "0x%x", &a.Zxid)
		fmt.Sscanf(page.Lineage, "%x", &a.Lineage)
	} else {
		text, err := s.word(ctx, "srvr")
		if err != nil {
			return a, err
		}
		if reasons, err = reasonsIn(text); err != nil {
			return a, err
		}
		for line := range strings.Lines(text) {
			if version, ok := strings.CutPrefix(line, "Zookeeper version: "); ok {
				a.Version = strings.TrimSpace(version)
			}
			fmt.Sscanf(line, "Zxid: 0x%x", &a.Zxid)
		}
		// A server that doesn't serve yet gives no version.
		a.Zooid = strings.Contains(a.Version, "-zooid-") || a.Version == "" && len(reasons) > 0
		if more, err := s.word(ctx, "mntr"); err == nil { // or it isn't in the whitelist
			for line := range strings.Lines(more) {
				fmt.Sscanf(line, "zk_zooid_lineage\t%x", &a.Lineage)
			}
		}
	}
	for _, r := range reasons {
		a.Reasons = append(a.Reasons, r.Text)
	}
	return a, nil
}

// readinessByWord checks readiness with the four-letter word srvr, which every server answers.
func (s *localServer) readinessByWord(ctx context.Context) ([]admin.Reason, error) {
	text, err := s.word(ctx, "srvr")
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
			{Code: admin.ReasonReadOnly, Text: "The server is cut off from its ensemble and serves only reads."},
		}, nil
	case strings.Contains(text, "\nDRAINED;"):
		return []admin.Reason{{Code: admin.ReasonDraining, Text: admin.DrainingText}}, nil
	case !strings.HasPrefix(text, "Zookeeper version:"):
		return nil, fmt.Errorf("the answer doesn't come from a server: %.60q", text)
	}
	return nil, nil
}
