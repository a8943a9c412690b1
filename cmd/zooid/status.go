package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/config"
)

const statusHelp = `usage: zooid status [-json] [zoo.cfg] [-D name=value]…
       zooid status [-json] host:port,host:port…

Asks every server of the ensemble how it is, says in one line how the ensemble
is, and prints a line for each server, what needs attention first. The file is
any server's zoo.cfg, or a membership file that holds nothing but server lines
with client ports. Without either it asks 127.0.0.1:2181. Apache ZooKeeper's
servers answer too.

It uses the four-letter words srvr, which every server answers, and mntr and
dirs for sessions and disk, which must be allowed by
4lw.commands.whitelist=mntr,dirs in zoo.cfg.

LAG is in changes: what the leader had half a second ago and the server still
has not. EPOCH and ZXID are those of the last change applied.

exit code: 0 all is well; 1 the ensemble serves, but a server is missing or
behind; 2 there is no quorum, or it can't be told.
`

// Exit codes of zooid status.
const (
	statusWell     = 0
	statusDegraded = 1
	statusUnknown  = 2
)

// lagPause is how long a server may be behind its leader before it counts: under
// load every follower is a few changes behind at each instant.
const lagPause = 500 * time.Millisecond

// An overview is what zooid status tells.
type overview struct {
	State   string       `json:"state"` // ok, degraded, no quorum
	Summary string       `json:"summary"`
	Why     []string     `json:"why,omitempty"`
	Hints   []string     `json:"hints,omitempty"`
	Servers []*serverRow `json:"servers"`
}

// runStatus prints the ensemble at a glance and returns the exit code.
func runStatus(args []string, stdout, stderr io.Writer) int {
	var file string
	var defs []string
	asJSON := false
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-h" || a == "--help":
			fmt.Fprint(stdout, statusHelp)
			return statusWell
		case a == "-json" || a == "--json":
			asJSON = true
		case a == "-D" && i+1 < len(args):
			i++
			defs = append(defs, args[i])
		case strings.HasPrefix(a, "-D") && len(a) > 2:
			defs = append(defs, a[2:])
		case strings.HasPrefix(a, "-") || file != "":
			fmt.Fprintf(stderr, "zooid status: unexpected argument %q\n\n%s", a, statusHelp)
			return statusUnknown
		default:
			file = a
		}
	}
	rows, err := serversToAsk(file, defs)
	if err != nil {
		fmt.Fprintln(stderr, "zooid status:", err)
		return statusUnknown
	}
	o, code := look(rows, lagPause)
	if asJSON {
		err = o.printJSON(stdout)
	} else {
		err = o.printTable(stdout, showsColours(stdout))
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid status: print the result:", err)
		return statusUnknown
	}
	return code
}

// serversToAsk returns a row for each server that the file names.
func serversToAsk(file string, defs []string) ([]*serverRow, error) {
	var cfg *config.Config
	var err error
	switch {
	case file == "":
		cfg, err = config.Default(defs)
	case isConnectString(file):
		return addressRows(file)
	default:
		cfg, err = config.LoadAny(file, defs)
	}
	if err != nil {
		if members, bad := membersFile(file); bad == nil {
			return memberRows(members, config.HostPort{Port: -1}, -1), nil
		}
		return nil, err
	}
	if !cfg.Quorum.Distributed {
		row := &serverRow{ID: 1, Voter: true}
		if cfg.Client.Port >= 0 {
			row.Address = net.JoinHostPort(reachableHost(cfg.Client.Host, "127.0.0.1"), strconv.Itoa(cfg.Client.Port))
		}
		return []*serverRow{row}, nil
	}
	return memberRows(cfg.Quorum.Members, cfg.Client, cfg.Quorum.MyID), nil
}

// isConnectString reports whether an argument names servers rather than a file.
func isConnectString(arg string) bool {
	_, err := os.Stat(arg)
	return err != nil && !strings.ContainsRune(arg, os.PathSeparator) && strings.ContainsAny(arg, ":,")
}

// clientPortDefault is that of a server without one in a connect string.
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
			return nil, fmt.Errorf("%q names no server: the form is host:port,host:port", text)
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

// memberRows returns a row per member. own is the client address that zoo.cfg
// gives besides the server lines: its port is taken to be every server's, its
// host is that of server self.
func memberRows(m config.Members, own config.HostPort, self int64) []*serverRow {
	var rows []*serverRow
	for _, s := range m.Servers {
		row := &serverRow{ID: s.ID, Voter: !s.Observer}
		client := s.Client
		if client.IsZero() && own.Port >= 0 {
			client.Port = own.Port
			if s.ID == self {
				client.Host = own.Host
			}
		}
		if client.Port > 0 {
			row.Address = net.JoinHostPort(reachableHost(client.Host, s.Addrs[0].Host), strconv.Itoa(client.Port))
		}
		rows = append(rows, row)
	}
	return rows
}

// reachableHost returns host, or instead of it where host means every interface.
func reachableHost(host, instead string) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return instead
	}
	return host
}

// look asks every server, those behind their leader once more after pause, and
// judges.
func look(rows []*serverRow, pause time.Duration) (*overview, int) {
	askAll(rows)
	if answered := slices.DeleteFunc(slices.Clone(rows), func(r *serverRow) bool { return r.Role == "" }); len(answered) > 1 && leading(rows) == nil {
		time.Sleep(pause) // an election may be on its way, or was while a silent server held this up
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
	code := o.judge(len(rows) == 1 && (rows[0].Role == "standalone" || rows[0].voters <= 1))
	return o, code
}

func askAll(rows []*serverRow) {
	var wg sync.WaitGroup
	for _, row := range rows {
		wg.Go(row.ask)
	}
	wg.Wait()
}

// leading returns the leader of the highest epoch, or nil: one that was cut off
// may not have noticed yet.
func leading(rows []*serverRow) (best *serverRow) {
	for _, row := range rows {
		if row.Role == "leader" && (best == nil || row.Epoch > best.Epoch) {
			best = row
		}
	}
	return best
}

// markLag notes how far each server is behind zxid and returns those that are.
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
			// How many changes the epochs between had can't be told.
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
	for _, row := range o.Servers {
		switch {
		case row.Role == "leader" && row != lead:
			row.State = "leads an old epoch"
		case row.Role == "read-only" && (row.State == stateOK || row.State == stateLagging):
			row.State = stateReadOnly
		case lead == nil && !alone && row.State == stateOK:
			row.State = stateLeaderless
		}
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
	}
	if lead != nil {
		voters = max(voters, lead.voters) // not all may have been asked
		serving = max(serving, lead.synced+1)
	}
	quorum := lead != nil && serving > voters/2
	if alone {
		quorum = o.Servers[0].State == stateOK
	}
	o.Hints = whitelistHints(o.Servers)
	o.Summary = summary(lead, alone, serving, voters)
	slices.SortStableFunc(o.Servers, func(a, b *serverRow) int { return cmp.Compare(a.rank(), b.rank()) })
	switch {
	case !quorum:
		o.State = "no quorum"
		return statusUnknown
	case len(o.Why) > 0:
		o.State = "degraded"
		return statusDegraded
	}
	o.State = "ok"
	return statusWell
}

// summary says in a few words who leads and how many serve.
func summary(lead *serverRow, alone bool, serving, voters int) string {
	switch {
	case alone:
		return "one server"
	case lead == nil:
		return "no server says that it leads"
	}
	return fmt.Sprintf("%s leads, %d of %d voters serve", lead.name(), serving, voters)
}
