//go:build unix

package moving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/apache/proof"
)

// A stoppedServer is an Apache server that has stopped, by proof or by the operator's confirmation (-stopped).
type stoppedServer struct {
	ID       int64
	Election []string // its election ports: it listens there as long as it runs, and Zooid doesn't
	Seen     bool     // they were open from here before the stop, so a refusal means a closed port, not a firewall
	Last     int64    // zxid at which its log ends
}

// newStopped returns a server that has stopped; before has the ports as seen from here before the stop.
func newStopped(m *learner.Member, before map[string]proof.Port, last int64) stoppedServer {
	s := stoppedServer{ID: m.ID, Election: m.Election, Seen: true, Last: last}
	for _, address := range m.Election {
		s.Seen = s.Seen && before[address] == proof.Open
	}
	return s
}

// toldToStop returns the servers that a try has told to stop, by its journal.
func toldToStop(past []proof.Record, try proof.Try) (servers []stoppedServer) {
	for _, rec := range past {
		var p stopPlan
		if rec.Try != try || rec.Step != stepStop || json.Unmarshal(rec.Data, &p) != nil {
			continue
		}
		for i := range p.Ensemble.Members {
			servers = append(servers, newStopped(&p.Ensemble.Members[i], p.Before, 0))
		}
	}
	return servers
}

// reopened checks the servers' election ports. The error says that something listens there again. unseen are the
// servers whose ports can't be checked, for example behind a firewall.
func reopened(ctx context.Context, servers []stoppedServer) (unseen []stoppedServer, err error) {
	var all []string
	for _, s := range servers {
		all = append(all, s.Election...)
	}
	now := proof.Probe(ctx, all)
	for _, s := range servers {
		closed := s.Seen
		for _, address := range s.Election {
			if closed = closed && now[address] == proof.Closed; now[address] == proof.Open {
				err = errors.Join(err, fmt.Errorf("something listens on the election port %s again: Apache has been restarted",
					address))
			}
		}
		if !closed {
			unseen = append(unseen, s)
		}
	}
	return unseen, err
}

// withoutWord leaves out the servers that the operator has confirmed to have stopped (-stopped).
func (r *switchRun) withoutWord(servers []stoppedServer) []stoppedServer {
	return slices.DeleteFunc(servers, func(s stoppedServer) bool { return slices.Contains(r.word, s.ID) })
}

func serverIDs(servers []stoppedServer) (ids []int64) {
	for _, s := range servers {
		ids = append(ids, s.ID)
	}
	return ids
}

// stillClosed returns an error if one of Apache's servers was started again while the data was made. A server whose
// ports can't be reached from here is asked again by the operator's command: none of its files may be open, and its log
// must end where it ended.
func (r *switchRun) stillClosed(ctx context.Context, p *stopPlan) error {
	unseen, err := reopened(ctx, r.ended)
	if unseen = r.withoutWord(unseen); err != nil || len(unseen) == 0 {
		return err
	}
	if r.tails != "" {
		r.says.say(fmt.Sprintf("the election ports of the servers %v can't be reached from here: if something has started one since its tail was printed, it isn't seen",
			serverIDs(unseen)))
		return nil
	}
	r.says.show(fmt.Sprintf("asking again whether the servers %v have stopped: their election ports can't be reached from here",
		serverIDs(unseen)))
	e := p.Ensemble
	e.Members = slices.DeleteFunc(slices.Clone(e.Members), func(m learner.Member) bool {
		return !slices.Contains(serverIDs(unseen), m.ID)
	})
	defer r.dropTails()
	again, err := r.endings(ctx, &e, max(p.At-1, 0), nil)
	if err != nil {
		return err
	}
	for _, s := range unseen {
		switch said := again[s.ID].said; {
		case said == nil || said.Try != r.try:
			err = errors.Join(err, fmt.Errorf("server %d had stopped, but it isn't known whether it has been started since: its election port can't be reached from here, and its command didn't answer again",
				s.ID))
		case said.Last != s.Last:
			err = errors.Join(err, fmt.Errorf("server %d had stopped, but has been started since: its log ends at %#x, no longer at %#x",
				s.ID, uint64(said.Last), uint64(s.Last)))
		}
	}
	return err
}
