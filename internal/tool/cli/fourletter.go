package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// askWord sends one of Apache's four-letter words to a server.
func (s *shell) askWord(ctx context.Context, server, word string) (string, error) {
	reply, err := s.opt.access.Ask(ctx, server, word)
	if err != nil {
		return "", fmt.Errorf("ask %s for %s: %w", server, word, err)
	}
	if strings.Contains(reply, "is not executed because it is not in the whitelist") {
		return "", advice.Errorf("add "+word+" to 4lw.commands.whitelist in its configuration",
			"ask %s for %s: the server doesn't allow it", server, word)
	}
	return reply, nil
}

type wordJSON struct {
	Server string            `json:"server"`
	Word   string            `json:"word"`
	Reply  string            `json:"reply,omitempty"`
	Values map[string]string `json:"values,omitempty"` // of mntr
	Error  string            `json:"error,omitempty"`
}

// runWord sends a word to servers and prints each answer.
func runWord(ctx context.Context, s *shell, a *args) error {
	word, servers := a.arg(0), s.servers()
	if !access.IsWord(word) {
		return &usageError{a.cmd, fmt.Sprintf("%q isn't a four-letter word of servers", word), "help words lists them"}
	}
	if len(a.words) > 1 {
		parsed, err := zk.ParseConnectString(a.arg(1))
		if err != nil {
			return err
		}
		servers = parsed.Servers
	}
	answers, err := subtree.InParallel(servers, func(server string) (wordJSON, error) {
		v := wordJSON{Server: server, Word: word}
		reply, err := s.askWord(ctx, server, word)
		if err != nil {
			v.Error = plainText(err)
		}
		v.Reply = reply
		return v, nil
	})
	if err != nil {
		return err
	}
	failed := 0
	for _, v := range answers {
		if v.Error != "" {
			failed++
			s.out.Messagef("%s", v.Error)
			continue
		}
		if word == "mntr" {
			v.Values = map[string]string{}
			for line := range strings.Lines(v.Reply) {
				if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
					v.Values[name] = value
				}
			}
		}
		s.out.Show(v, func() {
			if len(answers) > 1 {
				s.out.Printf("%s\n", s.out.Paint(screen.Blue, v.Server))
			}
			if reply := strings.TrimRight(v.Reply, "\n"); reply != "" { // there may be no watches to list
				s.out.Printf("%s\n", reply)
			}
		})
	}
	if failed > 0 {
		return advice.Errorf("check that the server is up and has "+word+" in 4lw.commands.whitelist",
			"%s: %d of %d servers gave no answer", word, failed, len(answers))
	}
	return nil
}

// chroot returns the chroot of the connect string, "" if it has none.
func (s *shell) chroot() string {
	parsed, err := zk.ParseConnectString(s.host)
	if err != nil {
		return "" // can't happen: a client was made from it before
	}
	return parsed.Chroot
}

// servers returns the servers of the connect string.
func (s *shell) servers() []string { return serversOf(s.host) }
