package memory

import "log/slog"

// Report logs that a step is in force, or that none is any more.
func Report(log *slog.Logger, step Step, u *Use, ceiling int64) {
	use := []any{
		"bytes", u.Total(), "limit", ceiling, "tree", u.Tree, "sessions", u.Sessions, "watches", u.Watches,
		"identities", u.Identities,
		"input", u.Input, "output", u.Output, "unanswered", u.Unanswered, "peers", u.Peers,
		"records", u.Records,
	}
	const do = "delete znodes, close clients, or raise memory.limit"
	switch {
	case step == RefuseNone:
		log.Info("there is memory again: nothing is refused for lack of it", use...)
	case u.Full:
		log.Error("the tree has few addresses left: writes that make it larger and new watches are refused; delete znodes",
			append(use, "code", "ZD-2100")...)
	case step == RefuseCostliest:
		log.Warn("memory is getting short: new sessions of the client address that uses most are refused; "+do,
			append(use, "address", u.Costliest, "code", "ZD-2101")...)
	case step == RefuseGrowth:
		log.Error("memory is short: writes that make the tree larger and new watches are refused; "+do, append(use, "code", "ZD-2102")...)
	default:
		log.Error("memory has reached its limit: new sessions, writes that make the tree larger and new watches are refused; "+
			do, append(use, "code", "ZD-2103")...)
	}
}
