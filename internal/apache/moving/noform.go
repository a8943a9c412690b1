//go:build unix

package moving

import (
	"fmt"
	"io"
	"strings"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
)

// noFormLater describes data that a server with this configuration may later hold and that Apache can't represent, a
// line each.
func noFormLater(cfg *config.Config) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !cfg.Sessions.ApachePasswords {
		say("sessions opened in Zooid end when you go back: Apache refuses their passwords. To keep them, set session.apachePasswords=true in each server's zoo.cfg before it starts, for as long as you may go back")
	}
	if cfg.Client.Port < 0 {
		say("the live way back (zooid migrate back) queries the server's plaintext client port, and there is none: set one on 127.0.0.1 (clientPort, clientPortAddress), or zooid export is the only way back")
	}
	if cfg.Tree.TTL {
		say("znodes with a TTL may be created: Apache needs -Dzookeeper.extendedTypesEnabled=true, or it deletes them. extendedTypesEnabled=false in the zoo.cfg refuses them")
	}
	if alg := cfg.Auth.DigestAlg; alg != "SHA1" && alg != "SHA-1" {
		say("passwords in new ACLs of the scheme digest are hashed by %s: Apache needs the same DigestAuthenticationProvider.digestAlg, or they admit nobody there",
			alg)
	}
	var schemes []string
	if cfg.Auth.Bearer.Issuer != "" {
		schemes = append(schemes, "bearer")
	}
	for _, e := range cfg.Auth.External {
		schemes = append(schemes, e.Scheme)
	}
	if len(schemes) > 0 {
		say("ACLs of these schemes admit nobody in Apache, unless it has a provider for them: %s", strings.Join(schemes, " "))
	}
	if cfg.Sessions.Local {
		say("local sessions (localSessionsEnabled) end with their server, so they also end when you go back")
	}
	return lines
}

// tellNoForm reports the data that can't return to Apache. All other data can.
func tellNoForm(say func(string), lines []string) {
	if len(lines) == 0 {
		say("the way back: Apache can represent everything")
	}
	for _, line := range lines {
		say("the way back: " + line)
	}
}

// checkBack reports in advance what zooid migrate back and zooid export would refuse, and what Apache can't represent.
func (p *Program) checkBack(cfg *config.Config, stdout io.Writer) (int, error) {
	dirs := []string{cfg.Storage.DataDir}
	if cfg.Storage.DataLogDir != cfg.Storage.DataDir {
		dirs = append(dirs, cfg.Storage.DataLogDir)
	}
	t, _, err := txnlog.Newest(txnlog.Options{Dirs: dirs, Reconfigure: p.Reconfigure})
	if err != nil {
		return exitFailed, err
	}
	now := apache.Survey(t)
	tellNoForm(func(text string) { fmt.Fprintln(stdout, terminal.Visible(text)) },
		append(now.Lines(), noFormLater(cfg)...))
	if cfg.Client.Port < 0 {
		return exitFailed, nil
	}
	return exitDone, nil
}
