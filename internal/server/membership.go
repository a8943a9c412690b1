package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Membership is how the server reads what /zookeeper/config and reconfig
// requests say; the caller of Open brings it, since it is configuration. Both
// are functions of their arguments alone.
type Membership struct {
	// Text is the membership that a new ensemble begins with, as /zookeeper/config
	// will hold it, without its version.
	Text string
	// Parse returns the servers of a membership text.
	Parse func(text string) ([]Member, error)
	// Change evaluates a reconfig request.
	Change tree.Reconfigure
	// Save, if not nil, is given the membership with its version line, and the
	// version, at the start and after each change, one call at a time. It may miss
	// one that the next follows at once.
	Save func(text string, version int64)

	changed func() // tells that there is something to save; must not block
}

// noteMembership lets saveMembership run.
func (s *Server) noteMembership() {
	select {
	case s.membership <- struct{}{}:
	default:
	}
}

// saveMembership hands the membership to Save whenever it has changed.
func (s *Server) saveMembership() {
	defer s.wg.Done()
	saved := int64(-1)
	for {
		select {
		case <-s.closing:
			return
		case <-s.membership:
		}
		for !s.Status().Serving { // what is applied at first may be older than what was before
			if !s.pause(servingPause) {
				return
			}
		}
		s.replica.mu.RLock()
		text, version := s.replica.tree.Members()
		s.replica.mu.RUnlock()
		if text == "" || version == saved {
			continue
		}
		s.compareMembership(text, saved < 0)
		saved = version
		if save := s.opt.Membership.Save; save != nil {
			save(text, version)
		}
	}
}

// servingPause is the time between two looks whether the server serves.
const servingPause = 100 * time.Millisecond

// compareMembership says that this server is no member, and at its start where the
// configuration that it was started with differs from the ensemble's, which counts.
func (s *Server) compareMembership(text string, start bool) {
	now, err := s.opt.Membership.Parse(text)
	if err != nil {
		return // said already by who follows it
	}
	same := func(a, b Member) bool {
		return a.ID == b.ID && a.Observer == b.Observer && slices.Equal(a.Addrs, b.Addrs)
	}
	if !slices.ContainsFunc(now, func(m Member) bool { return m.ID == s.opt.ID }) {
		s.log.Warn("this server is no member of the ensemble: it follows without a vote; add it by reconfig, or stop it", "server", s.opt.ID, "membership", oneLine(text))
	}
	if start && !slices.EqualFunc(now, s.opt.Members, same) {
		s.log.Warn("the server lines of the configuration differ from the ensemble's membership, which counts; change it by reconfig", "membership", oneLine(text))
	}
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// beginning finds out which cluster this server's data directory belongs to,
// or is to belong to.
func (s *Server) beginning(opt Options, l net.Listener) (quorum.Beginning, error) {
	cluster, err := storage.ReadIdentity(storage.OS{}, opt.DataDir)
	switch {
	case err == nil:
		after, err := readJoining(opt.DataDir)
		return quorum.Beginning{Cluster: cluster, JoinedAfter: after}, err
	case !errors.Is(err, fs.ErrNotExist):
		return quorum.Beginning{}, fmt.Errorf("read which cluster the data directory %s belongs to: %w", opt.DataDir, err)
	case len(opt.Members) <= 1:
		return quorum.Beginning{Cluster: newClusterID(opt.Members)}, nil
	}
	if err := s.openEarly(); err != nil {
		return quorum.Beginning{}, err
	}
	defer s.endEarly()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-opt.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	b, err := quorum.Discover(ctx, opt.ID, opt.Members, l, opt.PeerTLS, opt.Log)
	if err != nil {
		return b, fmt.Errorf("find out whether there is an ensemble to join: %w", err)
	}
	if b.Cluster == 0 {
		b.Cluster = newClusterID(opt.Members)
		return b, nil
	}
	opt.Log.Info("there is an ensemble; this server joins it", "cluster", fmt.Sprintf("%016x", b.Cluster))
	return b, writeJoining(opt.DataDir, b.JoinedAfter)
}

// joiningName is a file that is there while this server must not take part in
// elections; it holds the log index beyond which it becomes a member.
const joiningName = "joining"

func readJoining(dir string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(dir, joiningName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read whether this server is joining: %w", err)
	}
	after, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: it holds %q, not a log index; empty the data directory and start again", filepath.Join(dir, joiningName), b)
	}
	return max(after, 1), nil
}

func writeJoining(dir string, after uint64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	path := filepath.Join(dir, joiningName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, max(after, 1))
		err = errors.Join(err, f.Sync(), f.Close(), storage.OS{}.SyncDir(dir))
	}
	if err != nil {
		return fmt.Errorf("note in %s that this server is joining: %w", path, err)
	}
	return nil
}

// joined removes the note. If that fails the server merely stays cautious.
func (s *Server) joined() {
	if err := os.Remove(filepath.Join(s.opt.DataDir, joiningName)); err != nil {
		s.log.Warn("this server has joined but can't remove the note that it is joining; remove it by hand", "err", err)
	}
}

// Membership returns the servers of /zookeeper/config, or nil if the version is
// the known one.
func (r *replica) Membership(known int64) ([]quorum.Member, int64) {
	r.mu.RLock()
	text, version := r.tree.Members()
	r.mu.RUnlock()
	if version == known || text == "" || r.membership.Parse == nil {
		return nil, known
	}
	members, err := r.membership.Parse(text)
	if err != nil {
		r.log.Error("the membership in /zookeeper/config can't be read; it is not followed", "err", err)
		return nil, version
	}
	if r.membership.changed != nil {
		r.membership.changed()
	}
	return members, version
}

// proposeMembers puts the membership that this server was started with in the
// log if there is none.
func (r *replica) proposeMembers() {
	if text, _ := r.tree.Members(); text == "" && r.membership.Text != "" {
		r.outbox.add(&tree.Request{Op: tree.OpMembers, Body: []byte(r.membership.Text)})
		r.kick()
	}
}

// reachTimeout bounds the search for a reconfig's new servers.
const reachTimeout = 2 * time.Second

// vetReconfig returns the code to go with a reconfig request: whether a majority
// of the voters it asks for answer. The rest is judged when it is applied.
func (s *Server) vetReconfig(body []byte) jute.Code {
	var req jute.ReconfigRequest
	d := jute.NewDecoder(body)
	req.Decode(d)
	m := s.opt.Membership
	if d.Err() != nil || m.Change == nil || s.peer == nil {
		return jute.OK
	}
	s.replica.mu.RLock()
	current, _ := s.replica.tree.Members()
	s.replica.mu.RUnlock()
	text, code := m.Change(current, &req)
	if code != jute.OK {
		return jute.OK // apply says so too, unless it changes meanwhile
	}
	members, err := m.Parse(text)
	if err != nil {
		return jute.OK
	}
	var voters []Member
	for _, member := range members {
		if !member.Observer {
			voters = append(voters, member)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	if n := s.peer.Reachable(ctx, voters); n <= len(voters)/2 {
		s.log.Warn("a reconfig was refused: too few of the voters it asks for answer", "answer", n, "voters", len(voters))
		return jute.ErrNewConfigNoQuorum
	}
	return jute.OK
}
