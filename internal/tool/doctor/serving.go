package doctor

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/access"
)

// The states of a server, according to its answer to srvr.
const (
	serves  = "serves"
	refuses = "says that it isn't serving requests"
	silent  = "doesn't answer"
	unclear = "" // it answers, but without its state
)

func (a *answers) state() string {
	switch {
	case a.err != nil:
		return silent
	case strings.HasPrefix(a.srvr, "Zookeeper version: "):
		return serves
	case strings.Contains(a.srvr, "not currently serving requests"):
		return refuses
	}
	return unclear
}

// nobody reports an ensemble in which no server serves clients, if all servers could be asked, and either this one runs
// or most of the voters do. Otherwise the others may only be waiting for this server to be started. A silent server may
// be stopped, or unreachable from here.
func (e *examination) nobody() {
	members := e.cfg.Quorum.Members.Servers
	if len(e.told) < len(members) {
		return
	}
	voters, waiting, said := 0, 0, []string{}
	for i := range members {
		a := e.told[members[i].ID]
		state := a.state()
		if state == serves || state == unclear {
			return
		}
		if !members[i].Observer {
			voters++
			if state == refuses {
				waiting++
			}
		}
		said = append(said, fmt.Sprintf("server %d %s", members[i].ID, state))
	}
	if e.running || waiting > voters/2 {
		e.fault("start those that are stopped; each log names the servers it waits for (waiting=): zooid status "+e.file,
			"nobody serves clients: %s", strings.Join(said, ", "))
	}
}

// alone reports a standalone server that runs but serves no clients.
func (e *examination) alone() {
	at := e.cfg.Client
	if !e.running || at.Port == 0 {
		return
	}
	if isWildcard(at.Host) {
		at.Host = "127.0.0.1"
	}
	a := e.askOne(&access.Access{}, at.String())
	const do = "check its log: it may still be reading its data, or another program holds the directory (lsof +D shows which)"
	switch a.state() {
	case silent:
		e.fault(do, "nobody serves clients: the data directory is in use, and no server answers at %s: %v", at, a.err)
	case refuses:
		e.fault(do, "nobody serves clients: this server reports at %s that it isn't serving requests", at)
	}
}
