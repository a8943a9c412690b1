package main

import (
	"errors"
	"fmt"
	"io"
	"net"
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
)

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
	synced  int // followers that a leader says are up to date
	hints   []string
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
}

// server reads the answer to srvr and returns the state that it shows.
func (row *serverRow) server(text string) string {
	switch {
	case strings.Contains(text, "not currently serving requests"):
		return "not serving: it has no quorum"
	case refused(text):
		row.hints = append(row.hints, whitelistHint(row.ID, "srvr"))
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
			row.hints = append(row.hints, whitelistHint(row.ID, "mntr"))
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
			row.hints = append(row.hints, whitelistHint(row.ID, "dirs"))
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

func whitelistHint(id int64, word string) string {
	return fmt.Sprintf("server %d refuses the word %s: add it to 4lw.commands.whitelist in its zoo.cfg", id, word)
}

// askWord sends a four-letter word and returns the whole answer.
func askWord(address, word string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, askTimeout)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // the address stands beside it
		}
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(askTimeout))
	if _, err := conn.Write([]byte(word)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, askBytesMax))
	if err != nil && len(text) == 0 {
		return "", fmt.Errorf("it takes connections but says nothing: %w", err)
	}
	if len(text) == 0 {
		return "", fmt.Errorf("it closes the connection without an answer to %s", word)
	}
	return string(text), nil
}
