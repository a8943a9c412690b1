//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/storage"
)

const recoverHelp = `usage: zooid recover [-json] zoo.cfg|DATADIR…
       zooid recover -new-ensemble [-cluster ID] [-by NAME] -why REASON zoo.cfg [DATADIR…]
       zooid recover -set-aside [-cluster ID] [-by NAME] -why REASON zoo.cfg

For an ensemble that has lost the disks of a majority of its voters for good. If a
majority of the disks still exists, start their servers instead: then nothing is lost.

Without an option, it shows what each of the named, stopped servers has, which of them
has most, and what may be lost. It changes nothing, except that it removes a batch that a
crash has cut short. A DATADIR is a server's data directory with its log, or a copy of it.

  -new-ensemble  make a new ensemble, with a new cluster id, from the data of the server
                 of zoo.cfg. It is refused if another member answers, or if one of the
                 copies in DATADIR… has more. Start that server first, alone; the others
                 join with empty data directories. Servers with old data are refused.
  -set-aside     move the data of another survivor aside, so that it joins the new
                 ensemble as a server with an empty disk.
  -cluster ID    the old cluster's id, as the first form shows it; without it, the
                 command asks for the id.
  -json          print what the servers have as a JSON array

Nothing is deleted: the former files are in a folder aside-recovered-… of each directory.
The file RECOVERED in the data directory records who did what, when and why. If a command
was interrupted, run it again; it continues.

exit code: 0 done; 1 it can't be done, or was not confirmed; 2 wrong arguments
`

// runRecover makes a new ensemble of the survivors of a lost majority.
func runRecover(args []string, stdout, stderr io.Writer) int {
	return recoverEnsemble(args, os.Stdin, stdout, stderr)
}

// A rescue is one run of recover.
type rescue struct {
	json, renew, aside bool
	cluster, by, why   string
	in                 io.Reader
	out                io.Writer
}

func recoverEnsemble(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	r := rescue{in: stdin, out: stdout}
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.BoolVar(&r.json, "json", false, "")
	flags.BoolVar(&r.renew, "new-ensemble", false, "")
	flags.BoolVar(&r.aside, "set-aside", false, "")
	flags.StringVar(&r.cluster, "cluster", "", "")
	flags.StringVar(&r.by, "by", userName(), "")
	flags.StringVar(&r.why, "why", "", "")
	if code, done := parseFlags(flags, recoverHelp, args, stdout, stderr); done {
		return code
	}
	changes := r.renew || r.aside
	if flags.NArg() == 0 || r.renew && r.aside || changes && (r.json || strings.TrimSpace(r.why) == "") ||
		r.aside && flags.NArg() != 1 {
		fmt.Fprint(stderr, recoverHelp)
		return 2
	}
	var err error
	if changes {
		err = r.change(flags.Args())
	} else {
		err = r.show(flags.Args())
	}
	for _, name := range flags.Args() {
		if p, _, unknown := placeOf(name); unknown == nil {
			err = errors.Join(err, newensemble.HandOver(p.DataDir, p.LogDir))
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid recover:", errorText(err))
		return 1
	}
	return 0
}

// placeOf returns where a server's data is. name is the server's zoo.cfg or its directory;
// for a directory, cfg is nil.
func placeOf(name string) (p newensemble.Place, cfg *config.Config, err error) {
	p.Reconfigure = changeMembers
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		p.DataDir, p.LogDir = name, name
		return p, nil, nil
	}
	if cfg, err = config.LoadAny(name, nil); err != nil {
		return p, nil, err
	}
	p.DataDir, p.LogDir = cfg.Storage.DataDir, cfg.Storage.DataLogDir
	return p, cfg, nil
}

