// Package status is `zooid status`: it asks each server of an ensemble for its state, by four-letter words, and sums
// up the state of the ensemble in a line.
//
//	status.go  which servers are asked, and the verdict
//	ask.go     what one server says
//	print.go   the table, or JSON
package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/wordclient"
)

const help = `usage: zooid status [-json] [-watch] [TLS flags] [zoo.cfg] [-D name=value]…
       zooid status [-json] [-watch] [TLS flags] host:port,host:port…

Shows the state of the ensemble in one line, and that of each server in another,
with the servers that need attention first. The file is any server's zoo.cfg, or
a membership file that contains only server lines with client ports. Without a
file or servers, it asks the servers of the profile (-profile) or of ZOOID_SERVER,
or else 127.0.0.1:2181. It works with Apache ZooKeeper's servers, too.

It uses the four-letter word srvr, which every server answers. For sessions and
disk, it uses mntr and dirs, which zoo.cfg must allow by
4lw.commands.whitelist=mntr,dirs.

If the file lacks a voter or its client port, status gets the address from other servers:
first from the running server of the file, by a file in its data directory, if status may
read that; then from the others by mntr, if that is allowed. If the file has no client
ports but clientPort, status assumes that every server has that port.

For servers that accept only TLS, it uses the key and trust stores that the file
names, or the flags of zooid cli: -tls-ca, -tls-cert, -tls-key,
-tls-password-file, -client-configuration, -profile and others.

LAG is the number of changes that the leader had half a second ago and the server
still lacks. EPOCH and ZXID are those of the last change applied.

STATE shows whether a server is short of disk or memory, and what it refuses as a
result. For a server without a vote, it shows why, and what gives it one. The leader
reports by mntr whose votes count; the file's server lines only say which servers to
ask. Without mntr, status counts the servers, and a minority of them is "unknown".

exit code: 0 all is well; 1 the ensemble serves, but a server is missing, behind,
drained or short of something; 2 there is no quorum, all servers that serve are
drained, or the state is unknown. -watch repeats this every two seconds until Ctrl-C,
and the exit code is that of the last time.
`

// The exit codes of Main.
const (
	exitWell     = 0
	exitDegraded = 1
	exitUnknown  = 2
)

// lagPause is how long a server may be behind its leader before it counts as behind: under load every follower is a few
// changes behind at each instant.
const lagPause = 500 * time.Millisecond

// An overview is the output of zooid status.
type overview struct {
	State   string       `json:"state"` // ok, degraded, no server takes clients, no quorum, unknown
	Summary string       `json:"summary"`
	Why     []string     `json:"why,omitempty"`
	Hints   []string     `json:"hints,omitempty"`
	Lineage string       `json:"lineage,omitempty"` // id of the ensemble's history, if a server told
	Voters  []int64      `json:"voters,omitempty"`  // the servers whose votes count, if a server told
	Servers []*serverRow `json:"servers"`
}

// Main is `zooid status`. It prints the ensemble at a glance and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	var file string
	var defs []string
	asJSON, watch := false, false
	var access cli.Access
	for i := 0; i < len(args); i++ {
		rest, taken, err := access.Take(args[i:])
		if err != nil {
			fmt.Fprintln(stderr, "zooid status:", err)
			return exitUnknown
		}
		if taken {
			i = len(args) - len(rest) - 1
			continue
		}
		switch a := args[i]; {
		case a == "-h" || a == "--help":
			fmt.Fprint(stdout, help)
			return exitWell
		case a == "-json" || a == "--json":
			asJSON = true
		case a == "-watch" || a == "--watch":
			watch = true
		case a == "-D" && i+1 < len(args):
			i++
			defs = append(defs, args[i])
		case strings.HasPrefix(a, "-D") && len(a) > 2:
			defs = append(defs, a[2:])
		case strings.HasPrefix(a, "-") || file != "":
			fmt.Fprintf(stderr, "zooid status: unexpected argument %q\n", a)
			fmt.Fprint(stderr, help)
			return exitUnknown
		default:
			file = a
		}
	}
	servers, err := access.Servers() // before reach, which asks whether anything says TLS
	if file == "" && len(defs) == 0 {
		file = servers
	}
	var rows []*serverRow
	var cfg *config.Config
	if err == nil {
		rows, cfg, err = serversToAsk(file, defs)
	}
	if err == nil {
		err = reach(rows, cfg, &access)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid status:", err)
		return exitUnknown
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	for {
		o, code := look(rows, cfg, lagPause)
		if err := o.print(stdout, asJSON, watch); err != nil {
			fmt.Fprintln(stderr, "zooid status: print the result:", err)
			return exitUnknown
		}
		if !watch {
			return code
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return code
		}
	}
}

