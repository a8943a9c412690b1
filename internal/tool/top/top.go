// Package top shows the activity of servers: `zooid top`, and the shell's command top.
//
//	top.go      rounds, and whom they ask
//	servers.go  a line for each server
//	busiest.go  what a server's clients ask for most, which its admin server tells
package top

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// Defaults and limits.
const (
	IntervalDefault = 2 * time.Second
	KeysDefault     = 10
	KeysMax         = 50 // an answer with this many is smaller than answerBytesMax

	adminPortDefault = 8080
	answerBytesMax   = 1 << 20
	patience         = 10 * time.Second // for one answer
)

// Flags are the flags that top has wherever it is run.
type Flags struct {
	Rounds   int64         // how often to ask; 0 for until the context ends, on a terminal, else once
	Interval time.Duration // between two rounds
	Keys     int64         // busiest keys of each kind
	Bytes    bool          // by bytes a second, not by requests
}

// Check returns an error if a flag has an invalid value.
func (f *Flags) Check() error {
	switch {
	case f.Keys < 1 || f.Keys > KeysMax:
		return fmt.Errorf("-k %d: want a number from 1 to %d", f.Keys, KeysMax)
	case f.Interval <= 0:
		return fmt.Errorf("-i %s: want a length of time above 0, such as 2s", f.Interval)
	case f.Rounds < 0:
		return fmt.Errorf("-n %d: want a number from 0", f.Rounds)
	}
	return nil
}

// Whom says whom to ask: Servers, at their client ports, and one server, at its admin server. Either may be missing.
type Whom struct {
	Servers []string // addresses of client ports
	Word    func(ctx context.Context, server, word string) (string, error)
	Admin   Admin
	Note    string // printed below the servers, if it isn't empty
}

// An Admin asks an admin server by a command, and returns the status and the body of its answer.
type Admin func(ctx context.Context, command string) (status int, body []byte, err error)

// ErrRefused is wrapped by the errors of servers that answer, but refuse to show the requested values.
var ErrRefused = errors.New("refused")

// Run shows the activity of servers, until all rounds are over or ctx ends. It returns the last round's error, and ends
// at once if no server answers in the first one.
func (f *Flags) Run(ctx context.Context, out *screen.Output, whom *Whom) error {
	rounds := f.Rounds
	if rounds == 0 && !out.Terminal {
		rounds = 1
	}
	last := map[string]serverJSON{}
	for round := int64(1); ; round++ {
		shown, failed := f.round(ctx, out, whom, last, rounds != 1)
		if err := out.Flush(); err != nil {
			return err
		}
		if round == rounds || round == 1 && !shown {
			return failed
		}
		select {
		case <-ctx.Done():
			if rounds != 0 {
				return ctx.Err()
			}
			return nil // the usual way to end top
		case <-time.After(f.Interval):
		}
	}
}

// round asks every server once and prints the answers. shown says that some server answered; failed is one of the
// failures.
func (f *Flags) round(ctx context.Context, out *screen.Output, whom *Whom, last map[string]serverJSON,
	again bool) (shown bool, failed error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := whom.rows(ctx)
	if err != nil {
		return false, err
	}
	var busy *busiest
	if whom.Admin != nil {
		if busy, failed = askBusiest(ctx, whom.Admin, f.Keys); failed != nil && len(rows) == 0 {
			return false, failed
		}
	}
	if out.Terminal && again && !out.JSON {
		out.Printf(terminal.Cleared)
	}
	if err := printServers(out, rows, last); err != nil {
		failed = err
	}
	shown = busy != nil
	for _, v := range rows {
		shown = shown || v.Error == ""
	}
	switch {
	case busy != nil:
		busy.print(out, f.Bytes, len(rows) > 0)
	case whom.Note != "" && !out.JSON:
		out.Printf("\n%s\n", whom.Note)
	}
	return shown, failed
}

// AdminAt returns the function that asks the admin server at HOST[:PORT], by TLS if dial is not nil.
func AdminAt(at string, dial func(ctx context.Context, server string) (net.Conn, error)) (Admin, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		host, port = strings.Trim(at, "[]"), strconv.Itoa(adminPortDefault)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?#") {
		return nil, fmt.Errorf("%.80q is neither a file nor HOST[:PORT]", at)
	}
	base := "http://"
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	if dial != nil {
		base = "https://"
		transport.DialTLSContext = func(ctx context.Context, _, at string) (net.Conn, error) { return dial(ctx, at) }
	}
	base += net.JoinHostPort(host, port) + "/commands"
	return func(ctx context.Context, command string) (int, []byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+command, nil)
		if err != nil {
			return 0, nil, err
		}
		return AnswerTo(req, transport)
	}, nil
}
