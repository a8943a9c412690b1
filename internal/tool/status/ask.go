package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/wordclient"
)

const (
	// askTimeout bounds one four-letter word, connecting included.
	askTimeout = 3 * time.Second
	// askBytesMax bounds its answer; mntr's is some 20 KiB.
	askBytesMax = 1 << 20
)

// States of a server; other texts say what is wrong.
const (
	stateOK       = "ok"
	stateLagging  = "lagging"
	stateIdle     = "not serving, for an unknown reason"
	stateNoLeader = "not serving: it has no leader"
	stateBehind   = "not serving yet: it has a leader, but must catch up with it or hear from it first"
	// What follows is what its log says.
	waitsFor      = "not serving: it belongs to no ensemble yet, and waits: "
	stateReadOnly = "read-only: it has no leader"
	// The state of a server that has lost its leader, and keeps its clients for a while.
	stateLeaderless = "it has no leader: it answers reads, and writes wait"
	stateNoAddress  = "its client port is not in the file, and no server that answers knows its address"
	// The state of a standalone server: another server has taken the address, or the server's own configuration names no
	// others.
	stateAlone = "it runs standalone, outside this ensemble"
)

// unknownID stands for an id that is not known.
const unknownID = -1

// A serverRow is what is known about one server. Unknown values are -1 or "".
type serverRow struct {
	ID       int64  `json:"id"`
	Address  string `json:"address"` // of its client port
	Voter    bool   `json:"voter"`
	Role     string `json:"role,omitempty"` // Apache's Mode: leader, follower, observer, read-only, standalone
	Epoch    int64  `json:"epoch"`
	Zxid     string `json:"zxid,omitempty"`
	Lag      *int64 `json:"lag,omitempty"` // changes behind the leader; absent if unknown
	Clients  int64  `json:"clients"`       // connections
	Sessions int64  `json:"sessions"`
	Disk     int64  `json:"disk"` // bytes of the data and log directories
	Version  string `json:"version,omitempty"`
	State    string `json:"state"`
	// Trouble says what a serving server refuses to do, and why.
	Trouble string `json:"trouble,omitempty"`
	Lineage string `json:"lineage,omitempty"` // id of the history that it belongs to, if it tells
	// Vote says why a server that should vote has no vote, and how it gets one.
	Vote string `json:"vote,omitempty"`

	idle     bool        // it says that it doesn't serve
	drained  bool        // it takes no new clients, because it was asked to let others take over
	secure   string      // address of the port for TLS
	access   *cli.Access // how servers are reached; nil means without TLS
	needsTLS bool        // Address is a TLS port, and the TLS flags are missing
	member   bool        // ID is from the file, or from another server
	unasked  bool        // it may serve; it was not asked

	zxid    int64
	znodes  int64 // how many its tree has, -1 if it didn't tell
	lagText string
	synced  int     // followers that a leader says are up to date
	voters  int     // number of voters that the server knows; 0 if it didn't tell
	votes   []int64 // ids of these voters; none if it didn't tell
	named   []int64 // the voters that the membership in force names
	staged  []int64 // the voters of a change of membership under way
	unheard []int64 // the voters from which the leader has not heard since it leads
	// clients and secureClients hold, by id, the addresses at which servers accept clients without TLS and with it, as
	// this server has heard.
	clients, secureClients map[int64]string
	// foreign holds the servers of another lineage, by what they have told this one, with their lineages.
	foreign map[int64]string
	sameID  string   // the id of which it knows two servers, and which of the two is refused by whom
	refuses []string // four-letter words
	soon    string   // future Trouble
}