// watchPause is the time between two checks of -watch.
const watchPause = 2 * time.Second

// print prints the result of a check; again says that it replaces the terminal's content.
func (o *overview) print(w io.Writer, asJSON, again bool) error {
	if asJSON {
		return o.printJSON(w)
	}
	if again && terminal.Is(w) {
		if _, err := io.WriteString(w, terminal.Cleared); err != nil {
			return err
		}
	}
	return o.printTable(w, terminal.Colours(w))
}

// serversToAsk returns a row for each server that the file names, and the configuration in the file, or nil if the file
// isn't a configuration.
func serversToAsk(file string, defs []string) (rows []*serverRow, cfg *config.Config, err error) {
	switch {
	case file == "":
		cfg, err = config.Default(defs)
	case isConnectString(file):
		rows, err = addressRows(file)
		return rows, nil, err
	default:
		cfg, err = config.LoadAny(file, defs)
	}
	if err != nil {
		if members, bad := membersFile(file); bad == nil {
			none := config.HostPort{Port: -1}
			return memberRows(members, none, none, -1), nil, nil
		}
		return nil, nil, err
	}
	if !cfg.Quorum.Distributed {
		row := &serverRow{ID: 1, Voter: true}
		if cfg.Client.Port >= 0 {
			row.Address = net.JoinHostPort(reachableHost(cfg.Client.Host, "127.0.0.1"), strconv.Itoa(cfg.Client.Port))
		}
		if cfg.Secure.Port >= 0 {
			row.secure = net.JoinHostPort(reachableHost(cfg.Secure.Host, "127.0.0.1"), strconv.Itoa(cfg.Secure.Port))
		}
		if lines := cfg.Quorum.Members; row.Address == "" && row.secure == "" && len(lines.Servers) == 1 {
			// There is no file myid to say which line is this server's.
			return memberRows(lines, cfg.Client, cfg.Secure, -1), cfg, nil
		}
		return []*serverRow{row}, cfg, nil
	}
	return memberRows(cfg.Quorum.Members, cfg.Client, cfg.Secure, cfg.Quorum.MyID), cfg, nil
}

// isConnectString reports whether an argument names servers rather than a file.
func isConnectString(arg string) bool {
	_, err := os.Stat(arg)
	return err != nil && !strings.ContainsRune(arg, os.PathSeparator) && strings.ContainsAny(arg, ":,")
}

// clientPortDefault is the port of a server in a connect string that names none.
const clientPortDefault = "2181"

// addressRows returns a row for each server of a connect string.
func addressRows(list string) ([]*serverRow, error) {
	var rows []*serverRow
	for _, text := range strings.Split(list, ",") {
		host, port, err := net.SplitHostPort(strings.TrimSpace(text))
		if err != nil {
			host, port, err = net.SplitHostPort(strings.TrimSpace(text) + ":" + clientPortDefault)
		}
		if err != nil || host == "" {
			return nil, fmt.Errorf("%q doesn't name servers: the form is host:port,host:port", text)
		}
		rows = append(rows, &serverRow{ID: unknownID, Voter: true, Address: net.JoinHostPort(host, port)})
	}
	return rows, nil
}

// membersFile reads a file of server lines only, as dynamicConfigFile names one.
func membersFile(file string) (config.Members, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return config.Members{}, err
	}
	m, err := config.ParseMembers(string(text))
	if err == nil && len(m.Servers) == 0 {
		err = errors.New("it names no server")
	}
	return m, err
}

