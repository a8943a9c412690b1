package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

// A server belongs to an ensemble if its log says so. Otherwise it is alone if its server lines name no other server;
// else it founds an ensemble with the others or joins one (quorum.Inquiry). A standalone server that gets server lines
// keeps its data. The data becomes the ensemble's, under a new lineage, since a copy of it may be in use elsewhere.

// standaloneID is the id that a server without peers has in its log.
const standaloneID = 1

// beginning determines which cluster this server's data directory belongs to, or will belong to. It waits for the peers
// if the directory is empty.
func (s *start) beginning() (quorum.Beginning, error) {
	cluster, err := storage.ReadIdentity(storage.OS{}, s.opt.DataDir, s.opt.LogDir)
	switch {
	case err == nil:
		b, err := peer.ReadNote(s.opt.LogDir, s.opt.DataDir)
		b.Cluster = cluster
		return b, err
	case !errors.Is(err, fs.ErrNotExist):
		return quorum.Beginning{}, fmt.Errorf("read which cluster the directories %s belong to: %w", dirsOf(s.opt), err)
	case len(s.opt.Members) == 0:
		return quorum.Beginning{Cluster: newClusterID()}, nil // no record: it has founded no ensemble
	case alone(s.opt):
		b := aloneFrom(s.opt.ID, newClusterID())
		return b, s.founded(b)
	}
	b, err := s.discover(quorum.Holding{})
	switch {
	case err != nil:
		return b, err
	case b.Founding != nil:
		return b, s.founded(b)
	}
	s.opt.Log.Info("there is an ensemble; this server joins it", "cluster", fmt.Sprintf("%016x", b.Cluster))
	return b, errors.Join(s.dropOrder(), peer.WriteNote(b, s.opt.LogDir))
}

// alone reports whether the server lines name no other server.
func alone(opt Options) bool {
	return !slices.ContainsFunc(opt.Members, func(m Member) bool { return m.ID != opt.ID })
}

// discover asks the peers how a server with this Holding begins.
func (s *start) discover(holds quorum.Holding) (quorum.Beginning, error) {
	prejoin, err := openPrejoin(s.ports, s.acceptor)
	if err != nil {
		return quorum.Beginning{}, err
	}
	s.ports.prejoin = prejoin
	defer prejoin.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.opt.Stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	kept, err := storage.KeptBefore(storage.OS{}, s.opt.LogDir, quorum.HeardName)
	if err != nil {
		return quorum.Beginning{}, err
	}
	heard, err := quorum.DecodeHeard(kept)
	if err != nil {
		return quorum.Beginning{}, runbook.Errorf("ZD-1117", "read which servers had data from %s/%s.kept: %w; make sure that none of the other servers has data, including those that are down; then remove the file, and start this server again",
			s.opt.LogDir, quorum.HeardName, err)
	}
	b, err := peer.Discover(ctx, peer.Discovery{
		Self: s.opt.ID, Level: uint32(s.opt.Settings.FeatureLevel), Members: s.opt.Members, Holds: holds,
		JoinsOnly: s.opt.JoinsOnly, Clients: s.opt.Clients, IsOwn: prejoin.isOwn,
		Heard: heard,
		Keep: func(heard []uint64) error {
			return storage.KeepBefore(storage.OS{}, s.opt.LogDir, quorum.HeardName, quorum.EncodeHeard(heard))
		},
		Waiting: func(text string) { prejoin.waits.Store(&text) },
		Ordered: func() bool { return newensemble.FoundingOrdered(s.opt.DataDir) }, DropOrder: s.dropOrder,
		Patience: s.opt.patience, Listener: s.listener, Secure: s.opt.PeerTLS, Log: s.opt.Log,
	})
	if err != nil {
		return b, fmt.Errorf("find out whether there is an ensemble to join: %w", err)
	}
	if f := b.Founding; f != nil {
		s.opt.Log.Info("an ensemble is founded, and this server is one of its founders",
			"cluster", fmt.Sprintf("%016x", f.Lineage), "voters", f.Voters, "data", f.Base.String())
	}
	return b, nil
}

