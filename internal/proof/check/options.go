package check

import (
	"strings"
	"time"
)

// Options describe the promises of the servers. The zero value describes Zooid's; each field that is set weakens or
// extends them.
type Options struct {
	// Under restricts the check to the znodes at and below this path, for servers that had other data before. "" checks
	// everything but /zookeeper.
	Under string

	// ExtendedTypes: the servers accept TTL znodes.
	ExtendedTypes bool

	// NotificationsUnnumbered: notifications carry zxid -1 (Apache before 3.9).
	NotificationsUnnumbered bool
	// EventsUnfiltered: events go to every watcher, with or without READ (Apache before 3.8.4 and 3.9.2).
	EventsUnfiltered bool
	// ExistsUnchecked: exists needs no READ (Apache before 3.8.4 and 3.9.2).
	ExistsUnchecked bool
	// ReadWindow: a read may show any state from its zxid to the next zxid on its connection (an Apache ensemble
	// promises no more).
	ReadWindow bool
	// SyncWeak: sync is not linearizable (Apache around a change of leader).
	SyncWeak bool
	// ACLLags: the ACL from before a setACL that was still being logged when a write came may decide about the write
	// (Apache's pending changes have the old ACL; seen on 3.8.0 and 3.9.5).
	ACLLags bool
	// MultiCreate2Plain: the reply to a create2 in a multi may be that of a create, without Stat (Apache 3.8.0 does
	// this, 3.9.5 doesn't).
	MultiCreate2Plain bool
	// ClockMayGoBack: a later change may carry an earlier time (Apache's leader
	// doesn't clamp its clock).
	ClockMayGoBack bool

	// AnswersAfterEnd: a session may be answered at any time after its end (Apache's servers answer pings as long as
	// they assume that they have a leader). It disables X10.
	AnswersAfterEnd bool

	// LocalSessions: only one server knows a session that hasn't written (localSessionsEnabled, and a standalone server
	// with a full disk). Other servers refuse it, and its end takes no zxid.
	LocalSessions bool
	// EphemeralsRefused: sessions stay local and can't own ephemeral znodes (LocalSessions without
	// localSessionsUpgradingEnabled).
	EphemeralsRefused bool

	// ExpirySlack, if not 0, enables S4. It is how long after its timeout a session without a client may still be seen
	// alive.
	ExpirySlack time.Duration
	// DeliveryMax, if not 0, is the longest time between a server's sending of a reply and its recording. X10 then also
	// checks when replies came, and not only when requests were sent.
	DeliveryMax time.Duration
	// Quiesced: the run ended at rest; each client synced and then waited for its events. It enables W4.
	Quiesced bool

	// ViolationsMax bounds Report.Violations; 0 means 100.
	ViolationsMax int

	// Progress, if not nil, is called from time to time, on the goroutine that called Check, with the number of replies
	// and log entries that have been compared with the model, and their total.
	Progress func(done, total int)
}

// Apache returns the options for an Apache server of the given version, such as "3.8.0".
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
