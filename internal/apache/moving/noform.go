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

// noForm describes what Apache can't represent of a tree, a line each.
func noForm(n *apache.NoForm) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if n.Strangers > 0 {
		say("%d sessions have passwords of Zooid's, which Apache refuses: their clients are told that they have expired, and their ephemeral znodes stay until their timeouts",
			n.Strangers)
	}
	if n.TTLs > 0 {
		say("%d znodes have a TTL: start Apache with -Dzookeeper.extendedTypesEnabled=true, or it deletes them", n.TTLs)
	}
	if n.Large > 0 {
		say("%d znodes have more than 1048575 bytes of data: start Apache with a jute.maxbuffer that they fit into, or it may not start",
			n.Large)
	}
	if len(n.Exhausted) > 0 {
		say("sequence numbers below these znodes are beyond 2147483647, which Apache can't continue: %s",
			strings.Join(n.Exhausted, " "))
	}
	if len(n.Rules) > 0 {
		say("limits and policies have no effect at Apache, which keeps them as plain znodes: %s", strings.Join(n.Rules, " "))
	}
	if len(n.Schemes) > 0 {
		say("ACLs of these schemes admit nobody at Apache, unless it has a provider for them: %s", strings.Join(n.Schemes, " "))
	}
	return lines
}

// noFormLater describes what a server with this configuration may later hold that Apache can't represent, a line each.
func noFormLater(cfg *config.Config) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if !cfg.Sessions.ApachePasswords {
		say("sessions that begin in Zooid end at the way back: Apache refuses their passwords. session.apachePasswords=true in the zoo.cfg of each server, before it starts, keeps them, for the days in which you may go back")
	}
	if cfg.Client.Port < 0 {
		say("the live way back (zooid migrate back) asks the server at a plaintext client port, and there is none: give it one on 127.0.0.1 (clientPort, clientPortAddress), or only zooid export leads back")
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
		say("ACLs of these schemes admit nobody at Apache, unless it has a provider for them: %s", strings.Join(schemes, " "))
	}
	if cfg.Sessions.Local {
		say("local sessions (localSessionsEnabled) end with their server, at the way back as well")
	}
	return lines
}

// tellNoForm reports what can't be taken back to Apache; everything else can.
func tellNoForm(say func(string), lines []string) {
	if len(lines) == 0 {
		say("the way back: nothing that Apache has no form for")
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