// ask queries the server and fills in the row. It blocks for a few times askTimeout at most.
func (row *serverRow) ask() {
	*row = serverRow{ID: row.ID, Address: row.Address, Voter: row.Voter, Epoch: -1, Clients: -1, Sessions: -1, Disk: -1,
		znodes: -1, access: row.access, needsTLS: row.needsTLS, member: row.member, unasked: true}
	switch {
	case row.Address == "":
		row.State = stateNoAddress
		return
	case row.needsTLS:
		row.State = "it accepts only TLS: give flags such as -tls-ca"
		return
	}
	text, err := row.word("srvr")
	if err != nil {
		row.State, row.unasked = "no answer: "+err.Error(), false
		if row.ID == unknownID && !row.byTLS() {
			row.State += "; if it is a TLS port, give flags such as -tls-ca"
		}
		return
	}
	if row.State = row.server(text); row.State != stateOK {
		row.idle = row.State == stateIdle
		row.unasked = !row.idle
		if row.idle {
			row.State = row.whyIdle()
		}
		return
	}
	if row.member {
		if id := row.serverID(); id >= 0 && id != row.ID {
			*row = serverRow{ID: row.ID, Address: row.Address, Voter: row.Voter, Epoch: -1, Clients: -1, Sessions: -1, Disk: -1,
				access: row.access, member: true, unasked: true, State: fmt.Sprintf("server %d answers at this address", id)}
			return
		}
	}
	row.unasked = false
	row.monitor()
	if row.drained {
		drained := "it is drained and accepts no new clients; zooid drain -undo or a restart ends that"
		if row.Trouble != "" {
			drained += "; " + row.Trouble
		}
		row.Trouble = drained
	}
	row.disk()
	if row.ID == unknownID {
		row.identify()
	}
}

// byTLS reports whether the server is asked over TLS.
func (row *serverRow) byTLS() bool { return row.access != nil && row.access.Secure() }

// identify asks a server for its id if only its address is known.
func (row *serverRow) identify() {
	row.Voter = row.Role != "observer"
	if id := row.serverID(); id >= 0 {
		row.ID = id
	}
}

// serverID asks a server for its id, and returns -1 if the server doesn't tell. A standalone server reports 0, and
// nothing about an ensemble.
func (row *serverRow) serverID() int64 {
	text, err := row.word("conf")
	if err != nil {
		return unknownID
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "serverId="); ok {
			if n := number(id); n != 0 || strings.Contains(text, "\ninitLimit=") {
				return n
			}
		}
	}
	return unknownID
}

// name returns the server's name in messages.
func (row *serverRow) name() string {
	address := cmp.Or(row.Address, "no client port")
	if row.ID == unknownID {
		return address
	}
	return fmt.Sprintf("server %d (%s)", row.ID, address)
}

// rank orders servers: first those that need attention, then the leader.
func (row *serverRow) rank() int {
	switch {
	case row.State == stateLagging || row.State == stateOK && (row.Trouble != "" || row.Vote != ""):
		return 2
	case row.State == stateReadOnly || row.State == stateLeaderless:
		return 1
	case row.State != stateOK:
		return 0
	case row.Role == "leader":
		return 3
	}
	return 4
}

// server parses the answer to srvr and returns the state that it shows.
func (row *serverRow) server(text string) string {
	switch {
	case strings.Contains(text, "not currently serving requests"):
		return stateIdle
	case refused(text):
		row.refuses = append(row.refuses, "srvr")
		return "it refuses the word srvr"
	}
	zxid := ""
	for line := range strings.Lines(text) {
		row.drained = row.drained || strings.HasPrefix(line, "DRAINED;")
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Zookeeper version":
			row.Version = value
		case "Zxid":
			zxid = value
		case "Mode":
			row.Role = value
		case "Connections":
			row.Clients = max(number(value)-1, 0) // the connection that asks counts too
		}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(zxid, "0x"), 16, 64)
	if err != nil || row.Role == "" {
		return "its answer to srvr has no zxid and mode: it isn't a ZooKeeper server"
	}
	row.Zxid, row.zxid, row.Epoch = zxid, int64(n), int64(n>>32)
	return stateOK
}

// whyIdle asks a server that doesn't serve for the reason, and returns its state. Apache's servers answer mntr only
// while they serve.
func (row *serverRow) whyIdle() string {
	text, ok := row.report("mntr")
	if !ok {
		return stateIdle
	}
	var r resources
	state := stateIdle
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		r.note(key, number(value))
		switch {
		case key == "zk_zooid_waits_for":
			return waitsFor + terminal.OneLine(value)
		case key == "zk_zooid_raft_has_leader" && number(value) == 0:
			state = stateNoLeader
		case key == "zk_zooid_raft_has_leader" && number(value) == 1:
			state = stateBehind
		}
	}
	switch why := r.stalled(); {
	case why != "":
		return "not serving: " + why
	case r.logWaits == 1:
		return "not serving: " + logWaits
	}
	return state
}

