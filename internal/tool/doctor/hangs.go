package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/tool/access"
)

const (
	// hangSlow is how long a write of the log may be under way: a leader transfers leadership after that. hangFault is how
	// long a write may be under way, or the loop stand still, before the server counts as not ready.
	hangSlow  = 500 * time.Millisecond
	hangFault = 3 * time.Second
	// hangSnapshot is how long one disk operation for a snapshot may take.
	hangSnapshot = 20 * time.Second
)

// A Turning is a server's report on its present work, in milliseconds.
type Turning struct {
	Server          int64 `json:"server"`          // -1 for a server that is alone
	FsyncInFlightMs int64 `json:"fsyncInFlightMs"` // how long the write of the log has been under way; 0 if there is none
	LastTurnMs      int64 `json:"lastTurnMs"`      // how long ago its loop last turned
}

// String returns a line for people.
func (t *Turning) String() string {
	writing := "no write of its log is under way"
	if t.FsyncInFlightMs > 0 {
		writing = fmt.Sprintf("a write of its log has been under way for %d ms", t.FsyncInFlightMs)
	}
	return fmt.Sprintf("%s: %s; its main loop last ran %d ms ago", t.name(), writing, t.LastTurnMs)
}

// aloneID stands for the id of a standalone server. It isn't 0, since an ensemble may have a server 0.
const aloneID = -1

func (t *Turning) name() string {
	if t.Server == aloneID {
		return "this server"
	}
	return fmt.Sprintf("server %d", t.Server)
}

// hangs reports servers whose disk or loop hangs according to their own reports.
func (e *examination) hangs() {
	told := e.told
	if at := e.cfg.Client; len(told) == 0 && e.running && at.Port > 0 {
		if isWildcard(at.Host) {
			at.Host = "127.0.0.1"
		}
		told = map[int64]answers{aloneID: e.askOne(&access.Access{}, at.String())}
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		mntr := told[id].mntr
		writing, err := strconv.ParseInt(mntr["zk_fsync_in_flight_ms"], 10, 64)
		turned, err2 := strconv.ParseInt(mntr["zk_last_turn_ms"], 10, 64)
		if err != nil || err2 != nil {
			continue // mntr may not be in the whitelist, and earlier versions don't tell
		}
		t := Turning{id, writing, turned}
		e.report.Turnings = append(e.report.Turnings, t)
		const disk = "see the kernel's log and the disk's state (dmesg, iostat -x 1): a server whose disk hangs for fsync.stallSeconds exits; replace a disk that hangs again"
		switch under := time.Duration(writing) * time.Millisecond; {
		case under > hangFault:
			e.fault(disk, "%s: a write of its log has been under way for %v: the disk hangs", t.name(), under)
		case under > hangSlow:
			e.warn(disk, "%s: a write of its log has been under way for %v", t.name(), under)
		}
		snapshot, _ := strconv.ParseInt(mntr["zk_snapshot_in_flight_ms"], 10, 64) // earlier versions don't tell
		if under := time.Duration(snapshot) * time.Millisecond; under > hangSnapshot {
			e.fault("see the kernel's log and the disk's state (dmesg, iostat -x 1), and replace a disk that hangs again",
				"%s: one operation of the disk for a snapshot has been under way for %v: until a snapshot is written, the log grows",
				t.name(), under)
		}
		if stood := time.Duration(turned) * time.Millisecond; stood > hangFault {
			e.fault("find out what stops the process: swapping, a paused virtual processor, SIGSTOP",
				"%s: its main loop has been stuck for %v: it can't do its work", t.name(), stood)
		}
	}
}
