package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// watches are the watches left by get -w, ls -w, stat -w, config -w and addWatch. They
// are guarded by the shell's turn.
type watches struct {
	printing bool // printwatches is on
	open     []*zk.Watch
	seen     [eventsSeen]eventKey // ring of the last events printed
	seenNext int
	running  sync.WaitGroup // one goroutine for each watch, one for each session
}

// eventsSeen is how many events are remembered so that each is printed once, as in zkCli, even if
// several watches deliver it. It is several times the number of watches that can be left on one
// path.
const eventsSeen = 64

type eventKey struct {
	typ  zk.EventType
	path string
	zxid int64
}

// follow prints w's events; w may be nil. A single command leaves no time for events.
func (s *shell) follow(w *zk.Watch) {
	if w == nil || s.single {
		return
	}
	s.watches.open = append(s.watches.open, w)
	s.watches.running.Go(func() {
		for ended := false; !ended; {
			<-w.Ready()
			s.turn.Lock()
			s.printEvents()
			if ended = !alive(w); ended {
				s.watches.open = slices.DeleteFunc(s.watches.open, func(o *zk.Watch) bool { return o == w })
			}
			s.out.W.Flush()
			s.turn.Unlock()
		}
	})
}

// alive reports whether a watch that has no event waiting may deliver more.
func alive(w *zk.Watch) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := w.Next(ctx)
	return err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled)
}

func (w *watches) closeAll() {
	for _, o := range w.open {
		o.Close()
	}
}

// printEvents prints the watches' events, in the order of the changes. The caller holds
// the turn.
func (s *shell) printEvents() {
	var events []zk.Event
	for _, w := range s.watches.open {
		for e, ok := w.Try(); ok; e, ok = w.Try() {
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b zk.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	for _, e := range events {
		if s.watches.first(e) && s.watches.printing {
			s.printEvent(e)
		}
	}
}

// first reports whether e wasn't printed yet. It returns true for events without a
// zxid, which some servers send.
func (w *watches) first(e zk.Event) bool {
	key := eventKey{e.Type, e.Path, e.Zxid}
	if e.Zxid <= 0 {
		return true
	}
	if slices.Contains(w.seen[:], key) {
		return false
	}
	w.seen[w.seenNext%eventsSeen] = key
	w.seenNext++
	return true
}

// eventJSON is an event of a watch or, with a state, of the session.
type eventJSON struct {
	Time  string `json:"time,omitempty"`
	Event string `json:"event"`
	State string `json:"state,omitempty"`
	Path  string `json:"path,omitempty"`
	Zxid  string `json:"zxid,omitempty"`
}

func (s *shell) printEvent(e zk.Event) {
	v := eventJSON{Event: e.Type.String(), Path: e.Path}
	if e.Zxid > 0 {
		v.Zxid = screen.Hex(e.Zxid)
	}
	s.out.Show(v, func() {
		s.printWatcher(fmt.Sprintf("WatchedEvent state:SyncConnected type:%s path:%s zxid: %d", v.Event, s.out.Name(e.Path),
			e.Zxid))
	})
}

// printWatcher prints an event as zkCli does, above the prompt if there is one.
func (s *shell) printWatcher(text string) {
	if s.redraw != nil {
		s.out.Printf("\r\x1b[K")
	}
	s.out.Printf("\nWATCHER::\n\n%s\n", text)
	if s.redraw != nil {
		s.out.W.Flush()
		s.redraw()
	}
}

// followStates prints the changes of c's session after its first connection. The caller
// holds the turn.
func (s *shell) followStates(c *zk.Client) {
	states := c.States()
	s.watches.running.Go(func() {
		defer states.Close()
		for connected := false; ; {
			change, err := states.Next(context.Background())
			if err != nil {
				return
			}
			up := change.State == zk.StateConnected || change.State == zk.StateConnectedReadOnly
			if word := sessionWord(change.State); word != "" && (connected || change.State.Final()) {
				s.turn.Lock()
				s.printState(word)
				s.turn.Unlock()
			}
			connected = connected || up
		}
	})
}

// sessionWord returns the Java client's name of a state, as it stands in an event, or
// "" for a state that is not worth a line.
func sessionWord(state zk.State) string {
	switch state {
	case zk.StateConnecting:
		return "Disconnected"
	case zk.StateConnected:
		return "SyncConnected"
	case zk.StateConnectedReadOnly:
		return "ConnectedReadOnly"
	case zk.StateExpired:
		return "Expired"
	case zk.StateAuthFailed:
		return "AuthFailed"
	}
	return ""
}

// printState prints a change of the session's state. The caller holds the turn.
func (s *shell) printState(word string) {
	if !s.watches.printing {
		return
	}
	s.out.Show(eventJSON{Event: "None", State: word}, func() {
		s.printWatcher("WatchedEvent state:" + word + " type:None path:null zxid: -1")
	})
	s.out.W.Flush()
}

func runPrintWatches(_ context.Context, s *shell, a *args) error {
	switch a.arg(0) {
	case "":
		word := "off"
		if s.watches.printing {
			word = "on"
		}
		s.out.Show(map[string]bool{"printwatches": s.watches.printing}, func() { s.out.Printf("printwatches is %s\n", word) })
	case "on", "off":
		s.watches.printing = a.arg(0) == "on"
	default:
		return a.usagef("printwatches: want on or off, not %q", a.arg(0))
	}
	return nil
}

// runAddWatch leaves a persistent watch.
func runAddWatch(ctx context.Context, s *shell, a *args) error {
	mode := zk.AddWatchPersistentRecursive
	if text, ok := a.flags["m"]; ok {
		switch text {
		case "PERSISTENT":
			mode = zk.AddWatchPersistent
		case "PERSISTENT_RECURSIVE":
		default:
			return &usageError{cmd: a.cmd}
		}
	}
	w, err := s.client.AddWatch(ctx, a.arg(0), mode)
	s.follow(w)
	return err
}

func runRemoveWatches(ctx context.Context, s *shell, a *args) error {
	t := zk.WatcherAny
	for _, kind := range []struct {
		flag string
		t    zk.WatcherType
	}{
		{"c", zk.WatcherChildren}, {"d", zk.WatcherData}, {"p", zk.WatcherPersistent},
		{"r", zk.WatcherPersistentRecursive}, {"a", zk.WatcherAny},
	} {
		if a.has(kind.flag) {
			t = kind.t
		}
	}
	return s.client.RemoveWatches(ctx, a.arg(0), t)
}
