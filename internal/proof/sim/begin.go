package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// How a server that belongs to no ensemble begins: it asks its peers.

// joinPause is the time between two rounds of asking.
const joinPause = 100 * millisecond

// joinPatience is how long a peer may take to answer.
const joinPatience = second

// foundingPatience is how long a voter's address must have no listener before the others found without it, and
// namePatience how long its name must not exist.
const (
	foundingPatience = 10 * second
	namePatience     = 20 * second
)

var (
	errNoAnswer  = errors.New("no answer")
	errProof     = errors.New("its proof is refused")
	errStranger  = errors.New("its answer can't be read")
	errOtherID   = errors.New("another server answers there")
	errNoAddress = errors.New("no route to its address")
)

// inquire begins to ask the peers how to begin with the disk's content.
func (l *life) inquire(holds quorum.Holding) {
	kept, err := storage.KeptBefore(l.s.disk.fs, l.w.logDir(), quorum.HeardName)
	heard, err2 := quorum.DecodeHeard(kept)
	if err := errors.Join(err, err2); err != nil {
		l.refused(err)
		return
	}
	l.inquiry = &quorum.Inquiry{
		Heard: heard,
		Self:  l.s.id, Life: l.number(), Members: l.s.config, Lineage: l.number() | 1<<63, Level: uint32(l.level),
		Holds: holds, JoinsOnly: l.s.joinsOnly, Ordered: l.s.ordered,
		Patience: quorum.Patience{Listens: foundingPatience / millisecond, Name: namePatience / millisecond},
	}
	l.discover()
}

// aloneFrom returns how a server whose configuration names no other begins.
func aloneFrom(id, lineage uint64) quorum.Beginning {
	f := &quorum.Founding{Lineage: lineage, Term: 1, Voters: []uint64{id}}
	return quorum.Beginning{Cluster: lineage, Founding: f}
}

// number returns a number that no other life has.
func (l *life) number() uint64 {
	id := l.s.id
	if l.w.second {
		id += secondWorld
	}
	return id<<32 | uint64(l.s.lives)
}

// discover asks the peers once, and again until it is clear how to begin.
func (l *life) discover() {
	w, s := l.w, l.s
	answers := map[uint64]quorum.Answer{}
	asker := &asker{host: s, life: s.lives, level: l.level, asks: l.inquiry}
	l.rounds = append(l.rounds[max(len(l.rounds)-roundsKept+1, 0):], w.now)
	for _, m := range s.config {
		if m.ID != s.id {
			answers[m.ID] = quorum.Answer{Err: errNoAnswer}
			w.ask(m, asker, func(a quorum.Answer) { answers[m.ID] = a })
		}
	}
	w.after(joinPatience/4+between(w.netDice, 0, joinPatience), func() {
		s.awake(func() {
			asker.asks = nil
			if l.ended {
				return
			}
			b, waiting, ok := l.inquiry.Round(s.monotonic()/millisecond, answers, s.ordered)
			w.logger(s.id).Info("it belongs to no ensemble", "holds", l.inquiry.Holds, "clear", ok, "beginning", b, "waiting",
				waiting)
			if !ok {
				w.stats.Waits++
				if heard := l.inquiry.Data(); !slices.Equal(heard, l.inquiry.Heard) {
					l.inquiry.Heard = heard
					if !l.protect(func() {
						if err := storage.KeepBefore(s.disk.fs, w.logDir(), quorum.HeardName, quorum.EncodeHeard(heard)); err != nil {
							l.refused(err)
						}
					}) || l.ended {
						return
					}
				}
				if l.asksElsewhere(answers) {
					s.configure(false)
					return
				}
				w.after(joinPause, l.discover)
				return
			}
			if b.Overtaken {
				l.overtaken()
				return
			}
			w.begins(l, b)
			l.protect(func() {
				if err := l.joins(b); err != nil {
					l.refused(err)
					return
				}
				l.begin(b)
			})
			if f := b.Founding; f != nil && f.Lineage == l.inquiry.Lineage && w.doom > 0 {
				s.kill(w.doom)
				w.doom = 0
			}
		})
	})
}

