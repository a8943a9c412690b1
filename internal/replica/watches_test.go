package replica

import (
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// sends lets a client send one request and returns what it is answered, whatever steps that takes.
func (s *localStage) sends(c *Client, raw *pipeline, op jute.Op, record func([]byte) []byte) (out []byte) {
	s.t.Helper()
	if _, err := s.receive(c, raw.request(nil, op, record)); err != nil {
		s.t.Fatal(err)
	}
	for records := s.forward(); len(records) > 0; records = s.forward() {
		s.apply(records...)
	}
	for {
		b, _ := c.TakeOutput(nil)
		if out = append(out, b...); b == nil {
			return out
		}
	}
}

// eventsIn returns the notifications in the output of a client.
func eventsIn(t *testing.T, out []byte) (events []jute.WatcherEvent) {
	t.Helper()
	for d := jute.NewDecoder(out); d.Remaining() > 0; {
		frame := jute.NewDecoder(d.Buffer())
		var h jute.ReplyHeader
		if h.Decode(frame); h.Xid == jute.XidNotification {
			var e jute.WatcherEvent
			e.Decode(frame)
			if events = append(events, e); e.State != jute.StateSyncConnected {
				t.Errorf("%v is told in state %d", e, e.State)
			}
		}
		if d.Err() != nil || frame.Err() != nil {
			t.Fatal(d.Err(), frame.Err())
		}
	}
	return events
}

// TestWatchOfAListOfAnySize: reads that watch do so whatever the size of the reply, also if it is made in steps: a list
// of 4,096 children is one step of a Scan, and one of 4,097 takes two.
func TestWatchOfAListOfAnySize(t *testing.T) {
	t.Parallel()
	for _, children := range []int{0, 1, 64, 65, 4096, 4097} {
		for _, op := range []jute.Op{jute.OpGetChildren, jute.OpGetChildren2} {
			t.Run(fmt.Sprint(op, children), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, Options{})
				c := s.client(nil)
				s.apply(s.forward()...)
				c.TakeOutput(nil)
				raw := pipeline{}
				s.sends(c, &raw, jute.OpCreate, creating("/l", nil, 0))
				for made := 0; made < children; {
					var ops []jute.MultiOp
					for ; made < children && len(ops) < 1000; made++ {
						path := fmt.Sprintf("/l/n%d", made)
						ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)})
					}
					s.sends(c, &raw, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
				}
				s.sends(c, &raw, op, reading("/l", true))
				if got := eventsIn(t, s.sends(c, &raw, jute.OpSetData, setting("/l", nil))); len(got) > 0 {
					t.Errorf("after a list of %d children that watches, new data is told as %v", children, got)
				}
				out := s.sends(c, &raw, jute.OpCreate, creating("/l/more", nil, 0))
				if got := eventsIn(t, out); len(got) != 1 || got[0].Type != jute.EventNodeChildrenChanged || got[0].Path != "/l" {
					t.Errorf("after a list of %d children that watches, a new child is told as %v", children, got)
				}
				out = s.sends(c, &raw, jute.OpCreate, creating("/l/again", nil, 0))
				if got := eventsIn(t, out); len(got) > 0 {
					t.Errorf("after a list of %d children that watched once, another child is told as %v", children, got)
				}
			})
		}
	}
}

// TestSetWatchesTellsWhatHappened: a client that comes back is told of a change only if it is later than what the
// client has seen. The zxid of the change itself is not.
func TestSetWatchesTellsWhatHappened(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	c.TakeOutput(nil)
	raw := pipeline{}
	s.sends(c, &raw, jute.OpCreate, creating("/p", nil, 0))
	s.sends(c, &raw, jute.OpCreate, creating("/p/child", nil, 0))
	children := s.r.tree.LastZxid()
	s.sends(c, &raw, jute.OpSetData, setting("/p", []byte("x")))
	data := s.r.tree.LastZxid()
	for name, w := range map[string]struct {
		set  jute.SetWatches
		want jute.EventType // 0 for none
	}{
		"children as seen": {jute.SetWatches{Child: []string{"/p"}, RelativeZxid: children}, 0},
		"children changed since": {
			jute.SetWatches{Child: []string{"/p"}, RelativeZxid: children - 1}, jute.EventNodeChildrenChanged,
		},
		"data as seen":         {jute.SetWatches{Data: []string{"/p"}, RelativeZxid: data}, 0},
		"data changed since":   {jute.SetWatches{Data: []string{"/p"}, RelativeZxid: data - 1}, jute.EventNodeDataChanged},
		"gone":                 {jute.SetWatches{Data: []string{"/q"}, RelativeZxid: data}, jute.EventNodeDeleted},
		"children of one gone": {jute.SetWatches{Child: []string{"/q"}, RelativeZxid: data}, jute.EventNodeDeleted},
		"there now":            {jute.SetWatches{Exist: []string{"/p"}, RelativeZxid: data}, jute.EventNodeCreated},
		"still not there":      {jute.SetWatches{Exist: []string{"/q"}, RelativeZxid: data}, 0},
	} {
		out := s.sends(c, &raw, jute.OpSetWatches, func(b []byte) []byte { return w.set.Append(b, jute.OpSetWatches) })
		got := eventsIn(t, out)
		if w.want == 0 && len(got) > 0 || w.want != 0 && (len(got) != 1 || got[0].Type != w.want) {
			t.Errorf("%s: the events %v, want %v", name, got, w.want)
		}
	}
}

