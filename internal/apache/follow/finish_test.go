package follow

import (
	"errors"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// records is a tail that a test changes.
type records struct {
	files.Tail
	Records [][]byte
}

// TestExtend: what the leader had no time to send comes from a log, if that is of the same history.
func TestExtend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(l *leader, tail *records)
		says   string // "" if the tail is taken
	}{
		"as it is": {func(*leader, *records) {}, ""},
		"begins at the copy": {
			func(_ *leader, tail *records) { tail.After, tail.Records = 1<<32|4, tail.Records[2:] }, "",
		},
		"nothing is missing": {
			func(_ *leader, tail *records) { tail.Last, tail.Records = 1<<32|4, tail.Records[:2] }, "",
		},
		"it ends before":   {func(_ *leader, tail *records) { tail.Last = 1<<32 | 3 }, "their histories differ"},
		"it begins behind": {func(_ *leader, tail *records) { tail.After = 1<<32 | 5 }, "their histories differ"},
		"a hole": {func(_ *leader, tail *records) {
			tail.Records = append(tail.Records[:2:2], tail.Records[3:]...)
		}, "are missing"},
		"another history": {func(l *leader, tail *records) {
			l.epoch = 2
			tail.Last = l.create("/other", "", zk.OpenACL())
			tail.Records = append(tail.Records[:1:1], l.history[len(l.history)-1])
		}, "their histories differ"},
		"a later epoch": {func(l *leader, tail *records) {
			l.epoch = 2
			tail.Last = l.create("/later", "", zk.OpenACL())
			tail.Records = append(tail.Records, l.history[len(l.history)-1])
		}, ""},
		"a digest that differs": {func(l *leader, tail *records) {
			r := tail.Records[2]
			r[len(r)-1]++
		}, "the digests differ at zxid 0x100000005"},
		"another end": {func(_ *leader, tail *records) { tail.Last++ }, "its transactions end at"},
		"other servers": {func(l *leader, tail *records) {
			tail.Last = l.commit(1, jute.OpReconfig,
				jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, "/zookeeper/config"), []byte("server.9=a:1:2\nversion=9")),
					1))
			tail.Records = append(tail.Records, l.history[len(l.history)-1])
		}, "changes the ensemble's servers"},
		"no transaction": {
			func(_ *leader, tail *records) { tail.Records = append(tail.Records, []byte("x")) }, "1 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLeader(t)
			f, err := Open(l.options(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, f)
			var at int64
			for _, path := range []string{"/a", "/b", "/c", "/d"} {
				at = l.create(path, "x", zk.OpenACL())
			}
			until(t, f, "the beginning", reached(at))
			if e := f.Ensemble(); len(e.Members) != 1 || e.Version != 1 || e.Weighted {
				t.Errorf("%+v", e)
			}
			stop()
			l.cut()
			tail := &records{Tail: files.Tail{After: 1<<32 | 2, Accepted: 9, Current: 1}}
			for _, path := range []string{"/e", "/f", "/g"} {
				tail.Last = l.create(path, "x", zk.OpenACL())
			}
			for _, r := range l.history[2:] {
				tail.Records = append(tail.Records, append([]byte{}, r...))
			}
			c.change(l, tail)
			added, err := f.Extend(files.TailOf(tail.Tail, tail.Records...))
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v; want %q", err, c.says)
				}
				return
			}
			if s := f.Status(); err != nil || s.Zxid != tail.Last || added > 4 {
				t.Errorf("%d added, %+v, %v", added, s, err)
			}
			stopped := errors.New("stopped")
			if err := f.View(func(s *files.State, epoch int64) error {
				if s.Zxid != tail.Last || epoch != 9 {
					t.Errorf("zxid %#x, epoch %d", s.Zxid, epoch)
				}
				return stopped
			}); !errors.Is(err, stopped) {
				t.Error(err)
			}
		})
	}
}
