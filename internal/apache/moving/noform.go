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

// noForm describes the parts of a tree that Apache can't represent, a line each.
func noForm(n *apache.NoForm) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if n.Strangers > 0 {
		say("%d sessions have passwords issued by Zooid, which Apache refuses: their clients see them expire, and their ephemeral znodes stay until the session timeout",
			n.Strangers)
	}
	if n.TTLs > 0 {
		say("%d znodes have a TTL: start Apache with -Dzookeeper.extendedTypesEnabled=true, or it deletes them", n.TTLs)
	}
	if n.Large > 0 {
		say("%d znodes have more than 1048575 bytes of data: set Apache's jute.maxbuffer large enough for them, or it may not start",
			n.Large)
	}
	if len(n.Exhausted) > 0 {
		say("sequence numbers below these znodes are beyond 2147483647, which Apache can't continue: %s",
			strings.Join(n.Exhausted, " "))
	}
	if len(n.Rules) > 0 {
		say("limits and policies have no effect in Apache, which stores them as plain znodes: %s", strings.Join(n.Rules, " "))
	}
	if len(n.Schemes) > 0 {
		say("ACLs of these schemes admit nobody in Apache, unless it has a provider for them: %s", strings.Join(n.Schemes, " "))
	}
	return lines
}

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
		append(noForm(&now), noFormLater(cfg)...))
	if cfg.Client.Port < 0 {
		return exitFailed, nil
	}
	return exitDone, nil
}
