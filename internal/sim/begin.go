package sim

import (
	"errors"
	"strconv"

	"github.com/zooid-project/zooid/internal/quorum"
)

// How a server with an empty disk begins: it asks its peers.

// joinPause is the time between two rounds of asking.
const joinPause = 100 * millisecond

// joinPatience is how long a peer may take to answer.
const joinPatience = second

var errNoAnswer = errors.New("no answer")

// discover asks the peers how to begin with an empty disk, until that is clear.
func (l *life) discover() {
	w, s := l.w, l.s
	answers := map[uint64]quorum.JoinReply{}
	for _, m := range s.config {
		if m.ID != s.id {
			w.servers[m.ID-1].asked(s, func(r quorum.JoinReply) { answers[m.ID] = r })
		}
	}
	w.after(joinPatience/4+between(w.netDice, 0, joinPatience), func() {
		s.awake(func() {
			if l.ended {
				return
			}
			b, waiting, ok := quorum.Begin(s.id, s.config, func(m quorum.Member) (quorum.JoinReply, uint64, error) {
				r, ok := answers[m.ID]
				if !ok {
					return r, 0, errNoAnswer
				}
				r.Begun = r.Begun && !l.askers[m.ID]
				return r, clusterID, nil
			})
			w.logger(s.id).Info("its disk is empty", "clear", ok, "beginning", b, "waiting", waiting)
			if !ok {
				w.after(joinPause, l.discover)
				return
			}
			l.protect(func() {
				if err := l.joins(b); err != nil {
					l.refused(err)
					return
				}
				l.begin(b)
			})
		})
	})
}

// asked brings a server's question how to begin to this one, and its answer back.
func (s *host) asked(from *host, answer func(quorum.JoinReply)) {
	w := s.w
	back := func(r quorum.JoinReply) {
		if !w.cut(from.index, s.index) {
			w.after(w.delay(), func() { answer(r) })
		}
	}
	if w.cut(from.index, s.index) {
		return
	}
	w.after(2*w.delay(), func() {
		s.awake(func() {
			l := s.life
			switch {
			case l == nil:
			case l.loop == nil:
				if l.askers == nil {
					l.askers = map[uint64]bool{}
				}
				l.askers[from.id] = true
				back(quorum.JoinReply{New: true})
			default:
				reply := make(chan quorum.JoinReply, 1)
				l.questions = append(l.questions, question{reply, back})
				l.hear(quorum.Event{Kind: quorum.EventJoin, From: from.id, Join: reply})
			}
		})
	})
}

// question is one that the loop is to answer.
type question struct {
	reply chan quorum.JoinReply
	back  func(quorum.JoinReply)
}

// answer sends the answers that the loop has given.
func (l *life) answer() {
	rest := l.questions[:0]
	for _, q := range l.questions {
		select {
		case r := <-q.reply:
			q.back(r)
		default:
			rest = append(rest, q)
		}
	}
	l.questions = rest
}

// joiningName is the note that a server is joining, as the server keeps it.
const joiningName = dataDir + "/joining"

// joins makes the note.
func (l *life) joins(b quorum.Beginning) error {
	if b.Cluster == 0 {
		return nil
	}
	l.w.stats.Joins++
	fs := l.s.disk.fs
	if err := fs.MkdirAll(dataDir); err != nil {
		return err
	}
	f, err := fs.Create(joiningName)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strconv.FormatUint(max(b.JoinedAfter, 1), 10)), 0); err != nil {
		return err
	}
	return errors.Join(f.Fdatasync(), fs.SyncDir(dataDir))
}

// joining reads the note; 0 is none.
func (l *life) joining() (after uint64, err error) {
	f, err := l.s.disk.fs.OpenRead(joiningName)
	if err != nil {
		return 0, nil
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return 0, err
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		return 0, err
	}
	return strconv.ParseUint(string(b), 10, 64)
}

// joined removes the note.
func (l *life) joined() {
	l.s.wiped = false
	if err := l.s.disk.fs.Remove(joiningName); err != nil {
		l.w.trace(0x10)
	}
}
