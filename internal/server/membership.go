package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Membership tells the server how to read the text of /zookeeper/config and of reconfig requests.
// The caller of Open supplies it, because it is part of the configuration. The results of Parse and
// Change must depend on their arguments alone.
type Membership struct {
	// Text is the membership that a new ensemble begins with, in the form of /zookeeper/config, without its version.
	Text string
	// Parse returns the servers of a membership text.
	Parse func(text string) ([]Member, error)
	// Change evaluates a reconfig request.
	Change tree.Reconfigure
	// Listening, if not nil, returns the addresses at which a membership has server id listen, and false if it doesn't
	// name the server. The server's listeners then follow changes of the membership.
	Listening func(text string, id uint64) (l Listening, ok bool)
	// At returns a membership text with another host for the peer ports of server id. It may be nil.
	At func(text string, id uint64, host string) (string, bool)
	// Save, if not nil, is called with the membership, including its version line, and the version: at the start and after
	// each change, one call at a time. A membership that is replaced at once may be skipped.
	Save func(text string, version int64)
}

// A membershipFile is the file that Membership.Save writes.
type membershipFile struct {
	*engine
	changed signal // there is a membership to save
}

// follow passes the membership to Save whenever it has changed.
func (m *membershipFile) follow() {
	saved := int64(-1)
	for {
		select {
		case <-m.closing:
			return
		case <-m.changed:
		}
		for !m.serving() { // until then the applied membership may be older than one applied before the restart
			if !m.pause(servingPause) {
				return
			}
		}
		text, version := m.replica.Members()
		if text == "" || version == saved {
			continue
		}
		m.compare(text, saved < 0)
		saved = version
		if save := m.opt.Membership.Save; save != nil {
			save(text, version)
		}
	}
}

const servingPause = 100 * time.Millisecond // interval at which follow checks whether the server serves

// compare warns if this server is not a member. At the start it also warns if the
// configured server lines differ from the ensemble's membership, which is the one that counts.
func (m *membershipFile) compare(text string, start bool) {
	now, err := m.opt.Membership.Parse(text)
	if err != nil {
		return // the replica, which follows the membership, has logged the error
	}
	same := func(a, b Member) bool {
		listens := b.ID == m.opt.ID && len(b.Addrs) == 1 && onlyHere(b.Addrs[0])
		return a.ID == b.ID && a.Observer == b.Observer && (listens || slices.Equal(a.Addrs, b.Addrs))
	}
	if !slices.ContainsFunc(now, func(other Member) bool { return other.ID == m.opt.ID }) {
		m.log.Warn("this server isn't a member of the ensemble: it follows without a vote and serves its clients; add it by reconfig, or stop it",
			"server", m.opt.ID, "membership", oneLine(text), "code", "ZD-3201")
	}
	if start && !slices.EqualFunc(now, m.opt.Members, same) {
		m.log.Warn("the server lines of the configuration differ from the ensemble's membership, which takes effect; change it by reconfig",
			"membership", oneLine(text), "code", "ZD-3202")
	}
}

// SecretOf returns the secret for a configured text.
func SecretOf(text string) PeerSecret { return peer.SecretOf(text) }

// AllowJoin allows server id, which has lost its data, to ask the running server of a data
// directory for the ensemble's secret. It returns when the permission expires.
func AllowJoin(dataDir string, id uint64, addr string) (time.Time, error) {
	return peer.AllowJoin(dataDir, id, addr)
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// dirsOf names the data directory, and the log directory if it is a different one.
func dirsOf(opt Options) string {
	if opt.LogDir == opt.DataDir {
		return opt.DataDir
	}
	return opt.DataDir + " and " + opt.LogDir
}

// joined removes the note that this server is joining. If that fails, the server merely stays cautious.
func (e *engine) joined() {
	if err := peer.RemoveNote(e.opt.LogDir, e.opt.DataDir); err != nil {
		e.log.Warn("this server has joined but can't remove the note that it is joining; remove the note's file", "err", err, "code", "ZD-3203")
	}
}

// Limits of the check whether a reconfig's voters answer.
const (
	reachTimeout = 2 * time.Second
	// reachAddressesMax bounds the addresses that are dialed at a time: far more than the voters of
	// any useful ensemble have.
	reachAddressesMax = 64
)

// stagingPatience is how long a reconfig waits for the feature level that stages changes. After an upgrade the level
// rises once the last server has announced its highest level; at the former level a reconfig would be answered too
// early. An ensemble with servers of an older version stays at the former level.
const stagingPatience = time.Second

// reconfigs handles the requests to change the membership.
type reconfigs struct{ *engine }

func (r reconfigs) awaitStaging() {
	wants := tree.LevelOf(tree.OpChange)
	for end := time.Now().Add(stagingPatience); !r.replica.InForce(tree.OpChange, nil) &&
		r.opt.Settings.FeatureLevel >= wants && time.Now().Before(end); {
		if !r.pause(stagingPause) {
			return
		}
	}
}

const stagingPause = 10 * time.Millisecond // interval at which awaitStaging checks the feature level

// vet returns the code to append to a reconfig request. It checks the requested ids, the number of addresses, and
// whether a majority of the requested voters answer. Everything else is checked when the request is applied.
func (r reconfigs) vet(body []byte) jute.Code {
	var req jute.ReconfigRequest
	d := jute.NewDecoder(body)
	req.Decode(d)
	m := r.opt.Membership
	if d.Err() != nil || m.Change == nil || r.peer == nil {
		return jute.OK
	}
	r.awaitStaging()
	current, _ := r.replica.Members()
	text, code := m.Change(current, &req, true)
	if code != jute.OK {
		return jute.OK // apply returns the same code, unless the membership changes meanwhile
	}
	members, err := m.Parse(text)
	if err != nil {
		return jute.OK
	}
	if err := checkIDs(members); err != nil {
		r.log.Warn("a reconfig was refused", "err", err, "code", "ZD-3204")
		return jute.ErrBadArguments
	}
	var voters []Member
	addresses := 0
	for _, member := range members {
		if !member.Observer {
			voters = append(voters, member)
			addresses += len(member.Addrs)
		}
	}
	if addresses > reachAddressesMax {
		r.log.Warn("a reconfig was refused: its voters have too many addresses", "addresses", addresses,
			"most", reachAddressesMax, "code", "ZD-3205")
		return jute.ErrBadArguments
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	if n := r.peer.Reachable(ctx, voters); n <= len(voters)/2 {
		r.log.Warn("a reconfig was refused: too few of the voters that it names answer", "answer", n, "voters", len(voters), "code", "ZD-3206")
		return jute.ErrNewConfigNoQuorum
	}
	return jute.OK
}