// aloneFrom returns how a server without peers to ask begins.
func aloneFrom(id, cluster uint64) quorum.Beginning {
	f := &quorum.Founding{Lineage: cluster, Term: 1, Voters: []uint64{id}}
	return quorum.Beginning{Cluster: cluster, Founding: f}
}

// founded durably records the founding of the ensemble that this server begins with the others, before it holds any of
// its data: servers that ask must learn who the founders are.
func (s *start) founded(b quorum.Beginning) error {
	if err := s.ordered(b.Cluster); err != nil {
		return err
	}
	return storage.KeepBefore(storage.OS{}, s.opt.LogDir, quorum.FoundingName, quorum.EncodeFounding(b.Founding))
}

// ordered records that this server is about to carry out an operator's order to found, if there is one.
func (s *start) ordered(cluster uint64) error {
	return newensemble.EndFoundingOrder(s.opt.DataDir, s.opt.ID, fmt.Sprintf("%016x", cluster), time.Now())
}

// dropOrder removes an order to found that can't be carried out, because the server belongs to an ensemble, or knows
// one that runs. Otherwise the order would take effect if the directory were emptied, or that ensemble fell silent.
func (s *start) dropOrder() error {
	dropped, err := newensemble.DropFoundingOrder(s.opt.DataDir)
	if dropped {
		s.log.Warn("an order to found an ensemble is dropped: this server belongs to an ensemble, or joins one", "code", "ZD-3213")
	}
	return err
}

// reachedAt replaces the address in this server's own line with addr, at which others reach it, if the line's address
// means something else, or nothing, on other machines.
func reachedAt(opt *Options, addr string) {
	at := slices.IndexFunc(opt.Members, func(m Member) bool { return m.ID == opt.ID })
	if at < 0 || len(opt.Members[at].Addrs) != 1 || opt.Membership.At == nil || listensOnly(addr) {
		return
	}
	own, port, ownErr := net.SplitHostPort(opt.Members[at].Addrs[0])
	host, _, err := net.SplitHostPort(addr)
	if err != nil || ownErr != nil || host == own || !onlyHere(opt.Members[at].Addrs[0]) {
		return
	}
	if text, ok := opt.Membership.At(opt.Membership.Text, opt.ID, host); ok {
		opt.Members = slices.Clone(opt.Members)
		opt.Members[at].Addrs = []string{net.JoinHostPort(host, port)}
		opt.Membership.Text = text
		opt.Log.Info("this server's own line has an address that only this machine understands; in the membership it is the one by which others reach it",
			"address", opt.Members[at].Addrs[0])
	}
}

// ownMembers returns the function that fills in the configured membership from a staged one (replica.Membership.Own),
// or nil if there is nothing to fill in: this server's own line has an address that others can use.
func ownMembers(opt Options) func(text, staged string) string {
	at := slices.IndexFunc(opt.Members, func(m Member) bool { return m.ID == opt.ID })
	if at < 0 || len(opt.Members[at].Addrs) != 1 || opt.Membership.At == nil || !onlyHere(opt.Members[at].Addrs[0]) {
		return nil
	}
	return func(text, staged string) string {
		members, err := opt.Membership.Parse(staged)
		i := slices.IndexFunc(members, func(m Member) bool { return m.ID == opt.ID })
		if err != nil || i < 0 || len(members[i].Addrs) != 1 {
			return text
		}
		host, _, _ := net.SplitHostPort(members[i].Addrs[0])
		if own, ok := opt.Membership.At(text, opt.ID, host); ok {
			return own
		}
		return text
	}
}

// onlyHere reports whether addr is a wildcard or a loopback address, or a name of one.
func onlyHere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if listensOnly(addr) {
		return true
	}
	ips, err := net.LookupIP(host)
	return err == nil && !slices.ContainsFunc(ips, func(ip net.IP) bool { return !ip.IsLoopback() })
}

// listensOnly reports whether addr is a wildcard, to which others can't connect.
func listensOnly(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip != nil && ip.IsUnspecified())
}