// memberRows returns a row per member. own and ownSecure are the client addresses that zoo.cfg
// gives outside of the server lines. memberRows assumes that every server has their ports, and
// server self also their hosts. If several servers are on one host, only self can have such a port.
func memberRows(m config.Members, own, ownSecure config.HostPort, self int64) []*serverRow {
	var rows []*serverRow
	for _, s := range m.Servers {
		row := &serverRow{ID: s.ID, Voter: !s.Observer, member: true}
		row.Address = clientAddress(s, s.Client, own, self)
		row.secure = clientAddress(s, s.Secure, ownSecure, self)
		rows = append(rows, row)
	}
	dropGuesses(rows, self, func(r *serverRow) *string { return &r.Address })
	dropGuesses(rows, self, func(r *serverRow) *string { return &r.secure })
	return rows
}

// clientAddress returns the address at which a server accepts clients, or "" if it isn't known.
func clientAddress(s config.Member, line, own config.HostPort, self int64) string {
	if line.IsZero() && own.Port >= 0 {
		line.Port = own.Port
		if s.ID == self {
			line.Host = own.Host
		}
	}
	if line.Port <= 0 {
		return ""
	}
	return net.JoinHostPort(reachableHost(line.Host, s.Addrs[0].Host), strconv.Itoa(line.Port))
}

// dropGuesses leaves an address that several servers seem to share to only one of them: to self if it is among them.
func dropGuesses(rows []*serverRow, self int64, at func(*serverRow) *string) {
	for _, row := range rows {
		address := *at(row)
		for _, other := range rows {
			if address != "" && other != row && *at(other) == address && other.ID != self {
				*at(other) = ""
			}
		}
	}
}

// reach makes the rows use the TLS port if it is known, with the flags for TLS or else the stores of cfg, which may be
// nil.
func reach(rows []*serverRow, cfg *config.Config, access *cli.Access) error {
	needed := slices.ContainsFunc(rows, func(row *serverRow) bool { return row.secure != "" && row.Address == "" })
	if needed && !access.Secure() && cfg != nil && cfg.TLS.Trust.Location != "" {
		access.Use(&cfg.TLS)
		if err := access.Check(); err != nil {
			return fmt.Errorf("the servers accept only TLS, but the stores named in the file can't be used (-tls-ca, -tls-cert and -tls-key name others): %w",
				err)
		}
	} else if err := access.Check(); err != nil {
		return err
	}
	for _, row := range rows {
		row.access = access
		if row.secure != "" && (access.Secure() || row.Address == "") {
			row.Address, row.needsTLS = row.secure, !access.Secure()
		}
	}
	return nil
}

// reachableHost returns host, or instead if host means every interface.
func reachableHost(host, instead string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return instead
	}
	return host
}

// look asks every server, asks those behind their leader again after pause, and judges.
func look(rows []*serverRow, cfg *config.Config, pause time.Duration) (*overview, int) {
	askAll(rows)
	note := readClients(rows, cfg)
	learned, others := learnAddresses(rows), unnamed(rows)
	askAll(append(learned, others...))
	rows = append(rows, others...)
	if answered := slices.DeleteFunc(slices.Clone(rows),
		func(r *serverRow) bool { return r.Role == "" }); len(answered) > 1 && leading(rows) == nil {
		time.Sleep(pause) // an election may be under way, or has been while a silent server held this up
		askAll(answered)
	}
	if lead := leading(rows); lead != nil {
		zxid := lead.zxid
		if behind := markLag(rows, zxid); len(behind) > 0 {
			time.Sleep(pause)
			askAll(behind)
			markLag(behind, zxid)
		}
	}
	o := &overview{Servers: rows}
	if note != "" && slices.ContainsFunc(rows, func(r *serverRow) bool { return r.State == stateNoAddress }) {
		o.Hints = append(o.Hints, note)
	}
	if hint := joinsNone(rows, cfg); hint != "" {
		o.Hints = append(o.Hints, hint)
	}
	code := o.judge(len(rows) == 1 && (rows[0].Role == "standalone" || rows[0].voters <= 1))
	return o, code
}

