package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// askTimeout bounds one four-letter word, connecting included.
	askTimeout = 3 * time.Second
	// askBytesMax bounds its answer; mntr's is some 20 KiB.
	askBytesMax = 1 << 20
)

// States of a server; others are texts that say what is wrong.
const (
	stateOK       = "ok"
	stateLagging  = "lagging"
	stateReadOnly = "read-only: it has no leader"
	// A server keeps its clients for a while when it has lost its leader.
	stateLeaderless = "it has no leader: reads are answered, writes wait"
)

// unknownID stands for an id that nobody has told.
const unknownID = -1

// A serverRow is what is known of one server. What it didn't tell is -1 or "".
type serverRow struct {
	ID       int64  `json:"id"`
	Address  string `json:"address"` // of its client port
	Voter    bool   `json:"voter"`
	Role     string `json:"role,omitempty"` // Apache's Mode: leader, follower, observer, read-only, standalone
	Epoch    int64  `json:"epoch"`
	Zxid     string `json:"zxid,omitempty"`
	Lag      *int64 `json:"lag,omitempty"` // changes behind the leader; absent if it can't be told
	Clients  int64  `json:"clients"`       // connections
	Sessions int64  `json:"sessions"`
	Disk     int64  `json:"disk"` // bytes of the data and log directories
	Version  string `json:"version,omitempty"`
	State    string `json:"state"`

	zxid    int64
	lagText string
	synced  int      // followers that a leader says are up to date
	voters  int      // that the server knows of; 0 if it didn't tell
	refuses []string // four-letter words
}

// ask fills the row in. It blocks for a few askTimeout at most.
func (row *serverRow) ask() {
	*row = serverRow{ID: row.ID, Address: row.Address, Voter: row.Voter, Epoch: -1, Clients: -1, Sessions: -1, Disk: -1}
	if row.Address == "" {
		row.State = "its client port is not in the file"
		return
	}
	text, err := askWord(row.Address, "srvr")
	if err != nil {
		row.State = "no answer: " + err.Error()
		return
	}
	if row.State = row.server(text); row.State != stateOK {
		return
	}
	row.monitor()
	row.disk()
	if row.ID == unknownID {
		row.identify()
	}
}

// identify asks a server whose address alone is known who it is.
func (row *serverRow) identify() {
	row.Voter = row.Role != "observer"
	text, err := askWord(row.Address, "conf")
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "serverId="); ok {
			if n := number(id); n > 0 {
				row.ID = n
			}
		}
	}
}

// name is how a message calls the server.
func (row *serverRow) name() string {
	address := cmp.Or(row.Address, "no client port")
	if row.ID == unknownID {
		return address
	}
	return fmt.Sprintf("server %d (%s)", row.ID, address)
}

// rank orders servers: what needs attention first, then the leader.
func (row *serverRow) rank() int {
	switch {
	case row.State == stateLagging:
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

// server reads the answer to srvr and returns the state that it shows.
func (row *serverRow) server(text string) string {
	switch {
	case strings.Contains(text, "not currently serving requests"):
		return "not serving: it has no quorum"
	case refused(text):
		row.refuses = append(row.refuses, "srvr")
		return "it refuses the word srvr"
	}
	zxid := ""
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Zookeeper version":
			row.Version = value
		case "Zxid":
			zxid = value
		case "Mode":
			row.Role = value
		case "Connections":
			row.Clients = max(number(value)-1, 0) // the one that asks counts too
		}
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(zxid, "0x"), 16, 64)
	if err != nil || row.Role == "" {
		return "its answer to srvr has no zxid and mode: it is no ZooKeeper server"
	}
	row.Zxid, row.zxid, row.Epoch = zxid, int64(n), int64(n>>32)
	return stateOK
}

// monitor adds what mntr tells.
func (row *serverRow) monitor() {
	text, err := askWord(row.Address, "mntr")
	if err != nil || refused(text) {
		if err == nil {
			row.refuses = append(row.refuses, "mntr")
		}
		return
	}
	var global, local int64 = -1, 0
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		switch key {
		case "zk_global_sessions":
			global = number(value)
		case "zk_local_sessions":
			local = max(number(value), 0)
		case "zk_quorum_size":
			row.voters = int(max(number(value), 0))
		case "zk_synced_followers":
			row.synced = int(max(number(value), 0))
		}
	}
	if global >= 0 {
		row.Sessions = global + local
	}
}

// disk adds what dirs tells. A server whose log lies in its data directory names
// the same size twice.
func (row *serverRow) disk() {
	text, err := askWord(row.Address, "dirs")
	if err != nil || refused(text) {
		if err == nil {
			row.refuses = append(row.refuses, "dirs")
		}
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

func refused(text string) bool { return strings.Contains(text, "is not in the whitelist") }

// whitelistHints says which servers refuse which words, a line for those that
// refuse the same.
func whitelistHints(rows []*serverRow) (hints []string) {
	who := map[string][]string{}
	for _, row := range rows {
		if words := strings.Join(row.refuses, ","); words != "" {
			who[words] = append(who[words], row.name())
		}
	}
	for _, words := range slices.Sorted(maps.Keys(who)) {
		hints = append(hints, fmt.Sprintf("add %s to 4lw.commands.whitelist in zoo.cfg of %s to see more", words, strings.Join(who[words], ", ")))
	}
	return hints
}

// withoutAddress leaves out the address, which stands beside the error.
func withoutAddress(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// askWord sends a four-letter word and returns the whole answer.
func askWord(address, word string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, askTimeout)
	if err != nil {
		return "", withoutAddress(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(askTimeout))
	if _, err := conn.Write([]byte(word)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, askBytesMax))
	if err != nil && len(text) == 0 {
		return "", fmt.Errorf("it takes connections but says nothing: %w", withoutAddress(err))
	}
	if len(text) == 0 {
		return "", fmt.Errorf("it closes the connection without an answer to %s", word)
	}
	return string(text), nil
}