// TestNothingOfAClientStays: what a client watched is forgotten with its connection, in one step of forgetWatches or in
// many. Memory for further watches is held, but no more for the tenth client than for the first.
func TestNothingOfAClientStays(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, watchesForgottenAtOnce, watchesForgottenAtOnce + 1, 3*watchesForgotten + 1} {
		s := newStage(t, Options{})
		held := int64(0)
		for i := range 10 {
			c := s.client(nil)
			s.apply(s.forward()...)
			c.TakeOutput(nil)
			s.sends(c, &pipeline{}, jute.OpSetWatches2, settingWatches(n))
			if s.r.watches.table.SizeOf(c.id) != n {
				t.Fatalf("%d watches are set, want %d", s.r.watches.table.SizeOf(c.id), n)
			}
			s.r.Disconnected(c)
			if i == 0 {
				held = s.r.watches.table.Memory()
			}
		}
		if got := s.r.watches.table.Memory(); got != held || s.r.watches.table.Size() != 0 {
			t.Errorf("%d bytes are held after ten clients with %d watches, %d after the first; %d watches stay", got, n, held,
				s.r.watches.table.Size())
		}
	}
}

// TestSetWatchesOfADeniedPath: whoever may not read a path isn't told what has happened there, and keeps the watch,
// which tells of later changes once reads are allowed.
func TestSetWatchesOfADeniedPath(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	c.TakeOutput(nil)
	raw := pipeline{}
	s.sends(c, &raw, jute.OpCreate, creating("/p", nil, 0))
	super := []jute.ID{{Scheme: "super"}}
	asSuper := func(op jute.Op, record func([]byte) []byte) {
		s.apply(tree.AppendRecord(nil, &tree.Request{Op: op, Identities: super, Body: record(nil)}))
	}
	settings := tree.DefaultSettings()
	settings.FeatureLevel = 3
	asSuper(tree.OpSettings, settings.Append)
	asSuper(jute.OpCreate, creating(policy.Path, []byte("deny read below /p"), 0))
	again := func() []jute.WatcherEvent {
		w := jute.SetWatches{Data: []string{"/p"}}
		out := s.sends(c, &raw, jute.OpSetWatches, func(b []byte) []byte { return w.Append(b, jute.OpSetWatches) })
		return eventsIn(t, out)
	}
	if got := again(); len(got) > 0 || s.r.watches.table.SizeOf(c.id) != 1 {
		t.Errorf("where reads are denied: the events %v, %d watches", got, s.r.watches.table.SizeOf(c.id))
	}
	asSuper(jute.OpDelete, deleting(policy.Path))
	out := s.sends(c, &raw, jute.OpSetData, setting("/p", []byte("x")))
	if got := eventsIn(t, out); len(got) != 1 || got[0].Type != jute.EventNodeDataChanged || got[0].Path != "/p" {
		t.Errorf("reads are allowed again, and a change is told as %v", got)
	}
	if got := again(); len(got) != 1 || got[0].Type != jute.EventNodeDataChanged {
		t.Errorf("where reads are allowed: the events %v", got)
	}
}

// TestSetWatchesSetsEachKind: a watch that a client sets again is of the kind that it was.
func TestSetWatchesSetsEachKind(t *testing.T) {
	t.Parallel()
	types := []jute.WatcherType{
		jute.WatcherData, jute.WatcherChildren, jute.WatcherPersistent, jute.WatcherPersistentRecursive,
	}
	for name, c := range map[string]struct {
		set  jute.SetWatches
		want jute.WatcherType
	}{
		"data":      {jute.SetWatches{Data: []string{"/p"}}, jute.WatcherData},
		"exists":    {jute.SetWatches{Exist: []string{"/q"}}, jute.WatcherData},
		"children":  {jute.SetWatches{Child: []string{"/p"}}, jute.WatcherChildren},
		"persist":   {jute.SetWatches{Persistent: []string{"/p"}}, jute.WatcherPersistent},
		"recursive": {jute.SetWatches{PersistentTree: []string{"/p"}}, jute.WatcherPersistentRecursive},
	} {
		s := newStage(t, Options{})
		client := s.client(nil)
		s.apply(s.forward()...)
		client.TakeOutput(nil)
		raw := pipeline{}
		s.sends(client, &raw, jute.OpCreate, creating("/p", nil, 0))
		c.set.RelativeZxid = s.r.tree.LastZxid()
		s.sends(client, &raw, jute.OpSetWatches2, func(b []byte) []byte { return c.set.Append(b, jute.OpSetWatches2) })
		path := "/p"
		if c.set.Exist != nil {
			path = "/q"
		}
		for _, typ := range types {
			if has := s.r.watches.table.Check(client.id, path, typ) == jute.OK; has != (typ == c.want) {
				t.Errorf("%s: it has a watch of type %d: %v", name, typ, has)
			}
		}
	}
}
