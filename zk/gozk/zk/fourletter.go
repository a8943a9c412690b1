package zk

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/wordclient"
)

// A Mode is a server's role.
type Mode uint8

// The modes.
const (
	ModeUnknown    Mode = iota // including observer and read-only
	ModeLeader     Mode = iota
	ModeFollower   Mode = iota
	ModeStandalone Mode = iota
)

// String returns the servers' word for the mode, "unknown" for ModeUnknown.
func (m Mode) String() string {
	switch m {
	case ModeLeader:
		return "leader"
	case ModeFollower:
		return "follower"
	case ModeStandalone:
		return "standalone"
	}
	return "unknown"
}

// ServerStats is a server's reply to srvr. Latencies are in milliseconds.
type ServerStats struct {
	Server      string // as given, with its port
	Sent        int64
	Received    int64
	NodeCount   int64
	MinLatency  int64
	AvgLatency  float64
	MaxLatency  int64
	Connections int64
	Outstanding int64
	Epoch       int32 // of the last zxid
	Counter     int32 // of the last zxid
	BuildTime   time.Time
	Mode        Mode
	Version     string
	Error       error // why the other fields, except Server, are empty
}

// A ServerClient is one line of a server's reply to cons. Latencies and Timeout are in milliseconds. The line of a
// connection without a session has few values: the other numbers are then zero, and the times 1970.
type ServerClient struct {
	Queued        int64
	Received      int64
	Sent          int64
	SessionID     int64
	Lcxid         int64 // the last request's number
	Lzxid         int64 // the last zxid sent
	Timeout       int32
	LastLatency   int32
	MinLatency    int32
	AvgLatency    int32
	MaxLatency    int32
	Established   time.Time
	LastResponse  time.Time
	Addr          string
	LastOperation string // in Apache's four letters
	Error         error  // always nil; see ServerClients.Error
}

// ServerClients are the connections of one server.
type ServerClients struct {
	Clients []*ServerClient
	Error   error // why Clients is empty or incomplete
}

// wordBytesMax bounds a server's reply. It has room for a million connections in cons.
const wordBytesMax = 256 << 20

// word sends a four-letter word to a server. The reply may be empty if the server has nothing to list.
func word(server, name string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	answer, err := wordclient.Word(ctx, nil, server, name, wordBytesMax)
	if errors.Is(err, wordclient.ErrNoAnswer) {
		err = nil
	}
	return answer, err
}

// FLWRuok reports for each server whether it answers ruok with imok. It asks one server after the other; timeout, which
// must be positive, bounds each.
func FLWRuok(servers []string, timeout time.Duration) []bool {
	well := make([]bool, len(servers))
	for i, server := range FormatServers(servers) {
		answer, err := word(server, "ruok", timeout)
		well[i] = err == nil && strings.HasPrefix(answer, "imok")
	}
	return well
}

// FLWSrvr requests the statistics of each server, as FLWRuok does. It returns false if one of the results has an Error.
func FLWSrvr(servers []string, timeout time.Duration) ([]*ServerStats, bool) {
	all, ok := make([]*ServerStats, len(servers)), true
	for i, server := range FormatServers(servers) {
		stats := &ServerStats{Server: server}
		answer, err := word(server, "srvr", timeout)
		if err == nil {
			err = stats.parse(answer)
		}
		if err != nil {
			stats, ok = &ServerStats{Server: server, Error: err}, false
		}
		all[i] = stats
	}
	return all, ok
}

