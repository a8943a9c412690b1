package proof

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Testimony is what a server's own machine knows about the end of the server. zooid migrate tail prints it before the
// tail.
type Testimony struct {
	Try   Try             `json:"try"`
	ID    *int64          `json:"id,omitempty"` // in the directory's myid; nil if it has none
	Last  int64           `json:"last"`         // zxid at which the log ends
	Files Files           `json:"files"`
	Ports map[string]Port `json:"ports"`
}

// testimonyMark begins the line of a testimony.
const testimonyMark = "zooid stopped 1: "

// Line returns the line that zooid migrate tail prints.
func (t *Testimony) Line() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // its types can't fail
	}
	return testimonyMark + base64.StdEncoding.EncodeToString(b) + "\n"
}

// ErrNoTestimony says that a command has printed no testimony.
var ErrNoTestimony = errors.New("only a tail was received; zooid migrate tail of this version also reports how the server ended")

// FindTestimony finds the last testimony in a command's output.
func FindTestimony(printed []byte) (*Testimony, error) {
	at := bytes.LastIndex(printed, []byte(testimonyMark))
	if at < 0 {
		return nil, ErrNoTestimony
	}
	line, _, whole := bytes.Cut(printed[at+len(testimonyMark):], []byte("\n"))
	if !whole {
		return nil, ErrNoTestimony
	}
	t := &Testimony{}
	b, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
	if err == nil {
		err = json.Unmarshal(b, t)
	}
	if err != nil {
		return nil, fmt.Errorf("read the report of the server's end: %w", err)
	}
	return t, nil
}

// A Server collects what is known about the end of one server.
type Server struct {
	ID       int64
	Election []string // addresses at which it listens as long as it runs
	Others   []string // addresses at which it may listen: while it leads, and for clients
	Before   map[string]Port
	After    map[string]Port // as seen from the machine of the switch
	Said     *Testimony
	Last     int64 // zxid at which its tail ends
	// Joined says that its log has the last transaction of the copy. Otherwise the server hadn't written to the log for a
	// while, or the log isn't the server's.
	Joined bool
	Copied int64 // that transaction's zxid
}

// A Verdict holds the findings about a server.
type Verdict struct {
	Runs  []string // signs that it runs
	Lacks []string // what is unknown about its end
}

// Stopped reports whether it is proved that the server has stopped.
func (v *Verdict) Stopped() bool { return len(v.Runs)+len(v.Lacks) == 0 }

// Judge decides whether a server has stopped, by what is known in a try. The proof is complete if
//
//  1. a process on its machine that can see which processes have the server's files open says that none has,
//  2. each address at which the server listens is known to be closed,
//  3. its log has the last transaction that the copy had before the stop, and ends where its tail does,
//  4. all of these answers belong to this try.
//
// Seen from another machine, a refused connection shows that an election port is closed only if that port was open
// before: firewalls refuse connections too. On the server's own machine, a refusal comes from its kernel.
func (s *Server) Judge(try Try) (v Verdict) {
	if s.Said == nil {
		v.Lacks = append(v.Lacks, "whether it has stopped: "+ErrNoTestimony.Error())
		return v
	}
	if s.Said.Try != try {
		v.Lacks = append(v.Lacks, fmt.Sprintf("whether it has stopped in this try, %[2]q: the output is from another try, %[1]q",
			s.Said.Try, try))
		return v
	}
	switch f := &s.Said.Files; {
	case f.Held != "":
		v.Runs = append(v.Runs, f.Held)
	case !f.Known:
		v.Lacks = append(v.Lacks, "whether a process has its files open: "+f.Why+
			" (run zooid migrate tail as root, or as the server's user, outside of containers)")
	}
	for _, address := range slices.Concat(s.Election, s.Others) {
		here, there := s.After[address], s.Said.Ports[address]
		far := here == Closed && (s.Before[address] == Open || slices.Contains(s.Others, address))
		switch {
		case here == Open || there == Open:
			v.Runs = append(v.Runs, "something listens on its port "+address)
		case !far && there != Closed:
			v.Lacks = append(v.Lacks, "whether something listens on its port "+address)
		}
	}
	switch {
	case s.Said.Last != s.Last:
		v.Lacks = append(v.Lacks, fmt.Sprintf("where its log ends: at %#x or at %#x", uint64(s.Said.Last), uint64(s.Last)))
	case !s.Joined:
		v.Lacks = append(v.Lacks, fmt.Sprintf("whether its log is complete: it lacks zxid %#x, which was committed before the stop (if the server has a dataLogDir, give -datalogdir)",
			uint64(s.Copied)))
	}
	return v
}

// String lists the evidence against the server's end.
func (v *Verdict) String() string {
	var parts []string
	if len(v.Runs) > 0 {
		parts = append(parts, "it runs: "+strings.Join(v.Runs, "; "))
	}
	if len(v.Lacks) > 0 {
		parts = append(parts, "it isn't known "+strings.Join(v.Lacks, "; "))
	}
	return strings.Join(parts, ". ")
}