// monitor adds the report of mntr.
func (row *serverRow) monitor() {
	text, ok := row.report("mntr")
	if !ok {
		return
	}
	var global, local int64 = -1, 0
	lost, rules := false, ""
	voters := map[string]*[]int64{
		"zk_zooid_voters": &row.votes, "zk_zooid_named_voters": &row.named, "zk_zooid_staged_voters": &row.staged,
		"zk_zooid_unheard_voters": &row.unheard,
	}
	var resources resources
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		switch key {
		case "zk_global_sessions":
			global = number(value)
		case "zk_local_sessions":
			local = max(number(value), 0)
		case "zk_quorum_size":
			row.voters = int(max(number(value), 0))
		case "zk_znode_count":
			row.znodes = number(value)
		case "zk_zooid_lineage":
			row.Lineage = strings.TrimSpace(value)
		case "zk_zooid_voters", "zk_zooid_named_voters", "zk_zooid_staged_voters", "zk_zooid_unheard_voters":
			*voters[key] = wordclient.IDs(value)
		case "zk_zooid_clients", "zk_zooid_secure_clients", "zk_zooid_foreign_servers", "zk_zooid_same_id":
			row.told(line)
		case "zk_zooid_lost_entry":
			lost = number(value) > 0
		case "zk_zooid_rules_waiting":
			if value != "none" {
				rules = terminal.OneLine(value)
			}
		case "zk_synced_followers":
			row.synced = int(max(number(value), 0))
		default:
			resources.note(key, number(value))
		}
	}
	row.Trouble, row.soon = resources.trouble()
	if row.Trouble == "" && rules != "" {
		row.Trouble = "ACLs wait until all servers have the same rule (ZD-3140): " + rules
	}
	if lost {
		row.Trouble = "an older copy of its disk was put back: stop it, run zooid recover -set-aside on it, and start it; it joins again"
	}
	if global >= 0 {
		row.Sessions = global + local
	}
}

// told records from lines of mntr the servers' client addresses, the servers of another lineage, and ids that two
// servers share.
func (row *serverRow) told(text string) {
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); key {
		case "zk_zooid_clients":
			row.clients = addresses(value)
		case "zk_zooid_secure_clients":
			row.secureClients = addresses(value)
		case "zk_zooid_foreign_servers":
			row.foreign = lineages(value)
		case "zk_zooid_same_id":
			if value != "none" {
				row.sameID = terminal.OneLine(value)
			}
		}
	}
}

// lineages reads a list such as "1=895d2e8299283771,2=b14273c257aeae47".
func lineages(list string) map[int64]string {
	all := map[int64]string{}
	for one := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		id, lineage, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(id, 10, 64)
		if _, bad := strconv.ParseUint(lineage, 16, 64); err == nil && bad == nil {
			all[n] = lineage
		}
	}
	return all
}

// addresses reads a list such as "1=zk1:2181,2=zk2:2181".
func addresses(list string) map[int64]string {
	all := map[int64]string{}
	for _, one := range strings.Split(strings.TrimSpace(list), ",") {
		id, address, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(id, 10, 64)
		if _, _, bad := net.SplitHostPort(address); err == nil && bad == nil {
			all[n] = address
		}
	}
	return all
}

// resources holds mntr's values about a server's disk and memory.
type resources struct {
	diskFree, diskLevel, logWaits, memoryUsed, memoryLimit, writing, turned int64
}

func (r *resources) note(key string, n int64) {
	switch key {
	case "zk_disk_free_bytes":
		r.diskFree = n
	case "zk_disk_level":
		r.diskLevel = n
	case "zk_log_awaits_room":
		r.logWaits = n
	case "zk_fsync_in_flight_ms":
		r.writing = n
	case "zk_last_turn_ms":
		r.turned = n
	case "zk_memory_used":
		r.memoryUsed = n
	case "zk_memory_limit":
		r.memoryLimit = n
	}
}

// Shares of the memory limit, in percent, from which servers refuse sessions or writes.
const (
	memorySessionsRefused = 85
	memoryWritesRefused   = 95
)