// asksElsewhere reports whether a server is led by one that this server's lines don't name. The log says so, and an
// operator adds the line.
func (l *life) asksElsewhere(answers map[uint64]quorum.Answer) bool {
	if l.w.plan.Begins || !l.inquiry.Empty() {
		return false
	}
	for _, a := range answers { // any order: one is enough
		led := func(m quorum.Member) bool { return m.ID == a.Leader }
		if a.Leader != 0 && !slices.ContainsFunc(l.s.config, led) &&
			slices.ContainsFunc(l.w.configOf(l.s.id, false), led) {
			return true
		}
	}
	return false
}

// roundsKept is how many rounds of questions are remembered by when they began.
const roundsKept = 3

// ask asks the server that a server line leads to.
func (w *World) ask(m quorum.Member, by *asker, answer func(quorum.Answer)) {
	if !w.plan.Begins {
		w.servers[m.ID-1].asked(by, answer)
		return
	}
	say := func(a quorum.Answer) { w.after(w.delay(), func() { answer(a) }) }
	switch d := w.resolve(m.Addrs[0]); {
	case d.noName:
		say(quorum.Answer{NoSuchName: true})
	case d.at == nil:
		say(quorum.Answer{Err: errNoAddress})
	case d.closed && !d.at.dark.on():
		say(quorum.Answer{NobodyListens: true})
	case d.closed:
	case d.at.id != m.ID:
		say(quorum.Answer{Err: errOtherID})
	default:
		d.at.asked(by, answer)
	}
}

// An asker is a server that asks how to begin: one that belongs to no ensemble, in one
// of its lives, or an impostor that uses its id.
type asker struct {
	*host
	life  int
	level int32
	asks  *quorum.Inquiry // nil unless a round of questions goes on
}

// duplicateLife is the life number of an impostor; no server reaches it.
const duplicateLife = 1 << 30

// duplicateID has an impostor elsewhere ask all servers, for a while, to let it join under a server's id.
func (w *World) duplicateID(of *host, d int64) {
	for at := int64(0); at <= d; at += 5 * joinPause {
		w.unless(at, func() {
			for _, s := range w.servers {
				if s != of && s.life != nil && s.life.loop != nil {
					s.asked(&asker{host: of, life: duplicateLife, level: s.life.level}, func(quorum.Answer) {})
				}
			}
		})
	}
}

// asked delivers a server's question how to begin to s, and the answer back to it. An asker that joins by the answer
// asks for that next, as the transport does; answer gets both replies.
func (s *host) asked(by *asker, answer func(quorum.Answer)) {
	s.exchange(by, func(l *life, back func(quorum.Answer)) {
		if l.loop != nil {
			back(l.answerWhat())
		} else if l.inquiry != nil {
			back(l.read(quorum.AppendClaim(nil, l.inquiry.Claim())))
		}
	}, func(a quorum.Answer) {
		answer(a)
		if !by.joinsBy(a) {
			return
		}
		s.exchange(by, func(l *life, back func(quorum.Answer)) {
			if l.loop != nil {
				l.joinRequest(by, func(r quorum.JoinReply) {
					a.Join = r
					back(a)
				})
			}
		}, func(b quorum.Answer) {
			if b.Err == nil && !b.NobodyListens {
				answer(b)
			}
		})
	})
}

// exchange delivers a message to s, where ask answers it, and the answer back.
func (s *host) exchange(by *asker, ask func(l *life, back func(quorum.Answer)), answer func(quorum.Answer)) {
	w, from := s.w, by.host
	back := func(a quorum.Answer) {
		if !w.cut(from.index, s.index) {
			w.after(w.delay(), func() { answer(a) })
		}
	}
	if w.cut(from.index, s.index) {
		return
	}
	w.after(2*w.delay(), func() {
		switch {
		case s.dark.on():
			return
		case s.stranger.on():
			back(quorum.Answer{Err: errStranger})
			return
		case s.life != nil && !s.life.bare && !proves(from, s):
			back(quorum.Answer{Err: errProof})
			return
		case s.life == nil && !s.paused() || s.life != nil && s.life.bare:
			back(quorum.Answer{NobodyListens: true})
			return
		}
		s.awake(func() {
			if s.life != nil {
				ask(s.life, back)
			}
		})
	})
}

