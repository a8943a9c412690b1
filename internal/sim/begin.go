package sim

import (
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/internal/quorum"
)

// How a server with an empty disk begins: it asks its peers.

// joinPause is the time between two rounds of asking.
const joinPause = 100 * millisecond

// joinPatience is how long a peer may take to answer.
const joinPatience = second

var errNoAnswer = errors.New("no answer")

// discover asks the peers how to begin with an empty disk until the answer is clear.
func (l *life) discover() {
	w, s := l.w, l.s
	answers := map[uint64]quorum.JoinReply{}
	for _, m := range s.config {
		if m.ID != s.id {
			w.servers[m.ID-1].asked(asker{s, s.lives, l.level}, func(r quorum.JoinReply) { answers[m.ID] = r })
		}
	}
	w.after(joinPatience/4+between(w.netDice, 0, joinPatience), func() {
		s.awake(func() {
			if l.ended {
				return
			}
			b, waiting, ok := quorum.Begin(s.id, s.config, l.belong, func(m quorum.Member) (quorum.JoinReply, uint64, error) {
				r, ok := answers[m.ID]
				if !ok {
					return r, 0, errNoAnswer
				}
				r.Begun = r.Begun && !l.askers[m.ID]
				return r, clusterID, nil
			})
			l.alone = len(l.belong) == 0
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

// An asker is a server that asks how to begin: one with an empty disk, in one
// of its lives, or an impostor that uses its id.
type asker struct {
	*host
	life  int
	level int32
}

// duplicateLife is the life number of an impostor; no server reaches it.
const duplicateLife = 1 << 30

// duplicateID has an impostor elsewhere ask all servers, for a while, to let it join under a server's id.
func (w *World) duplicateID(of *host, d int64) {
	for at := int64(0); at <= d; at += 5 * joinPause {
		w.unless(at, func() {
			for _, s := range w.servers {
				if s != of && s.life != nil && s.life.loop != nil {
					s.asked(asker{of, duplicateLife, s.life.level}, func(quorum.JoinReply) {})
				}
			}
		})
	}
}

// asked delivers a server's question how to begin to s, and the answer back to it. Before
// the loop removes a member because of a question, it asks at the asker's own address.
func (s *host) asked(by asker, answer func(quorum.JoinReply)) {
	w, from := s.w, by.host
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
				l.askers[from.id] = l.askers[from.id] || l.alone
				back(quorum.JoinReply{New: l.alone, Hearsay: !l.alone})
			default:
				l.joinRequest(by, back)
			}
		})
	})
}

// joinRequest does what the server's transport does with a question.
func (l *life) joinRequest(by asker, back func(quorum.JoinReply)) {
	from := by.host
	e := quorum.Event{
		Kind: quorum.EventJoin, From: from.id, Level: uint32(by.level), Life: uint32(by.life), Conn: l.accepted,
		Known: l.peers[from.id],
	}
	l.ask(e, func(r quorum.JoinReply) {
		if !r.Ask {
			back(r)
			return
		}
		l.isEmpty(from, by.life, func(empty bool) {
			if e.Empty = empty; !empty {
				back(r)
				return
			}
			l.ask(e, back)
		})
	})
}

// ask queues a question for the loop, whose reply is passed to answer.
func (l *life) ask(e quorum.Event, answer func(quorum.JoinReply)) {
	reply := make(chan quorum.JoinReply, 1)
	e.Join = reply
	l.questions = append(l.questions, question{reply, answer})
	l.hear(e)
}

// isEmpty asks a server at its own address whether it is empty and in that life.
func (l *life) isEmpty(of *host, life int, answer func(empty bool)) {
	w := l.w
	cut := func() bool { return w.cut(l.s.index, of.index) }
	if cut() {
		return
	}
	w.after(2*w.delay(), func() {
		of.awake(func() {
			empty := of.life != nil && of.life.loop == nil && of.lives == life
			if cut() {
				return
			}
			w.after(w.delay(), func() {
				l.s.awake(func() {
					if !l.ended {
						answer(empty)
					}
				})
			})
		})
	})
}

// question is a question that the loop has yet to answer.
type question struct {
	reply chan quorum.JoinReply
	back  func(quorum.JoinReply)
}

// answer sends the answers that the loop has given.
func (l *life) answer() {
	questions := l.questions
	l.questions = nil
	for _, q := range questions {
		select {
		case r := <-q.reply:
			q.back(r)
		default:
			l.questions = append(l.questions, q)
		}
	}
}

// joiningName is the file in which a server notes that it is joining.
func (w *World) joiningName() string { return w.logDir() + "/joining" }

// joins writes the note that the server is joining.
func (l *life) joins(b quorum.Beginning) error {
	if b.Cluster == 0 {
		return nil
	}
	l.w.stats.Joins++
	l.s.awaits = true
	fs := l.s.disk.fs
	if err := fs.MkdirAll(l.w.logDir()); err != nil {
		return err
	}
	f, err := fs.Create(l.w.joiningName())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(fmt.Appendln(nil, max(b.JoinedAfter, 1), b.JoinedTerm), 0); err != nil {
		return err
	}
	return errors.Join(f.Fdatasync(), fs.SyncDir(l.w.logDir()))
}

// joining reads the note; without one the server isn't joining.
func (l *life) joining() (b quorum.Beginning, err error) {
	f, err := l.s.disk.fs.OpenRead(l.w.joiningName())
	if err != nil {
		return b, nil
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return b, err
	}
	text := make([]byte, n)
	if _, err := f.ReadAt(text, 0); err != nil {
		return b, err
	}
	_, err = fmt.Sscan(string(text), &b.JoinedAfter, &b.JoinedTerm)
	return b, err
}

// joined removes the note.
func (l *life) joined() {
	l.s.wiped, l.s.joinedAt, l.s.awaits = false, l.w.now, false
	if err := l.s.disk.fs.Remove(l.w.joiningName()); err != nil {
		l.w.trace(0x10)
	}
}
