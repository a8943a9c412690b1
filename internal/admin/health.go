package admin

import (
	"fmt"
	"net/http"

	"github.com/zooid-project/zooid/internal/fourletter"
)

// The reasons why a server isn't ready.
const (
	ReasonStarting = "starting"    // the data directory is being read, or the server waits for its peers
	ReasonNoQuorum = "not_serving" // there is no leader, or the leader's state isn't applied yet
	ReasonReadOnly = "read_only"   // the server is cut off from its ensemble and serves only reads
	ReasonDraining = "draining"    // the server was asked to let others take over
	ReasonStalled  = "stalled"     // its disk or its loop hangs, or it knows nothing of the ensemble
)

// DrainingText is the text of ReasonDraining.
const DrainingText = "The server is drained, or about to be: it accepts no new clients, and others take over."

// A Reason says why a server isn't ready: a code for programs and a text for people.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Readiness returns the reasons why s can't serve clients; none if it can.
func Readiness(s Server) []Reason {
	if s == nil {
		return []Reason{{ReasonStarting, "The server starts: it reads its data directory, or waits for its peers."}}
	}
	var why []Reason
	if s.Draining() {
		why = append(why, Reason{ReasonDraining, DrainingText})
	}
	if stalled := s.Stalled(); stalled != "" {
		why = append(why, Reason{ReasonStalled, "The server can't do its work: " + stalled + "."})
	}
	switch st := s.Status(); {
	case st.Mode == fourletter.ModeReadOnly:
		why = append(why, Reason{ReasonReadOnly, "The server is cut off from its ensemble and serves only reads."})
	case !st.Serving && len(why) == 0 && st.Leader == 0:
		why = append(why, Reason{ReasonNoQuorum, "The server has no leader."})
	case !st.Serving && len(why) == 0:
		why = append(why, Reason{ReasonNoQuorum, "The server has a leader, but has not applied yet what the ensemble has."})
	}
	return why
}

// alive reports that the process is alive, even without a quorum, since a restart wouldn't help.
func (a *Admin) alive(w http.ResponseWriter, r *http.Request) {
	writePage(w, http.StatusOK, object{{"alive", true}})
}

// ready reports whether the server can serve clients, and if not, why.
func (a *Admin) ready(w http.ResponseWriter, r *http.Request) {
	s := a.server()
	reasons, status := array{}, http.StatusOK
	for _, why := range Readiness(s) {
		status = http.StatusServiceUnavailable
		reasons = append(reasons, object{{"code", why.Code}, {"text", why.Text}})
	}
	page := object{{"ready", len(reasons) == 0}, {"reasons", reasons}}
	if s != nil {
		st := s.Status()
		page.set("mode", st.Mode)
		page.set("zxid", fmt.Sprintf("0x%x", uint64(st.Zxid)))
		page.set("lineage", fmt.Sprintf("%016x", s.Standing().Lineage))
	}
	writePage(w, status, page)
}

// writePage answers a request that isn't a command.
func writePage(w http.ResponseWriter, status int, page object) {
	body, err := text(page)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // an error means that the caller has gone
}
