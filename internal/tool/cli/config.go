package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

type configJSON struct {
	Config string           `json:"config"`
	Stat   *screen.StatJSON `json:"stat,omitempty"`
}

func runConfig(ctx context.Context, s *shell, a *args) error {
	var data []byte
	var st zk.Stat
	var err error
	if a.has("w") {
		var w *zk.Watch
		data, st, w, err = s.client.GetConfigW(ctx)
		s.follow(w)
	} else {
		data, st, err = s.client.GetConfig(ctx)
	}
	if err != nil {
		return err
	}
	text := string(data)
	if a.has("c") {
		text = clientServers(text)
	}
	s.printConfig(a, text, st)
	return nil
}

func (s *shell) printConfig(a *args, text string, st zk.Stat) {
	s.out.Show(configJSON{text, screen.ToJSON(st)}, func() {
		s.out.Printf("%s\n", text)
		if a.has("s") {
			s.out.PrintStat(st)
		}
	})
}

// clientServers returns a configuration's version and the addresses for clients.
func clientServers(config string) string {
	version := ""
	var servers []string
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "version":
			version = value
		case strings.HasPrefix(name, "server."):
			if _, client, ok := strings.Cut(value, ";"); ok {
				servers = append(servers, client)
			}
		}
	}
	return version + " " + strings.Join(servers, ",")
}

func runReconfig(ctx context.Context, s *shell, a *args) error {
	change, err := readReconfig(a)
	if err != nil {
		return err
	}
	data, st, err := s.client.Reconfig(ctx, change)
	if err != nil {
		return err
	}
	s.out.Show(configJSON{string(data), screen.ToJSON(st)}, func() {
		s.out.Printf("Committed new configuration:\n%s\n", data)
		if a.has("s") {
			s.out.PrintStat(st)
		}
	})
	return nil
}

func readReconfig(a *args) (change zk.Reconfig, err error) {
	list := func(name string) []string {
		if !a.has(name) {
			return nil
		}
		return strings.Split(a.flags[name], ",")
	}
	whole, step := a.has("file") || a.has("members"), a.has("add") || a.has("remove")
	switch {
	case whole && step:
		return change, a.usagef("Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)")
	case a.has("file") && a.has("members"):
		return change, a.usagef("Can't use -file and -members together (conflicting non-incremental modes)")
	case !whole && !step:
		return change, &usageError{cmd: a.cmd}
	}
	change.Joining, change.Leaving, change.Members = list("add"), list("remove"), list("members")
	if text, ok := a.flags["v"]; ok {
		version, err := strconv.ParseInt(strings.TrimPrefix(text, "0x"), 16, 64)
		if err != nil {
			return change, a.usagef("reconfig -v: %q is not a version in hexadecimal; config shows it", text)
		}
		change.FromConfig = &version
	}
	if a.has("file") {
		change.Members, err = readMembers(a.flags["file"])
	}
	return change, err
}

// readMembers reads the server lines of a dynamic configuration file. Any parameter
// other than the version is an error, as in zkCli: a server whose line is misspelt
// would be left out of the ensemble.
func readMembers(file string) ([]string, error) {
	text, err := access.ReadSmall(file)
	if err != nil {
		return nil, fmt.Errorf("reconfig -file: %w", err)
	}
	var members []string
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		key, _, _ := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); {
		case line == "", line[0] == '#', key == "version":
		case strings.HasPrefix(key, "server."):
			members = append(members, line)
		default:
			return nil, advice.Errorf("write members as server.N=host:port:port;port, and nothing else; nothing was changed",
				"reconfig -file %s, line %d: unrecognised parameter: %s", file, number, key)
		}
	}
	if members == nil {
		return nil, advice.Errorf("write members as server.N=host:port:port;port",
			"reconfig -file %s: no line names a server", file)
	}
	return members, nil
}
