package main

import (
	"errors"
	"log/slog"

	"github.com/zooid-project/zooid/internal/config"
)

// localSessions refuses localSessionsEnabled where it would show that there are
// no local sessions (docs/decisions/005-local-sessions.md): alone the key forbids
// ephemeral znodes. With localSessionsUpgradingEnabled every session may do all
// that a global one may, so global ones take nothing away.
func localSessions(s *config.Sessions, log *slog.Logger) error {
	switch {
	case !s.Local: // upgrading alone means nothing
	case !s.LocalUpgrading:
		return errors.New("start with localSessionsEnabled=true: there are no local sessions here, so ephemeral znodes, which they may not create, would be allowed; remove the key, or add localSessionsUpgradingEnabled=true if that is right")
	default:
		log.Warn("there are no local sessions here (localSessionsEnabled): every session is global from the start, as if it had been upgraded already")
	}
	return nil
}