// diskRefuse is the free space (bytes) above which no server refuses writes for lack of space.
const diskRefuse = 1 << 30

// stalledMs is how long a server's write may be under way, or its loop stand still.
const stalledMs = 3000

// logWaits is the Trouble of a server whose log has no room.
const logWaits = "its log has no room left: nothing can be appended until there is free space on its disk, or a larger quota"

// stalled returns why the server can't do its work, "" if it can.
func (r *resources) stalled() string {
	switch {
	case r.writing > stalledMs:
		return fmt.Sprintf("its log's disk hangs: a write has been under way for %d s", r.writing/1000)
	case r.turned > stalledMs:
		return fmt.Sprintf("it does nothing: its main loop has been stuck for %d s", r.turned/1000)
	}
	return ""
}

// trouble returns what the server refuses now, and what it will refuse soon; "" means nothing.
func (r *resources) trouble() (now, soon string) {
	var all []string
	if why := r.stalled(); why != "" {
		all = append(all, why)
	}
	switch {
	case r.logWaits == 1:
		all = append(all, logWaits)
	case r.diskLevel == 1:
		soon = fmt.Sprintf("its disk fills up, %s are free: make room before it refuses writes", bytesText(r.diskFree))
	case r.diskLevel == 2 && r.diskFree > diskRefuse:
		all = append(all, "its file system has no inodes or no quota left: it refuses writes until there is room (zooid docs operations full)")
	case r.diskLevel == 2:
		all = append(all,
			fmt.Sprintf("its disk is nearly full, %s are free: it refuses writes until there is room (zooid docs operations full)",
				bytesText(r.diskFree)))
	}
	if r.memoryLimit > 0 {
		switch share := r.memoryUsed / max(r.memoryLimit/100, 1); {
		case share >= memoryWritesRefused:
			all = append(all,
				fmt.Sprintf("its memory is nearly used up, %d %% of memory.limit: it refuses creates and larger sets", share))
		case share >= memorySessionsRefused:
			all = append(all,
				fmt.Sprintf("its memory is short, %d %% of memory.limit: it refuses new sessions of the address that takes most",
					share))
		}
	}
	return strings.Join(all, "; "), soon
}

// disk adds the report of dirs. A server whose log is in its data directory reports the
// same size twice.
func (row *serverRow) disk() {
	text, told := row.report("dirs")
	if !told {
		return
	}
	sizes := map[string]int64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		sizes[key] = number(value)
	}
	data, ok := sizes["datadir_size"]
	if log := sizes["logdir_size"]; ok && log != data {
		data += log
	}
	if ok {
		row.Disk = data
	}
}

// number reads a figure; Apache prints some as doubles.
func number(text string) int64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f < 0 || f > 1<<62 {
		return -1
	}
	return int64(f)
}

// report sends a word. It returns false if there is no answer, and records a word that the server refuses.
func (row *serverRow) report(word string) (string, bool) {
	text, err := row.word(word)
	if err == nil && refused(text) {
		row.refuses = append(row.refuses, word)
	}
	return text, err == nil && !refused(text)
}

func refused(text string) bool { return strings.Contains(text, "is not in the whitelist") }

// whitelistHints says which servers refuse which words, with one line for all that
// refuse the same.
func whitelistHints(rows []*serverRow) (hints []string) {
	who := map[string][]string{}
	for _, row := range rows {
		if words := strings.Join(row.refuses, ","); words != "" {
			who[words] = append(who[words], row.name())
		}
	}
	for _, words := range slices.Sorted(maps.Keys(who)) {
		hints = append(hints,
			fmt.Sprintf("add %s to 4lw.commands.whitelist in zoo.cfg of %s to see more", words, strings.Join(who[words], ", ")))
	}
	return hints
}

// withoutAddress removes the address from an error, since it is printed next to the error.
func withoutAddress(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// word sends a four-letter word and returns the whole answer.
func (row *serverRow) word(word string) (string, error) {
	access := row.access
	if access == nil {
		access = new(cli.Access)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	text, err := wordclient.Word(ctx, access.Dial, row.Address, word, askBytesMax)
	if text == "" {
		return "", withoutAddress(err)
	}
	return text, nil
}