// parse parses the lines of srvr, each of which is a name, a colon and a value.
func (s *ServerStats) parse(answer string) error {
	values := map[string]string{}
	for line := range strings.Lines(answer) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			values[name] = value
		}
	}
	version, built, _ := strings.Cut(values["Zookeeper version"], ", built on ")
	s.Version = version
	var err error
	if s.BuildTime, err = parseBuilt(built); err != nil {
		return fmt.Errorf("zk: srvr: %w", err)
	}
	latency := strings.Split(values["Latency min/avg/max"], "/")
	zxid, zxidErr := strconv.ParseUint(values["Zxid"], 0, 64)
	if len(latency) != 3 || zxidErr != nil {
		return fmt.Errorf("zk: srvr: no latencies or zxid in an answer of %d bytes", len(answer))
	}
	s.Epoch, s.Counter = int32(zxid>>32), int32(zxid)
	if s.AvgLatency, err = strconv.ParseFloat(latency[1], 64); err != nil {
		return fmt.Errorf("zk: srvr: average latency: %w", err)
	}
	for _, field := range []struct {
		to   *int64
		text string
	}{
		{&s.MinLatency, latency[0]}, {&s.MaxLatency, latency[2]}, {&s.Received, values["Received"]},
		{&s.Sent, values["Sent"]},
		{&s.Connections, values["Connections"]}, {&s.Outstanding, values["Outstanding"]},
		{&s.NodeCount, values["Node count"]},
	} {
		if *field.to, err = strconv.ParseInt(field.text, 10, 64); err != nil {
			return fmt.Errorf("zk: srvr: %w", err)
		}
	}
	for _, m := range []Mode{ModeLeader, ModeFollower, ModeStandalone} {
		if values["Mode"] == m.String() {
			s.Mode = m
		}
	}
	return nil
}

// parseBuilt parses a build date in the format of servers since 3.6, or in the older one.
func parseBuilt(text string) (time.Time, error) {
	if t, err := time.Parse("2006-01-02 15:04 MST", text); err == nil {
		return t, nil
	}
	return time.Parse("01/02/2006 15:04 MST", text)
}

// consLine matches a line of cons: an address, and names with values.
var consLine = regexp.MustCompile(`^\s*/(\S+)\[[0-9a-f]+\]\((.*)\)$`)

// FLWCons requests the list of connections of each server, as FLWRuok does. It returns false if one of the results has
// an Error.
func FLWCons(servers []string, timeout time.Duration) ([]*ServerClients, bool) {
	all, ok := make([]*ServerClients, len(servers)), true
	for i, server := range FormatServers(servers) {
		all[i] = new(ServerClients)
		answer, err := word(server, "cons", timeout)
		for line := range strings.Lines(answer) {
			if strings.TrimSpace(line) == "" || err != nil {
				continue
			}
			var client *ServerClient
			if client, err = parseCons(strings.TrimSpace(line)); err == nil {
				all[i].Clients = append(all[i].Clients, client)
			}
		}
		if err != nil {
			all[i].Error, ok = err, false
		}
	}
	return all, ok
}

// parseCons parses a line of cons. The line of a connection without a session has few values.
func parseCons(line string) (*ServerClient, error) {
	parts := consLine.FindStringSubmatch(line)
	if parts == nil {
		return nil, fmt.Errorf("zk: cons: line %.100q is not understood", line)
	}
	values := map[string]string{}
	for pair := range strings.SplitSeq(parts[2], ",") {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value
	}
	var err error
	number := func(name string) int64 {
		text, there := values[name]
		if !there {
			return 0
		}
		n, parseErr := strconv.ParseInt(text, 0, 64)
		if parseErr != nil {
			var u uint64
			u, parseErr = strconv.ParseUint(text, 0, 64) // ids and numbers in hexadecimal
			n = int64(u)
		}
		if parseErr != nil {
			err = fmt.Errorf("zk: cons: %s: %w", name, parseErr)
		}
		return n
	}
	k := &ServerClient{
		Queued: number("queued"), Received: number("recved"), Sent: number("sent"), SessionID: number("sid"),
		Lcxid: number("lcxid"), Lzxid: number("lzxid"),
		Timeout: int32(number("to")), LastLatency: int32(number("llat")), MinLatency: int32(number("minlat")),
		AvgLatency: int32(number("avglat")), MaxLatency: int32(number("maxlat")),
		Established: time.UnixMilli(number("est")), LastResponse: time.UnixMilli(number("lresp")), Addr: parts[1],
		LastOperation: values["lop"],
	}
	return k, err
}