// found turns a standalone server's data into an ensemble's, if the server lines name others: it waits until it is
// clear with which servers. again says that the data directory was closed and its files were replaced; the caller opens
// them with s.begin.
func (s *start) found(o replica.Options) (again bool, err error) {
	r, err := standalone(s.dir, []uint64{standaloneID, s.opt.ID}, o, s.treeOptions)
	if err != nil || r == nil {
		return false, err
	}
	img := r.Snapshot()
	defer img.Close()
	meta := img.Describe()
	holds := quorum.Holding{
		Index: meta.Index, Term: meta.Term, Digest: meta.Digest, Zxid: meta.Zxid, Znodes: uint64(r.View().Nodes),
	}
	if holds.Lineage, err = storage.ReadIdentity(storage.OS{}, s.opt.DataDir, s.opt.LogDir); err != nil {
		return false, err
	}
	if s.begin, err = s.discover(holds); err != nil {
		return false, err
	}
	if s.begin.Overtaken {
		return false, ErrOvertaken
	}
	if err := errors.Join(s.dir.Close(), s.ordered(s.begin.Cluster)); err != nil {
		return true, err
	}
	place := newensemble.Place{DataDir: s.opt.DataDir, LogDir: s.opt.LogDir}
	held, err := place.Hold()
	if err != nil {
		return true, err
	}
	defer held.Close()
	was := &newensemble.Survivor{ClusterID: fmt.Sprintf("%016x", holds.Lineage)}
	act, err := newensemble.NewAct(newensemble.ActFounded, s.opt.ID, was, "", "the server lines name other servers",
		time.Now())
	if err != nil {
		return true, err
	}
	err = newensemble.Refound(place, s.begin.Cluster, act, func(to *storage.Dir) error {
		return errors.Join(quorum.Restart(to, img, s.begin.Founding.Voters...),
			to.Keep(quorum.FoundingName, quorum.EncodeFounding(s.begin.Founding)))
	})
	if err == nil {
		s.opt.Log.Info("the data of this standalone server is now that of an ensemble; the former files are kept",
			"folder", act.Aside)
	}
	return true, err
}

// standalone returns a temporary replica with the whole state in a standalone server's data directory, which has one of
// these ids in its log. It returns nil for the data of a server of an ensemble: its log names members, or has other
// voters.
func standalone(dir *storage.Dir, ids []uint64, o replica.Options, treeOptions tree.Options) (*replica.Replica, error) {
	newest, _ := dir.NewestSnapshot()
	var entries []quorum.Entry
	var term uint64
	var sole bool
	for _, id := range ids {
		var err error
		if entries, term, sole, err = quorum.SoleLog(dir, id, newest.Index); err != nil {
			return nil, err
		} else if sole {
			break
		}
	}
	if !sole || slices.ContainsFunc(entries, func(e quorum.Entry) bool { return replica.NamesMembers(e.Data) }) {
		return nil, nil
	}
	o.Kick, o.Meters = func() {}, nil // this replica is only temporary
	var err error
	if o.Tree, err = treeload.Newest(dir, treeOptions, nil); err != nil {
		return nil, err
	}
	applied := o.Tree.LastIndex()
	r := replica.New(o)
	if text, _ := r.Members(); text != "" {
		return nil, nil
	}
	entries = append(entries, quorum.Entry{Term: term + 1, Index: applied + uint64(len(entries)) + 1})
	return r, r.Apply(entries)
}

// adopt turns a standalone server's data into that of server id, unless it already is. After a crash on the way the
// data is unchanged.
func adopt(dir *storage.Dir, id uint64, o replica.Options, treeOptions tree.Options) error {
	if id == standaloneID {
		return nil
	}
	r, err := standalone(dir, []uint64{standaloneID}, o, treeOptions)
	if err != nil || r == nil {
		return err
	}
	img := r.Snapshot()
	defer img.Close()
	if err := quorum.Restart(dir, img, id); err != nil {
		return fmt.Errorf("make the data of a standalone server that of server %d: %w", id, err)
	}
	o.Log.Info("this data directory is a standalone server's; it becomes that of a server with an id of its own",
		"server", id)
	return nil
}
