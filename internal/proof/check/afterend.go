package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// answerBoundMin is the minimum bound of X10, in nanoseconds: for sessions of less than three seconds the servers'
// bound is one second (decision 086).
const answerBoundMin = 1e9

// clockRateShare bounds how much slower a server's clock may run than the history's: one part in a hundred.
const clockRateShare = 100

// answerBound returns how long s may be answered after its end, in nanoseconds.
func (s *session) answerBound() int64 {
	bound := max(s.timeout/3, answerBoundMin)
	return bound + bound/clockRateShare
}

// over records that an event showed at a time that s had ended.
func (s *session) over(at int64, event int) {
	if s.overBy == 0 || at < s.overBy {
		s.overBy, s.overEvent = at, event
	}
}

// afterEnd checks that no session is answered long after its end (X10).
//
// No client records when a session's end was committed. But it was committed when any client received its zxid or a
// later one, and when the session's own client was refused. The earliest such time is the session's overBy. A server
// decides to answer a request after the request was sent. So a request sent later than overBy plus the bound shows a
// fault, however long its reply took to arrive. A request sent earlier may have been answered in time. It counts only
// if its reply came later than Options.DeliveryMax allows.
func (c *checker) afterEnd() {
	if c.opt.AnswersAfterEnd {
		return
	}
	var ended []*session
	for _, s := range c.order {
		if c.unwritten(s) {
			continue // only one server knew it, and others refuse it during its life
		}
		if s.endEvent >= 0 && c.h.Events[s.endEvent].Kind == history.KindConnected {
			s.over(c.h.Events[s.endEvent].Time, s.endEvent)
		}
		if s.endZxid > 0 && !s.endGuessed {
			ended = append(ended, s)
		}
	}
	c.seenOver(ended)
	for i := range c.ops {
		o := &c.ops[i]
		s := o.conn.session
		if s == nil || s.overBy == 0 || o.rep < 0 || o.kind == jute.OpCloseSession && o.own == s.endZxid {
			continue // the reply to a closeSession announces the end
		}
		sent, got, bound := c.h.Events[o.req].Time-s.overBy, c.h.Events[o.rep].Time-s.overBy, s.answerBound()
		if sent > bound || c.opt.DeliveryMax > 0 && got > bound+int64(c.opt.DeliveryMax) {
			c.violate(X10,
				fmt.Sprintf("session %#x, whose timeout is %.3f s, was over: its %s was sent %.3f s and answered %.3f s after that had been seen",
					s.id, float64(s.timeout)/1e9, o.kind, float64(sent)/1e9, float64(got)/1e9), int(o.rep), int(o.req), s.overEvent)
		}
	}
}

// seenOver finds when any client received the zxid of each session's end, or a later one.
func (c *checker) seenOver(ended []*session) {
	slices.SortStableFunc(ended, func(a, b *session) int { return cmp.Compare(a.endZxid, b.endZxid) })
	for i := range c.h.Events {
		if len(ended) == 0 {
			return
		}
		e := &c.h.Events[i]
		if e.Kind != history.KindReply && e.Kind != history.KindNotification {
			continue
		}
		for len(ended) > 0 && e.Zxid >= ended[0].endZxid {
			ended[0].over(e.Time, i)
			ended = ended[1:]
		}
	}
}
