package follow

import (
	"fmt"
	"strings"
)

// text returns the status as srvr or mntr prints it.
func (s Status) text(mntr bool) string {
	var b strings.Builder
	row := func(key, name, format string, value any) {
		if mntr {
			fmt.Fprintf(&b, "%s\t"+format+"\n", key, value)
		} else if name != "" {
			fmt.Fprintf(&b, "%s: "+format+"\n", name, value)
		}
	}
	mismatches := 0
	if s.Mismatch != nil {
		mismatches = 1
	}
	row("zk_version", "Zookeeper version", "%s", "3.9.5-zooid-follow, built on 2026-01-01 00:00 UTC")
	row("zk_server_state", "Mode", "%s", "read-only")
	row("zk_followed_leader", "Leader", "%s", or(s.Leader, "none"))
	row("zk_zxid", "Zxid", "%#x", uint64(s.Zxid))
	row("zk_lag_zxids", "Lag in zxids", "%d", s.Behind)
	row("zk_lag_ms", "Lag in ms", "%d", s.Lag.Milliseconds())
	row("zk_znode_count", "Node count", "%d", s.Znodes)
	row("zk_global_sessions", "Sessions", "%d", s.Sessions)
	row("zk_digests_compared", "Digests compared", "%d", s.Compared)
	row("zk_digest_mismatches_count", "Digests differing", "%d", mismatches)
	return b.String()
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// String returns the status in one line.
func (s Status) String() string {
	leader := "no leader"
	if s.Leader != "" {
		leader = fmt.Sprintf("leader %s, epoch %d", s.Leader, s.Epoch)
	}
	text := fmt.Sprintf("%s, zxid %#x, lag %d zxids %.1f s, %d znodes, %d sessions, %d digests equal", leader,
		uint64(s.Zxid), s.Behind, s.Lag.Seconds(), s.Znodes, s.Sessions, s.Compared)
	if s.Mismatch != nil {
		text += fmt.Sprintf(", DIGESTS DIFFER since zxid %#x", uint64(s.Mismatch.Zxid))
	}
	return text
}