// clientsBytesMax bounds the file in which a server keeps the client addresses of the others.
const clientsBytesMax = 64 << 10

// readClients takes the servers' client addresses from the data directory of cfg, for the row of the server that runs
// on it, unless that server has reported them. The file isn't left over from an earlier run, because a start and a stop
// remove it. note says why the file can't be read.
func readClients(rows []*serverRow, cfg *config.Config) (note string) {
	if cfg == nil || !cfg.Quorum.Distributed {
		return ""
	}
	i := slices.IndexFunc(rows, func(r *serverRow) bool { return r.ID == cfg.Quorum.MyID })
	if i < 0 || rows[i].Role == "" && !rows[i].idle || rows[i].clients != nil || rows[i].secureClients != nil {
		return ""
	}
	file := filepath.Join(cfg.Storage.DataDir, wordclient.ClientsFile)
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		var text []byte
		if text, err = io.ReadAll(io.LimitReader(f, clientsBytesMax)); err == nil {
			rows[i].told(string(text))
			return ""
		}
	}
	if rows[i].idle {
		return "" // it may have no directory yet
	}
	return fmt.Sprintf("the other servers' client addresses are in %s: run this as the server's user, or set 4lw.commands.whitelist=mntr,dirs (%v)",
		file, withoutPath(err))
}

// joinsNone says what to do if the server of cfg belongs to no ensemble yet: it answers and doesn't serve, and its
// directories hold nothing.
func joinsNone(rows []*serverRow, cfg *config.Config) string {
	if cfg == nil || !cfg.Quorum.Distributed {
		return ""
	}
	i := slices.IndexFunc(rows, func(r *serverRow) bool { return r.ID == cfg.Quorum.MyID && r.idle })
	if i < 0 {
		return ""
	}
	if !isNew(cfg.Storage.DataDir) || !isNew(cfg.Storage.DataLogDir) {
		return ""
	}
	log := "its log names the servers it waits for (waiting=); "
	if strings.HasPrefix(rows[i].State, waitsFor) {
		log = "" // it has told
	}
	return fmt.Sprintf("%s belongs to no ensemble yet; %s%s", rows[i].name(), log, cfg.LetIn())
}

// isNew reports whether a data directory doesn't exist, or can be read and holds no data of a server. It can't use
// package storage, which this package can't import on all systems.
func isNew(dir string) bool {
	list, err := os.ReadDir(dir)
	return (err == nil || errors.Is(err, fs.ErrNotExist)) && !slices.ContainsFunc(list, func(f fs.DirEntry) bool {
		name := f.Name()
		return name == "IDENTITY" || strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".snap")
	})
}

// withoutPath removes the path from an error, since it is printed next to the error.
func withoutPath(err error) error {
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		return bad.Err
	}
	return err
}

// unnamed returns a row for each voter that no row names, but that a server has reported with its client address. It
// returns none while a server without a known id doesn't answer: that server may be any of them.
func unnamed(rows []*serverRow) (more []*serverRow) {
	if slices.ContainsFunc(rows, func(r *serverRow) bool { return r.ID == unknownID }) {
		return nil
	}
	for _, teller := range rows {
		for _, id := range teller.votes {
			row := &serverRow{ID: id, Voter: true, access: teller.access, member: true}
			named := func(r *serverRow) bool { return r.ID == id }
			if !slices.ContainsFunc(rows, named) && !slices.ContainsFunc(more, named) && row.learn(teller) {
				more = append(more, row)
			}
		}
	}
	return more
}

// learnAddresses takes the addresses of servers that couldn't be asked from the reports of those that could. It returns
// the servers with new addresses.
func learnAddresses(rows []*serverRow) (found []*serverRow) {
	for _, row := range rows {
		if row.State == stateNoAddress && slices.ContainsFunc(rows, row.learn) {
			found = append(found, row)
		}
	}
	return found
}

