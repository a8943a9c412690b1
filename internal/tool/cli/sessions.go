package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

// sessionJSON is one session as its server knows it.
type sessionJSON struct {
	ID         string   `json:"id"`
	Server     string   `json:"server,omitempty"` // the one it is connected to
	Client     string   `json:"client,omitempty"`
	TimeoutMs  int64    `json:"timeoutMs,omitempty"`
	Queued     int64    `json:"queued"`
	Received   int64    `json:"received"`
	LastOp     string   `json:"lastOp,omitempty"`
	You        bool     `json:"you,omitempty"`
	Ephemerals []string `json:"ephemerals"`
}

// runSessionList asks every server of the connect string for its sessions.
func runSessionList(ctx context.Context, s *shell, a *args) error {
	sessions := map[string]*sessionJSON{}
	var failed error
	for _, server := range s.servers() {
		cons, err := s.askWord(ctx, server, "cons")
		if err == nil {
			addConnections(sessions, server, cons)
		}
		dump, dumpErr := s.askWord(ctx, server, "dump")
		if dumpErr == nil {
			addEphemerals(sessions, dump)
		}
		if err = cmp.Or(err, dumpErr); err != nil {
			failed = err
			s.out.Messagef("session list: %v", err)
		}
	}
	list := slices.SortedFunc(maps.Values(sessions), func(a, b *sessionJSON) int { return cmp.Compare(a.ID, b.ID) })
	mine := ""
	if s.client != nil {
		mine = screen.Hex(s.client.Session().ID)
	}
	if !s.out.JSON && (failed == nil || len(list) > 0) {
		s.out.Row("%-20s %9s %7s  %-22s %-22s %s", "SESSION", "TIMEOUT", "QUEUED", "CLIENT", "SERVER", "EPHEMERALS")
	}
	for _, one := range list {
		one.You = one.ID == mine
		s.out.Show(one, func() { s.printSession(a, one) })
	}
	if failed != nil {
		return advice.Add(errors.New("session list: not every server has listed its sessions"), "the words cons and dump must be in each server's 4lw.commands.whitelist")
	}
	return nil
}

func (s *shell) printSession(a *args, one *sessionJSON) {
	id := one.ID
	if one.You {
		id += "*"
	}
	s.out.Row("%-20s %9d %7d  %-22s %-22s %d", id, one.TimeoutMs, one.Queued, one.Client, one.Server, len(one.Ephemerals))
	if a.has("e") {
		for _, path := range one.Ephemerals {
			s.out.Printf("    %s\n", s.out.Name(path))
		}
	}
}

func sessionOf(sessions map[string]*sessionJSON, id string) *sessionJSON {
	if sessions[id] == nil {
		sessions[id] = &sessionJSON{ID: id, Ephemerals: []string{}}
	}
	return sessions[id]
}

// addConnections reads the lines of cons, such as
// " /127.0.0.1:51530[1](queued=0,recved=7,sent=7,sid=0x10,lop=PING,to=30000,…)".
func addConnections(sessions map[string]*sessionJSON, server, cons string) {
	for line := range strings.Lines(cons) {
		client, rest, ok := strings.Cut(strings.TrimSpace(line), "[")
		_, inner, ok2 := strings.Cut(rest, "(")
		if !ok || !ok2 {
			continue
		}
		fields := map[string]string{}
		for _, part := range strings.Split(strings.TrimSuffix(inner, ")"), ",") {
			name, value, _ := strings.Cut(part, "=")
			fields[name] = value
		}
		if fields["sid"] == "" {
			continue // no session yet, or the connection that asks
		}
		number := func(name string) int64 {
			n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 for a missing number
			return n
		}
		one := sessionOf(sessions, fields["sid"])
		one.Server, one.Client, one.LastOp = server, strings.TrimPrefix(client, "/"), fields["lop"]
		one.TimeoutMs, one.Queued, one.Received = number("to"), number("queued"), number("recved")
	}
}

// addEphemerals reads the answer of dump: the sessions it tracks, and lines "0x10:"
// followed by tab and path.
func addEphemerals(sessions map[string]*sessionJSON, dump string) {
	_, ephemerals, _ := strings.Cut(dump, "Sessions with Ephemerals")
	ephemerals, _, _ = strings.Cut(ephemerals, "Connections dump:")
	var owner *sessionJSON
	for line := range strings.Lines(ephemerals) {
		line = strings.TrimRight(line, "\n")
		switch path, isPath := strings.CutPrefix(line, "\t"); {
		case isPath && owner != nil:
			if !slices.Contains(owner.Ephemerals, path) {
				owner.Ephemerals = append(owner.Ephemerals, path)
			}
		case strings.HasPrefix(line, "0x"):
			owner = sessionOf(sessions, strings.TrimSuffix(line, ":"))
		}
	}
	for _, one := range sessions {
		slices.Sort(one.Ephemerals)
	}
}
