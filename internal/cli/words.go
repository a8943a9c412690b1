package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// askWord asks a server one of Apache's four-letter words.
func (s *shell) askWord(ctx context.Context, server, word string) (string, error) {
	reply, err := s.opt.access.Ask(ctx, server, word)
	if err != nil {
		return "", fmt.Errorf("ask %s for %s: %w", server, word, err)
	}
	if strings.Contains(reply, "is not executed because it is not in the whitelist") {
		return "", failuref("add "+word+" to 4lw.commands.whitelist in its configuration", "ask %s for %s: the server doesn't allow it", server, word)
	}
	return reply, nil
}

// A fourLetterWord is one that servers of Apache's answer, and of Zooid's.
type fourLetterWord struct{ word, about string }

func fourLetterWords() []fourLetterWord {
	return []fourLetterWord{
		{"conf", "the configuration"}, {"cons", "connections with their sessions"}, {"crst", "reset the figures of connections"},
		{"dirs", "bytes of snapshots and log"}, {"dump", "sessions and ephemeral znodes"}, {"envi", "the environment"},
		{"gtmk", "the trace mask"}, {"hash", "digests of the tree"}, {"isro", "rw, or ro for a server without quorum"},
		{"mntr", "figures for monitoring"}, {"ruok", "imok from one that runs"}, {"srst", "reset the figures of srvr"},
		{"srvr", "mode, latency, znodes"}, {"stat", "srvr with the clients"}, {"wchc", "watches by session"},
		{"wchp", "watches by path"}, {"wchs", "how many watches there are"},
	}
}

func isWord(text string) bool {
	return slices.ContainsFunc(fourLetterWords(), func(w fourLetterWord) bool { return w.word == text })
}

type wordJSON struct {
	Server string            `json:"server"`
	Word   string            `json:"word"`
	Reply  string            `json:"reply,omitempty"`
	Values map[string]string `json:"values,omitempty"` // of mntr
	Error  string            `json:"error,omitempty"`
}

// runWord asks servers a word and prints what each answers.
func runWord(ctx context.Context, s *shell, a *args) error {
	word, servers := a.arg(0), s.servers()
	if !isWord(word) {
		return &usageError{a.cmd, fmt.Sprintf("%q is no four-letter word of servers", word), "help words lists them"}
	}
	if len(a.words) > 1 {
		parsed, err := zk.ParseConnectString(a.arg(1))
		if err != nil {
			return err
		}
		servers = parsed.Servers
	}
	answers, err := inParallel(servers, func(server string) (wordJSON, error) {
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
			s.out.messagef("%s", v.Error)
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
		s.out.show(v, func() {
			if len(answers) > 1 {
				s.out.printf("%s\n", s.out.paint(blue, v.Server))
			}
			s.out.printf("%s\n", strings.TrimRight(v.Reply, "\n"))
		})
	}
	if failed > 0 {
		return failuref("is "+word+" in 4lw.commands.whitelist there, and the server up?", "%s: %d of %d servers gave no answer", word, failed, len(answers))
	}
	return nil
}

// chroot returns that of the connect string, "" if it has none.
func (s *shell) chroot() string {
	parsed, err := zk.ParseConnectString(s.host)
	if err != nil {
		return "" // a client was made of it before
	}
	return parsed.Chroot
}

// servers returns those of the connect string.
func (s *shell) servers() []string { return serversOf(s.host) }