// learn takes the server's address from another server's report. It reports whether the server now has a new one.
func (row *serverRow) learn(from *serverRow) bool {
	told := from.clients[row.ID]
	if secure := from.secureClients[row.ID]; secure != "" && (row.byTLS() || told == "") {
		told, row.needsTLS = secure, !row.byTLS()
	}
	// A server that listens only on its own loopback can be asked only on its machine.
	if told == "" || loopback(told) && !loopback(from.Address) {
		return false
	}
	row.Address = told
	return true
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func askAll(rows []*serverRow) {
	var wg sync.WaitGroup
	for _, row := range rows {
		wg.Go(row.ask)
	}
	wg.Wait()
}

// leading returns the leader of the highest epoch, or nil. There may be several leaders, since one that was cut off may
// not have noticed yet.
func leading(rows []*serverRow) (best *serverRow) {
	for _, row := range rows {
		if row.Role == "leader" && (best == nil || row.Epoch > best.Epoch) {
			best = row
		}
	}
	return best
}

// markLag records how far each server is behind zxid and returns those that are behind.
func markLag(rows []*serverRow, zxid int64) (behind []*serverRow) {
	for _, row := range rows {
		if row.State != stateOK && row.State != stateLagging {
			continue
		}
		lag := int64(0)
		row.State, row.Lag, row.lagText = stateOK, &lag, "0"
		switch epoch := zxid >> 32; {
		case row.zxid >= zxid:
			continue
		case row.Epoch != epoch:
			// The number of changes in the epochs between is unknown.
			row.Lag, row.lagText = nil, fmt.Sprintf("%d epoch", epoch-row.Epoch)
		default:
			lag = zxid - row.zxid
			row.lagText = strconv.FormatInt(lag, 10)
		}
		row.State = stateLagging
		behind = append(behind, row)
	}
	return behind
}

// judge sets State, Why and Hints, and returns the exit code.
func (o *overview) judge(alone bool) int {
	lead := leading(o.Servers)
	voters, serving := 0, 0
	o.membership(lead, alone)
	o.foreign(lead)
	unasked := unaskedVoters(o.Servers)
	for _, row := range o.Servers {
		row.State = row.beside(lead, alone, unasked)
		well := row.State == stateOK
		if row.Voter {
			voters++
			if well || row.State == stateLagging {
				serving++
			}
		}
		if !well {
			o.Why = append(o.Why, fmt.Sprintf("%s: %s", row.name(), row.State))
		}
		if row.Vote != "" {
			o.Why = append(o.Why, fmt.Sprintf("%s: %s", row.name(), row.Vote))
		}
		if row.sameID != "" && row.Trouble == "" {
			row.Trouble = fmt.Sprintf("%s (ZD-3131): %s", row.sameID, wordclient.SameIDAdvice)
		}
		if row.Trouble != "" {
			o.Why = append(o.Why, fmt.Sprintf("%s: %s", row.name(), row.Trouble))
		}
	}
	if lead != nil {
		voters = max(voters, lead.voters) // not all may have been asked
		serving = max(serving, lead.synced+1)
		if lead.voters > 0 {
			unasked = 0 // the leader has told how many follow it
		}
	}
	for _, row := range o.Servers {
		if alone || row.Role != "standalone" {
			voters = max(voters, row.voters)
		}
	}
	if len(o.Voters) > 0 {
		voters = len(o.Voters)
	}
	guests := ""
	if o.Voters == nil && lead != nil && lead.voters > 0 && lead.voters < voters { // some follow without a vote
		guests = fmt.Sprintf("%d voters are named here, and the leader counts %d: reconfig -add gives a server its vote",
			voters, lead.voters)
		// Followers are in step except while an entry is on its way, so the servers that serve count too, without the guests.
		serving = min(max(serving-(voters-lead.voters), lead.synced+1), lead.voters)
		voters = lead.voters
	}
	quorum := lead != nil && serving > voters/2
	if alone {
		quorum = o.Servers[0].State == stateOK
	}
	o.Hints = append(o.Hints, whitelistHints(o.Servers)...)
	if guests != "" {
		o.Hints = append(o.Hints, guests)
	}
	for _, row := range o.Servers {
		if row.soon != "" {
			o.Hints = append(o.Hints, row.name()+": "+row.soon)
		}
	}
	o.Hints = append(o.Hints, o.votersNotAsked()...)
	if slices.ContainsFunc(o.Servers, func(r *serverRow) bool { return strings.HasPrefix(r.State, "no answer: ") }) {
		o.Hints = append(o.Hints, "start the servers that don't run; zooid doctor zoo.cfg finds out on their machines why they don't")
	}
	told := lead == nil || lead.voters > 0
	o.Summary = summary(lead, alone, told, serving, voters)
	slices.SortStableFunc(o.Servers, func(a, b *serverRow) int { return cmp.Compare(a.rank(), b.rank()) })
	switch {
	case !quorum && !alone && !told:
		o.State = "unknown"
		o.Summary += "; there may be more voters"
		return exitUnknown
	case !quorum && serving+unasked > voters/2 && !alone:
		o.State = "unknown"
		o.Summary = fmt.Sprintf("can't tell whether there is a quorum: %d of %d voters couldn't be asked", unasked, voters)
		return exitUnknown
	case !quorum:
		o.State = "no quorum"
		return exitUnknown
	case o.allDrained():
		o.State = "no server takes clients"
		return exitUnknown
	case len(o.Why) > 0:
		o.State = "degraded"
		return exitDegraded
	}
	o.State = "ok"
	return exitWell
}

// allDrained reports whether every server that was asked and serves is drained.
func (o *overview) allDrained() bool {
	serving := false
	for _, row := range o.Servers {
		if row.State != stateOK && row.State != stateLagging {
			continue
		}
		if serving = true; !row.drained {
			return false
		}
	}
	return serving
}

// membership determines, from the leader's report, which servers vote, and which of those that should vote have no
// vote. Without a leader, it uses the report of the server with the newest change applied; a standalone server only
// knows its own membership, which isn't the ensemble's.
func (o *overview) membership(lead *serverRow, alone bool) {
	teller := lead
	for _, row := range o.Servers {
		counts := len(row.votes) > 0 && (alone || row.Role != "standalone")
		if lead == nil && counts && (teller == nil || row.zxid > teller.zxid) {
			teller = row
		}
	}
	if teller == nil {
		return
	}
	o.Lineage, o.Voters = teller.Lineage, teller.votes
	if len(o.Voters) == 0 {
		return
	}
	for _, row := range o.Servers {
		if row.ID == unknownID {
			continue
		}
		wanted := row.Voter || slices.Contains(teller.named, row.ID)
		row.Voter = slices.Contains(o.Voters, row.ID)
		answers := row.Role != ""
		if row.Voter && slices.Contains(teller.unheard, row.ID) && !answers {
			row.Vote = fmt.Sprintf("it has a vote, but server %d hasn't heard from it since becoming leader", teller.ID)
		}
		if row.Voter || !wanted || row.Role == "observer" {
			continue
		}
		switch {
		case answers && row.Lineage != "" && row.Lineage != teller.Lineage:
			// judge says it
		case slices.Contains(teller.named, row.ID) && answers:
			row.Vote = "it has no vote yet: it gets one once it has caught up"
		case slices.Contains(teller.named, row.ID) && row.idle:
			row.Vote = "it has no vote: it waits to join, and its log names the servers it waits for"
		case slices.Contains(teller.named, row.ID):
			row.Vote = "it has no vote: the others continue without it. If its data is lost, or belongs to a former ensemble, start it with an empty data directory, and it joins; or remove it (reconfig -remove)"
		case slices.Contains(teller.staged, row.ID):
			row.Vote = "it has no vote yet: the membership that names it takes effect once a majority of its voters has caught up"
		default:
			row.Vote = "it has no vote: the membership in force doesn't name it; reconfig -add gives it one"
		}
	}
}

// beside returns the state of a server in relation to lead, the leader, which may be nil. unasked is how many voters
// couldn't be asked.
func (row *serverRow) beside(lead *serverRow, alone bool, unasked int) string {
	serves := row.State == stateOK || row.State == stateLagging
	switch {
	case serves && lead != nil && row.Lineage != "" && lead.Lineage != "" && row.Lineage != lead.Lineage:
		return otherLineage(row.Lineage, row.holds(), lead.holds())
	case row.Role == "leader" && row != lead && row.foreign[lead.ID] == "":
		return "leads an old epoch"
	case row.Role == "read-only" && serves:
		return stateReadOnly
	case row.Role == "standalone" && !alone && row.State == stateOK:
		return row.aside()
	case lead == nil && !alone && unasked == 0 && row.State == stateOK:
		return stateLeaderless
	}
	return row.State
}

// aside is the state of a server that runs without these server lines.
func (row *serverRow) aside() string {
	state := stateAlone
	if row.Lineage != "" {
		state += ", and serves a tree of its own with the lineage " + row.Lineage
	}
	if holds := row.holds(); holds != "" {
		state += " (" + holds + ")"
	}
	return state + ": if that data is the ensemble's, stop it, give it the server lines, and start it; else set it aside there (zooid recover -set-aside), and start it with the lines"
}

// otherLineage returns the state of a server of these server lines that belongs to another ensemble. holds and here
// describe the size of the other ensemble's tree and of this one's; they may be "".
func otherLineage(lineage, holds, here string) string {
	both := ""
	if holds != "" && here != "" {
		both = fmt.Sprintf(" (it has %s, this one %s)", holds, here)
	}
	return fmt.Sprintf("it belongs to another ensemble, of lineage %s, which has a different tree%s: decide which of the two to keep; on each server of the other, run zooid recover -set-aside and start it: it joins",
		lineage, both)
}

// holds describes the size of a server's tree; it returns "" if the server didn't tell.
func (row *serverRow) holds() string {
	if row.znodes < 0 || row.Zxid == "" {
		return ""
	}
	return fmt.Sprintf("%d znodes up to zxid %s", row.znodes, row.Zxid)
}

// foreign marks the servers that haven't told their ensemble here, but have told a server of this ensemble that they
// belong to another one.
func (o *overview) foreign(lead *serverRow) {
	for _, teller := range o.Servers {
		if lead != nil && lead.Lineage != "" && teller.Lineage != "" && teller.Lineage != lead.Lineage {
			continue // its report of foreign servers means those of the leader's lineage
		}
		for _, row := range o.Servers {
			if lineage, told := teller.foreign[row.ID]; told && row.Lineage == "" {
				row.State, row.Vote = otherLineage(lineage, "", ""), ""
			}
		}
	}
}

// votersNotAsked names the voters that the file doesn't name.
func (o *overview) votersNotAsked() (hints []string) {
	for _, id := range o.Voters {
		if !slices.ContainsFunc(o.Servers, func(r *serverRow) bool { return r.ID == id || r.ID == unknownID }) {
			hints = append(hints,
				fmt.Sprintf("server %d votes, but the file doesn't name it: use the membership in force (zooid cli config)", id))
		}
	}
	return hints
}

// unaskedVoters counts the voters that may serve and were not asked, or gave no useful answer:
// those without a known address, and those that only a server has named.
func unaskedVoters(rows []*serverRow) (n int) {
	voters, known := 0, 0
	for _, row := range rows {
		known = max(known, row.voters)
		if row.Voter {
			voters++
			if row.unasked {
				n++
			}
		}
	}
	return n + max(known-voters, 0)
}

// summary says in a few words which server leads and how many serve. told says that the
// leader has reported which servers vote.
func summary(lead *serverRow, alone, told bool, serving, voters int) string {
	switch {
	case alone && serving > 0:
		return "one server"
	case alone:
		return "one server, which doesn't serve"
	case lead == nil:
		return "no server says that it leads"
	}
	if !told {
		return fmt.Sprintf("%s leads, %d of %d servers serve", lead.name(), serving, voters)
	}
	return fmt.Sprintf("%s leads, %d of %d voters serve", lead.name(), serving, voters)
}
