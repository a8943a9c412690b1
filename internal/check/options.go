package check

import (
	"strings"
	"time"
)

// Options say what the servers promised. The zero value is what Zooid promises;
// each field that is set weakens or extends it.
type Options struct {
	// Under limits the check to the znodes at and below this path, for servers
	// that held other data before. "" checks everything but /zookeeper.
	Under string

	// ExtendedTypes: the servers accept TTL znodes.
	ExtendedTypes bool

	// NotificationsUnnumbered: notifications carry zxid -1 (Apache before 3.9).
	NotificationsUnnumbered bool
	// EventsUnfiltered: events go to every watcher, with READ or without (Apache
	// before 3.8.4 and 3.9.2).
	EventsUnfiltered bool
	// ExistsUnchecked: exists needs no READ (Apache before 3.8.4 and 3.9.2).
	ExistsUnchecked bool
	// ReadWindow: a read may show any state from its zxid to the next zxid on its
	// connection (an Apache ensemble promises no more).
	ReadWindow bool
	// SyncWeak: sync is not linearizable (Apache around a change of leader).
	SyncWeak bool
	// ACLLags: a write may be judged by the ACL from before a setACL that was still
	// being logged when the write came (Apache's pending changes carry the old ACL;
	// seen on 3.8.0 and 3.9.5).
	ACLLags bool
	// MultiCreate2Plain: a create2 inside a multi may be answered as a create,
	// without Stat (Apache 3.8.0 does, 3.9.5 doesn't).
	MultiCreate2Plain bool
	// ClockMayGoBack: a later change may carry an earlier time (Apache's leader
	// doesn't clamp its clock).
	ClockMayGoBack bool

	// AnswersAfterEnd: a session may be answered at any time after its end (Apache's
	// servers answer pings as long as they believe to have a leader). It turns X10 off.
	AnswersAfterEnd bool

	// LocalSessions: a session that has not written is known to one server only
	// (localSessionsEnabled, and a server alone while its disk is full). Any other
	// server refuses it, and its end takes no zxid.
	LocalSessions bool
	// EphemeralsRefused: sessions stay local for ever and may not own ephemeral
	// znodes (LocalSessions without localSessionsUpgradingEnabled).
	EphemeralsRefused bool

	// ExpirySlack, if not 0, turns S4 on: it is how long after its timeout a
	// session without a client may still be seen alive.
	ExpirySlack time.Duration
	// DeliveryMax, if not 0, is the most that passes from the moment when a server sends a
	// reply to the moment when it is recorded. X10 then judges when replies came, too, and
	// not only when requests were sent.
	DeliveryMax time.Duration
	// Quiesced: the run ended at rest, each client syncing and then waiting for
	// its events. It turns W4 on.
	Quiesced bool

	// ViolationsMax bounds Report.Violations; 0 means 100.
	ViolationsMax int

	// Progress, if not nil, is called now and then, on the goroutine that called
	// Check, with the number of replies and log entries that have been compared
	// with the model, and their total.
	Progress func(done, total int)
}

// Apache returns the options for an Apache server of the given version, such as
// "3.8.0".
func Apache(release string) Options {
	o := Options{ReadWindow: true, SyncWeak: true, ClockMayGoBack: true, ACLLags: true, AnswersAfterEnd: true}
	older := func(than string) bool { return compareReleases(release, than) < 0 }
	o.NotificationsUnnumbered = older("3.9.0")
	o.MultiCreate2Plain = older("3.9.0")
	o.EventsUnfiltered = older("3.8.4") || !older("3.9.0") && older("3.9.2")
	o.ExistsUnchecked = o.EventsUnfiltered
	return o
}

// compareReleases compares dotted numbers and ignores text after them.
func compareReleases(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if d := leadingNumber(x) - leadingNumber(y); d != 0 {
			return d
		}
	}
	return 0
}

func leadingNumber(s string) (n int) {
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1e6; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// opaque reports whether the history doesn't cover a path.
func (o *Options) opaque(path string) bool {
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return true
	}
	return o.Under != "" && o.Under != "/" && path != o.Under && !strings.HasPrefix(path, o.Under+"/")
}
