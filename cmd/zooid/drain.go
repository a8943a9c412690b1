//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const drainHelp = `usage: zooid drain [-undo | -force -why REASON] [-auth SCHEME:CREDENTIAL | TLS flags] zoo.cfg

Moves the work of the server on this host to the other servers of the ensemble: it
refuses new clients, transfers leadership, and closes its clients' connections once
another server leads. It stays a member until it is stopped. Drain one server after the
other. SIGTERM needs no drain before it: a server that stops transfers leadership, too.

The admin server must run (admin.enableServer=true). The caller must be the server's user
or root, which can read admin.token in the data directory. Any other caller needs all
permissions on /, with a credential (-auth, such as digest:user:password), a certificate
(-tls-cert, -tls-key) or a profile (-profile).

The leader refuses a drain unless a majority of the voters keeps serving, not counting
voters that are drained or don't report to it. After a refusal, the server serves as
before. With -force it drains without asking; the reason is written to its log. -undo
makes a drained server accept clients again; a restart does the same.
Exit codes: 0 drained, or undone; 1 not drained; 2 not reachable.
`

const reloadHelp = `usage: zooid reload [-auth SCHEME:CREDENTIAL | TLS flags] zoo.cfg

Makes the server on this host reread its zoo.cfg and its key and trust stores, as SIGHUP
does, and prints which settings have taken effect and which need a restart.

The admin server must run (admin.enableServer=true). The caller must be the server's user
or root, which can read admin.token in the data directory. Any other caller needs all
permissions on /, with a credential (-auth, such as digest:user:password), a certificate
(-tls-cert, -tls-key) or a profile (-profile).
Exit codes: 0 done, 1 not done, 2 not reachable.
`

// commandPatience is how much longer these commands wait than the server does.
const commandPatience = 10 * time.Second

// runDrain drains the server on this host.
func runDrain(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("drain", flag.ContinueOnError)
	undo, force, why := flags.Bool("undo", false, ""), flags.Bool("force", false, ""), flags.String("why", "", "")
	query := func() (url.Values, error) {
		switch {
		case *undo && *force:
			return nil, errors.New("-undo and -force exclude each other")
		case *force != (*why != ""):
			return nil, errors.New("-force and -why REASON must be given together")
		case *undo:
			return url.Values{"undo": {"true"}}, nil
		case *force:
			return url.Values{"why": {*why}}, nil
		}
		return nil, nil
	}
	s, answer, code := runAdminCommand(flags, drainHelp, query, args, stdout, stderr)
	switch {
	case code != 0 || answer == nil:
	case *undo:
		fmt.Fprintln(stdout, "not drained: the server accepts clients")
	default:
		fmt.Fprintln(stdout, "drained: another server leads, and new clients are turned away; the server listens on",
			s.cfg.Admin.Host, "until it is stopped")
	}
	return code
}

// runReload makes the server on this host read its configuration again.
func runReload(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("reload", flag.ContinueOnError)
	_, answer, code := runAdminCommand(flags, reloadHelp, nil, args, stdout, stderr)
	if code == 0 && answer != nil {
		list := func(names []string) string {
			if len(names) == 0 {
				return "nothing"
			}
			return terminal.OneLine(strings.Join(names, ", "))
		}
		fmt.Fprintf(stdout, "in force: %s\nneeds a restart: %s\n", list(answer.InForce), list(answer.NeedRestart))
	}
	return code
}

// An adminAnswer is the part of the admin server's answer that these commands use.
type adminAnswer struct {
	Error       *string
	InForce     []string `json:"in_force"`
	NeedRestart []string `json:"need_restart"`
}

// ownToken returns the admin server's token as an identity, or "" if this process can't read it, or an earlier version
// runs, which has none.
func ownToken(cfg *config.Config) string {
	text, err := os.ReadFile(adminToken(cfg))
	if err != nil {
		return ""
	}
	return admin.TokenScheme + ":" + strings.TrimSpace(string(text))
}

// runAdminCommand sends the guarded command that flags is named after to the admin server on this host, with the
// parameters that query returns once the flags are parsed; query may be nil. answer is nil if there is none.
func runAdminCommand(flags *flag.FlagSet, help string, query func() (url.Values, error), args []string,
	stdout, stderr io.Writer) (s localServer, answer *adminAnswer, code int) {
	name, parameters := flags.Name(), ""
	if s, code = parseLocal(help, flags, args, stdout, stderr); s.cfg == nil {
		return s, nil, code
	}
	refused := func(format string, v ...any) (localServer, *adminAnswer, int) {
		fmt.Fprintf(stderr, "zooid "+name+": "+format+"\n", v...)
		return s, nil, exitUnreachable
	}
	if !s.cfg.Admin.Enabled {
		return refused("the server has no admin server to ask; set admin.enableServer=true and restart it")
	}
	who, err := s.identity()
	if err != nil {
		return refused("%s", terminal.OneLine(err.Error()))
	}
	if query != nil {
		values, err := query()
		if err != nil {
			return refused("%v", err)
		}
		if values != nil {
			parameters = "?" + values.Encode()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Admin.DrainTimeout+commandPatience)
	defer cancel()
	path := strings.TrimSuffix(s.cfg.Admin.CommandURL, "/") + "/" + name + parameters
	status, body, err := s.askAdmin(ctx, http.MethodPost, path, strings.Replace(who, ":", " ", 1))
	if err != nil {
		return refused("not reachable: %s\n  hint: is the server running? zooid doctor %s examines it",
			terminal.OneLine(err.Error()), terminal.OneLine(flags.Arg(0)))
	}
	answer = &adminAnswer{}
	if err := json.Unmarshal(body, answer); err != nil {
		return refused("this isn't zooid's admin server: status %d, %.60q", status, body)
	}
	if answer.Error != nil || status != http.StatusOK {
		why := http.StatusText(status)
		if answer.Error != nil {
			why = *answer.Error
		}
		fmt.Fprintf(stderr, "zooid %s: %s\n", name, terminal.OneLine(why))
		return s, nil, exitNotReady
	}
	return s, answer, 0
}

// identity determines the caller's identity: the one that the command line names, directly or by a profile; else the
// reader of the admin server's token; else the one that the environment names, which may be an application's.
func (s *localServer) identity() (string, error) {
	r := s.reach.Reach()
	flagged := len(r.Identities()) > 0 || r.Keys.Location != ""
	if flagged && r.Keys.Location != "" && (!s.cfg.Admin.ForceHTTPS || len(r.Identities()) > 0) {
		return "", errors.New("-tls-cert proves the caller only to an admin server with admin.forceHttps=true, without -auth")
	}
	token := ownToken(s.cfg)
	if !flagged && r.Profile == "" && token != "" {
		return token, nil
	}
	if err := s.reach.Check(); err != nil {
		return "", err
	}
	switch all := r.Identities(); {
	case len(all) > 1:
		return "", fmt.Errorf("the admin server accepts one identity, but %d were given", len(all))
	case len(all) == 1:
		return strings.TrimSuffix(all[0].Scheme+":"+string(all[0].Auth), ":"), nil
	case r.Keys.Location != "" && s.cfg.Admin.ForceHTTPS:
		return "x509", nil
	}
	return cmp.Or(token, "ip"), nil
}
