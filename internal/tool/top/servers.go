package top

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

// serverJSON is one server at one moment.
type serverJSON struct {
	Time        string   `json:"time"`
	Server      string   `json:"server"`
	Mode        string   `json:"mode,omitempty"`
	Zxid        string   `json:"zxid,omitempty"`
	Latency     string   `json:"latencyMs,omitempty"` // min/avg/max
	Received    int64    `json:"received"`
	PerSecond   *float64 `json:"receivedPerSecond,omitempty"` // since the round before; nil in the first one
	Connections int64    `json:"connections"`
	Outstanding int64    `json:"outstanding"`
	Znodes      int64    `json:"znodes"`
	Error       string   `json:"error,omitempty"`
	at          time.Time
	err         error
}

// rows asks the servers; an error is in its server's row.
func (w *Whom) rows(ctx context.Context) ([]serverJSON, error) {
	return subtree.InParallel(w.Servers, func(server string) (serverJSON, error) {
		v := serverJSON{Time: time.Now().UTC().Format(screen.JSONTime), Server: server, at: time.Now()}
		reply, err := w.Word(ctx, server, "srvr")
		if err == nil && !strings.HasPrefix(reply, "Zookeeper version: ") {
			err = fmt.Errorf("%w: %.80q", ErrRefused, strings.TrimSpace(reply))
			if strings.Contains(reply, "not currently serving requests") {
				err = fmt.Errorf("%w: it isn't serving requests", ErrRefused)
			}
		}
		if err != nil {
			v.err, v.Error = err, err.Error()
			return v, nil
		}
		v.read(reply)
		return v, nil
	})
}

// printServers prints a line for each server; it returns the last failure.
func printServers(out *screen.Output, rows []serverJSON, last map[string]serverJSON) (failed error) {
	if !out.JSON && len(rows) > 0 {
		out.Row("%-21s %-10s %7s %12s %5s %6s %8s %s", "SERVER", "MODE", "REQ/S", "LATENCY MS", "CONNS", "QUEUED", "ZNODES",
			"ZXID")
	}
	for _, v := range rows {
		if before, ok := last[v.Server]; ok && v.Error == "" && before.Error == "" && v.Received >= before.Received {
			rate := float64(v.Received-before.Received) / v.at.Sub(before.at).Seconds()
			v.PerSecond = &rate
		} // a server that was started again counts from 0
		last[v.Server] = v
		if v.err != nil {
			failed = v.err
		}
		out.Show(v, func() { v.print(out) })
	}
	return failed
}

func (v *serverJSON) print(out *screen.Output) {
	if v.Error != "" {
		out.Printf("%-21s %s\n", v.Server, out.Paint(screen.Red, v.Error))
		return
	}
	rate := "-"
	if v.PerSecond != nil {
		rate = fmt.Sprintf("%.0f", *v.PerSecond)
	}
	out.Row("%-21s %-10s %7s %12s %5d %6d %8d %s", v.Server, v.Mode, rate, v.Latency, v.Connections, v.Outstanding,
		v.Znodes, v.Zxid)
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
