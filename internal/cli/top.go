package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/cli/advice"
	"github.com/zooid-project/zooid/internal/cli/screen"
	"github.com/zooid-project/zooid/internal/cli/subtree"
	"github.com/zooid-project/zooid/internal/terminal"
)

// serverJSON is one server at one moment.
type serverJSON struct {
	Time        string  `json:"time"`
	Server      string  `json:"server"`
	Mode        string  `json:"mode,omitempty"`
	Zxid        string  `json:"zxid,omitempty"`
	Latency     string  `json:"latencyMs,omitempty"` // min/avg/max
	Received    int64   `json:"received"`
	PerSecond   float64 `json:"receivedPerSecond"`
	Connections int64   `json:"connections"`
	Outstanding int64   `json:"outstanding"`
	Znodes      int64   `json:"znodes"`
	Error       string  `json:"error,omitempty"`
	at          time.Time
}

// topInterval is how often top asks unless told otherwise.
const topInterval = 2 * time.Second

// runTop shows how the servers are doing: repeatedly on a terminal, once elsewhere.
func runTop(ctx context.Context, s *shell, a *args) error {
	rounds := int64(1)
	if s.out.Terminal {
		rounds = 0 // until interrupted
	}
	rounds, err := a.number("n", rounds)
	if err != nil {
		return err
	}
	interval, err := a.duration("i", topInterval)
	if err != nil {
		return err
	}
	last := map[string]serverJSON{}
	for round := int64(1); ; round++ {
		down := s.topRound(ctx, last, rounds != 1)
		if err := s.out.Flush(); err != nil {
			return err
		}
		if round == rounds {
			if down != nil {
				return advice.Add(down, "is srvr allowed there, and the server up?")
			}
			return nil
		}
		select {
		case <-ctx.Done():
			if rounds != 0 {
				return ctx.Err()
			}
			return nil // the usual way to end top
		case <-time.After(interval):
		}
	}
}

// topRound prints one line for each server; it returns the last failure.
func (s *shell) topRound(ctx context.Context, last map[string]serverJSON, again bool) (failed error) {
	now, err := subtree.InParallel(s.servers(), func(server string) (serverJSON, error) {
		v := serverJSON{Time: time.Now().UTC().Format(screen.JSONTime), Server: server, at: time.Now()}
		reply, err := s.askWord(ctx, server, "srvr")
		if err != nil {
			v.Error = err.Error()
			return v, nil
		}
		v.read(reply)
		return v, nil
	})
	if err != nil {
		return err
	}
	if !s.out.JSON {
		if s.out.Terminal && again {
			s.out.Printf("%s", terminal.Cleared)
		}
		s.out.Row("%-21s %-10s %7s %12s %5s %6s %8s %s", "SERVER", "MODE", "REQ/S", "LATENCY MS",
			"CONNS", "QUEUED", "ZNODES", "ZXID")
	}
	for _, v := range now {
		if before, ok := last[v.Server]; ok && v.Error == "" && before.Error == "" {
			v.PerSecond = float64(v.Received-before.Received) / v.at.Sub(before.at).Seconds()
		}
		last[v.Server] = v
		if v.Error != "" {
			failed = advice.Errorf("", "%s", v.Error)
		}
		s.out.Show(v, func() { s.printServer(v) })
	}
	return failed
}

func (s *shell) printServer(v serverJSON) {
	if v.Error != "" {
		s.out.Printf("%-21s %s\n", v.Server, s.out.Paint(screen.Red, v.Error))
		return
	}
	s.out.Row("%-21s %-10s %7.0f %12s %5d %6d %8d %s", v.Server, v.Mode, v.PerSecond, v.Latency, v.Connections,
		v.Outstanding, v.Znodes, v.Zxid)
}

// read parses the lines of srvr.
func (v *serverJSON) read(reply string) {
	for line := range strings.Lines(reply) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64) // 0 if it is not a number
		switch name {
		case "Latency min/avg/max":
			v.Latency = value
		case "Received":
			v.Received = n
		case "Connections":
			v.Connections = n
		case "Outstanding":
			v.Outstanding = n
		case "Zxid":
			v.Zxid = value
		case "Mode":
			v.Mode = value
		case "Node count":
			v.Znodes = n
		}
	}
}