// answerWhat answers a server that is finding out how to begin.
func (l *life) answerWhat() quorum.Answer {
	status := l.loop.Status()
	return l.read(quorum.AppendBegun(nil, l.s.cluster, status.Elected, status.Leader, l.founding))
}

// joinsBy reports whether a server that gets the answer asks to join next: an empty one, if the other one belongs to an
// ensemble and not by a founding in which the asker took part. It does so within one round of questions. An impostor
// always asks.
func (by *asker) joinsBy(a quorum.Answer) bool {
	if by.life == duplicateLife {
		return a.Elected
	}
	return a.Elected && by.asks != nil && by.lives == by.life && by.asks.Empty() && !by.asks.TookPart(a.Founding)
}

// read decodes an answer, as the server does that receives it.
func (l *life) read(answer []byte) quorum.Answer {
	a, err := quorum.DecodeAnswer(answer)
	if err != nil {
		l.w.fail("server %d's answer to the question how to begin can't be read: %v", l.s.id, err)
	}
	return a
}

// joinRequest handles a question as the server's transport does.
func (l *life) joinRequest(by *asker, back func(quorum.JoinReply)) {
	from := by.host
	e := quorum.Event{
		Kind: quorum.EventJoin, From: from.id, Level: uint32(by.level), Life: uint32(by.life), Conn: l.accepted,
		Known: l.peers[from.id],
	}
	if from.w.second { // lives have numbers of their own
		e.Life += secondWorld << 16
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
	if w.atNameOf(of.id) != of {
		answer(false)
		return
	}
	cut := func() bool {
		return w.cut(l.s.index, of.index) || of.dark.on() || of.unnamed.on() || !proves(of, l.s)
	}
	if cut() {
		return
	}
	w.after(2*w.delay(), func() {
		of.awake(func() {
			empty := of.life != nil && of.life.loop == nil && of.lives == life &&
				(of.life.inquiry == nil || of.life.inquiry.Empty())
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

// question is a question that the loop hasn't answered yet.
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

// joiningName is the file in which a server records that it is joining.
func (w *World) joiningName() string { return w.logDir() + "/joining" }

// joins writes the note that the server is joining, or the record of the founding in which it takes part.
func (l *life) joins(b quorum.Beginning) error {
	if l.image != nil {
		return l.refound(b)
	}
	if b.Founding != nil {
		return storage.KeepBefore(l.s.disk.fs, l.w.logDir(), quorum.FoundingName, quorum.EncodeFounding(b.Founding))
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

// foundingKept returns the founding that the server has recorded, if it belongs to the disk's content.
func (l *life) foundingKept() (*quorum.Founding, error) {
	kept, err := l.dir.Kept(quorum.FoundingName)
	if err != nil {
		return nil, err
	}
	f, err := quorum.DecodeFounding(kept)
	if err != nil || f == nil || f.Lineage != l.s.cluster {
		return nil, err
	}
	return f, nil
}

// overtaken sets the server's disk aside, so that it joins the ensemble that the others have founded without it.
func (l *life) overtaken() {
	w, s := l.w, l.s
	w.logger(s.id).Info("the others have founded another ensemble")
	w.stats.Overtaken++
	s.end(false)
	s.disk = disk{fs: storage.NewMemFS(), w: w, s: s}
	s.promise, s.log, s.electorate, s.begun = promise{}, nil, [2][]uint64{}, false
	w.after(0, s.start)
}

// watchOvertaken asks the others for their states while the ensemble that this server has founded has elected no
// leader. If they have founded another one meanwhile, the server joins that with an empty disk.
func (l *life) watchOvertaken() {
	w, s := l.w, l.s
	if l.ended || l.founding == nil || l.loop == nil || l.loop.Status().Elected {
		return
	}
	answers := map[uint64]quorum.Answer{}
	for _, m := range s.config {
		if m.ID != s.id {
			w.ask(m, &asker{host: s, life: s.lives, level: l.level}, func(a quorum.Answer) { answers[m.ID] = a })
		}
	}
	w.after(second, func() {
		s.awake(func() {
			if !l.ended && l.founding.Overtaken(answers) && !l.loop.Status().Elected {
				l.overtaken()
				return
			}
			l.watchOvertaken()
		})
	})
}