// show prints the servers' data.
func (r *rescue) show(names []string) error {
	var all []*newensemble.Survivor
	for _, name := range names {
		p, _, err := placeOf(name)
		if err != nil {
			return err
		}
		if newensemble.Begun(p.DataDir, p.LogDir) {
			return fmt.Errorf("a recovery of %s was cut short: run it again with its zoo.cfg to finish it", p.DataDir)
		}
		s, err := newensemble.Read(p)
		if err != nil {
			return err
		}
		s.Release()
		all = append(all, s)
	}
	if r.json {
		e := json.NewEncoder(r.out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	best := 0
	for i, s := range all {
		r.describe(s)
		if s.Cluster != all[0].Cluster {
			return fmt.Errorf("%s and %s belong to different clusters", all[0].DataDir, s.DataDir)
		}
		if s.Better(all[best]) {
			best = i
		}
	}
	if len(all) > 1 {
		fmt.Fprintf(r.out, "%s has the most data: it includes everything that any of these %d has acknowledged.\n\n",
			all[best].DataDir, len(all))
	}
	fmt.Fprint(r.out, r.losses(all[best], all...))
	return nil
}

func (r *rescue) describe(s *newensemble.Survivor) {
	fmt.Fprintf(r.out, "%s\n  cluster %s, term %d, last entry %d of term %d, committed up to %d\n  last zxid %s, written %s\n  %d znodes, %d sessions\n  members: %s\n",
		s.DataDir, s.ClusterID, s.Term, s.LastIndex, s.LastTerm, s.Committed, s.Zxid, s.Written.Format(time.RFC3339),
		s.Znodes, s.Sessions,
		strings.ReplaceAll(strings.TrimSpace(s.Members), "\n", "  "))
	if s.Joining {
		fmt.Fprintln(r.out, "  this server had begun to join and may lack writes that were acknowledged before it had caught up")
	}
	fmt.Fprintln(r.out)
}

// losses describes possible losses if only these servers are left.
func (r *rescue) losses(best *newensemble.Survivor, all ...*newensemble.Survivor) string {
	voters, n := votersOf(best, all)
	var b strings.Builder
	if n > voters/2 && voters > 0 {
		fmt.Fprintf(&b, "The ensemble has %d voters, and the data of %d is here, a majority. Start them, and nothing is lost.\n",
			voters, n)
		return b.String()
	}
	fmt.Fprintf(&b, "The ensemble has %d voters. Writes that the missing servers acknowledged after zxid %s,\nwritten %s, may be lost. Their number is unknown here.\n",
		voters, best.Zxid, best.Written.Format(time.RFC3339))
	if doubt := best.LastIndex - min(best.Committed, best.LastIndex); doubt > 0 {
		fmt.Fprintf(&b, "The last %d entries may not have been acknowledged; all are kept.\n", doubt)
	}
	fmt.Fprintf(&b, "\nIf a majority of the disks is gone for good, and not merely unreachable, make a new ensemble from this server:\n  zooid recover -new-ensemble -cluster %s -why REASON zoo.cfg\n",
		best.ClusterID)
	return b.String()
}

// votersOf returns how many voters the ensemble of best has, and to how many of them the data of all belongs.
func votersOf(best *newensemble.Survivor, all []*newensemble.Survivor) (voters, here int) {
	m, _ := config.ParseMembers(best.Members) // has no voters otherwise
	return m.Voters(), newensemble.CountVoters(all, func(server uint64) bool {
		of, ok := m.Find(serverid.MyID(server))
		return ok && !of.Observer
	})
}

// change makes a new ensemble from the first server's data, or sets the data aside.
func (r *rescue) change(names []string) error {
	p, cfg, err := placeOf(names[0])
	if err != nil {
		return err
	}
	if cfg == nil {
		return fmt.Errorf("%s is a directory: give the server's zoo.cfg first", names[0])
	}
	held, err := p.Hold()
	if err != nil {
		return fmt.Errorf("%w; the server must be stopped", err)
	}
	defer held.Close()
	if done, err := r.finish(p); done || err != nil {
		return err
	}
	id, err := memberID(cfg)
	if err != nil {
		return err
	}
	s, err := newensemble.Read(p)
	if err != nil {
		return err
	}
	r.describe(s)
	what := newensemble.ActAside
	if r.renew {
		what = newensemble.ActNew
		if err := r.mayRenew(s, cfg, id, names[1:]); err != nil {
			return err
		}
		fmt.Fprint(r.out, r.losses(s, s))
	}
	act, err := newensemble.NewAct(what, serverid.Raft(id), s, r.by, r.why, time.Now())
	if err != nil {
		return err
	}
	if !r.confirmed(s) {
		return errors.New("nothing was changed: the old cluster's id was not given")
	}
	if r.aside {
		// With an empty directory, the server would carry out an order to found at once.
		dropped, err := newensemble.DropFoundingOrder(p.DataDir)
		if err == nil {
			err = s.SetAside(act)
		}
		if err != nil {
			return err
		}
		if dropped {
			fmt.Fprintln(r.out, "an order to found an ensemble (zooid found) is dropped: it was about this data")
		}
		fmt.Fprintf(r.out, "the data is in %s; start this server once the new ensemble runs\n",
			filepath.Join(p.DataDir, act.Aside))
		return nil
	}
	// Others may have come back while the question waited.
	members, err := config.ParseMembers(s.Members)
	if err == nil {
		err = noneAnswers(append(members.Servers, cfg.Quorum.Members.Servers...), id)
	}
	if err != nil {
		return err
	}
	if err := s.Renew(serverid.Raft(id), act); err != nil {
		return err
	}
	r.made(act)
	return nil
}

// finish finishes what an interrupted run has begun, and reports whether nothing is left to do.
func (r *rescue) finish(p newensemble.Place) (done bool, err error) {
	act, err := newensemble.Finish(p.DataDir, p.LogDir)
	switch {
	case err != nil:
		return false, err
	case act != nil && act.What == newensemble.ActNew:
		r.made(act)
		if r.aside {
			return false, fmt.Errorf("the data was not set aside: an interrupted zooid recover -new-ensemble had to be finished first, so this server now has a new ensemble. If another survivor has one, run the command again with -cluster %s before this server is started",
				act.NewCluster)
		}
		return true, nil
	case !r.aside:
		return false, nil
	}
	if err := storage.FinishSetAside(p.DataDir, p.LogDir); err != nil || storage.InUse(p.DataDir) {
		return false, err
	}
	aside, err := newensemble.SetAsideLast(p.DataDir)
	if aside {
		fmt.Fprintln(r.out, "the data is set aside; start this server once the new ensemble runs")
	}
	return aside, err
}

func (r *rescue) made(a *newensemble.Act) {
	fmt.Fprintf(r.out, "the new ensemble has the cluster id %s and begins with this server's data; the old data is in %s.\n"+
		"Start this server first. The others join with empty data directories: run zooid recover -set-aside on each other survivor.\n"+
		"A server without the ensemble's secret needs zooid allow-join. Remove servers that are gone for good by reconfig.\n",
		a.NewCluster, a.Aside)
}

// memberID returns the id in the myid file of a server that belongs to an ensemble.
func memberID(cfg *config.Config) (int64, error) {
	full, err := config.Load(cfg.File, nil)
	if err != nil {
		return 0, err
	}
	if !full.Quorum.Distributed {
		return 0, fmt.Errorf("%s belongs to a standalone server, which has no majority to lose; start it", cfg.File)
	}
	return full.Quorum.MyID, nil
}

// mayRenew returns an error where making a new ensemble would be a mistake.
func (r *rescue) mayRenew(s *newensemble.Survivor, cfg *config.Config, id int64, others []string) error {
	members, err := config.ParseMembers(s.Members)
	if err != nil || members.Voters() == 0 {
		return fmt.Errorf("make a new ensemble of %s: it lacks the ensemble's membership; use another survivor", s.DataDir)
	}
	if _, ok := members.Find(id); !ok {
		return fmt.Errorf("make a new ensemble of %s: server %d isn't one of its members (%s); correct myid, or use a member",
			s.DataDir, id, strings.TrimSpace(s.Members))
	}
	all := []*newensemble.Survivor{s}
	for _, name := range others {
		p, _, err := placeOf(name)
		if err != nil {
			return err
		}
		o, err := newensemble.Read(p)
		if err != nil {
			return err
		}
		o.Release()
		all = append(all, o)
		switch {
		case o.Cluster != s.Cluster:
			return fmt.Errorf("%s and %s belong to different clusters", s.DataDir, o.DataDir)
		case o.Better(s):
			return fmt.Errorf("make a new ensemble of %s: %s has more data (last entry %d of term %d); use that one", s.DataDir,
				o.DataDir, o.LastIndex, o.LastTerm)
		}
	}
	if voters, n := votersOf(s, all); n > voters/2 {
		return fmt.Errorf("make a new ensemble: %d of %d voters are a majority; start these servers instead, and nothing is lost",
			n, voters)
	}
	return noneAnswers(append(members.Servers, cfg.Quorum.Members.Servers...), id)
}

// noneAnswers returns an error if a member other than server self answers.
func noneAnswers(members []config.Member, self int64) error {
	for _, m := range members {
		if addr := answers(m, self); addr != "" {
			return fmt.Errorf("make a new ensemble: server %d answers at %s. If a majority runs, nothing is lost; otherwise stop it first: it is a survivor",
				m.ID, addr)
		}
	}
	return nil
}

// answerPatience bounds the wait for one address of another member.
const answerPatience = 2 * time.Second

// answers returns an address of member m at which something accepts connections, "" if none or m is this server.
func answers(m config.Member, self int64) string {
	if m.ID == self {
		return ""
	}
	for _, a := range m.Addrs {
		addr := net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort))
		if c, err := net.DialTimeout("tcp", addr, answerPatience); err == nil {
			c.Close()
			return addr
		}
	}
	return ""
}

// confirmed reports whether the operator has given the old cluster's id.
func (r *rescue) confirmed(s *newensemble.Survivor) bool {
	if r.cluster == "" {
		fmt.Fprintf(r.out, "\nType the old cluster's id (%s) to continue: ", s.ClusterID)
		line, _ := bufio.NewReader(io.LimitReader(r.in, 64)).ReadString('\n')
		r.cluster = strings.TrimSpace(line)
	}
	return strings.TrimPrefix(strings.ToLower(r.cluster), "0x") == s.ClusterID
}
