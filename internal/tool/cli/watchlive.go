package cli

import (
	"context"
	"errors"
	"time"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// runWatch prints the changes of a znode, or of a subtree, as they happen, until it is interrupted or has printed as
// many as asked for.
func runWatch(ctx context.Context, s *shell, a *args) error {
	limit, err := a.number("n", 0)
	if err != nil {
		return err
	}
	patience, err := a.duration("t", 0)
	if err != nil {
		return err
	}
	mode := zk.AddWatchPersistent
	if a.has("r") {
		mode = zk.AddWatchPersistentRecursive
	}
	w, err := s.client.AddWatch(ctx, a.arg(0), mode)
	if err != nil {
		return err
	}
	defer w.Close()
	s.out.Notef("watching %s; Ctrl-C ends it", s.out.Name(a.arg(0)))
	until := ctx
	if patience > 0 {
		var cancel context.CancelFunc
		until, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for n := int64(0); limit == 0 || n < limit; n++ {
		e, err := w.Next(until)
		switch {
		case ctx.Err() != nil && limit == 0:
			return nil // the usual way to end watch
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return advice.Errorf("", "watch %s: %d events within %v", a.arg(0), n, patience)
		case err != nil:
			return err
		}
		s.printLive(ctx, a, e)
		if err := s.out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

type liveJSON struct {
	eventJSON
	screen.Content
	Missing bool `json:"missing,omitempty"` // the znode is gone again
}

func (s *shell) printLive(ctx context.Context, a *args, e zk.Event) {
	v := liveJSON{
		eventJSON: eventJSON{Time: time.Now().UTC().Format(screen.JSONTime), Event: e.Type.String(), Path: e.Path},
	}
	if e.Zxid > 0 {
		v.Zxid = screen.Hex(e.Zxid)
	}
	var data []byte
	shown := a.has("d") && (e.Type == zk.EventNodeCreated || e.Type == zk.EventNodeDataChanged)
	if shown {
		var err error
		data, _, err = s.client.Get(ctx, e.Path)
		v.Content, v.Missing = screen.ToContent(data), err != nil
	}
	s.out.Show(v, func() {
		colours := map[zk.EventType]screen.Colour{
			zk.EventNodeCreated: screen.Green, zk.EventNodeDeleted: screen.Red, zk.EventNodeDataChanged: screen.Yellow,
		}
		s.out.Printf("%s %s %s", time.Now().Format("15:04:05.000"), s.out.Paint(colours[e.Type], v.Event), s.out.Name(e.Path))
		if v.Zxid != "" {
			s.out.Printf(" %s", v.Zxid)
		}
		if shown && !v.Missing {
			s.out.Printf(" %q", data)
		}
		if e.Type == zk.EventResync {
			s.out.Printf(" (events may be missing: read it again)")
		}
		s.out.Printf("\n")
	})
}
