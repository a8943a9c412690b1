package compat

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/wordclient"
	"github.com/zooid-project/zooid/zk"
)

// ensembleWords are all four-letter words but stmk, which takes an argument.
var ensembleWords = []string{
	"ruok", "isro", "conf", "cons", "dirs", "dump", "envi", "gtmk", "hash", "mntr", "srvr", "stat", "wchc", "wchp", "wchs",
	"crst", "srst",
}

// TestWordsOfEnsemble asks a leader, a follower and an observer of Apache and of
// Zooid each word, while a client has a session, an ephemeral znode and watches
// there, and compares what is left of the answers without their figures.
func TestWordsOfEnsemble(t *testing.T) {
	reference, subject := programs(t)
	want, got := wordsOf(t, reference), wordsOf(t, subject)
	lines := 0
	for key, text := range want {
		lines += strings.Count(text, "\n")
		if got[key] != text {
			t.Errorf("%s: %s says\n%s\n%s says\n%s", key, reference.Name, onlyIn(text, got[key]), subject.Name,
				onlyIn(got[key], text))
		}
	}
	fmt.Printf("\n%s: %d answers of %s, %d lines, compared with those of %s\n", t.Name(), len(want), reference.Name, lines,
		subject.Name)
}

// onlyIn returns the lines of text that other has not; all, if only their order
// differs.
func onlyIn(text, other string) string {
	known := strings.Split(other, "\n")
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !slices.Contains(known, strings.TrimSuffix(line, "\n")) {
			b.WriteString("\t" + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	if b.Len() == 0 {
		return text
	}
	return b.String()
}

// wordsOf starts an ensemble with an observer, and returns the shape of each
// answer by role and word.
func wordsOf(t *testing.T, p Program) map[string]string {
	t.Helper()
	servers := StartEnsemble(t, p, 4, Options{Observers: 1})
	shapes := map[string]string{}
	for _, s := range servers {
		role := modeOf(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := zk.Open(ctx, s.Addr, zk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		path := "/words-" + role
		// there are two
		if _, err := c.Create(ctx, path, nil, zk.ModeEphemeral, zk.WorldACL(zk.PermAll)); err != nil && role != "follower" {
			t.Fatal(err)
		}
		if _, _, _, err := c.GetW(ctx, path); err != nil {
			t.Fatal(err)
		}
		for _, word := range ensembleWords {
			if role == "follower" && shapes["follower "+word] != "" {
				continue
			}
			answer := askWord(t, s.Addr, word)
			shapes[role+" "+word] = shapeOf(word, answer)
		}
		c.Close()
	}
	return shapes
}

func modeOf(t *testing.T, s *Server) string {
	t.Helper()
	for line := range strings.Lines(askWord(t, s.Addr, "srvr")) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	t.Fatalf("the server at %s doesn't say what it is", s.Addr)
	return ""
}

func askWord(t *testing.T, addr, word string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	text, err := wordclient.Word(ctx, nil, addr, word, 1<<20)
	if err != nil && !errors.Is(err, wordclient.ErrNoAnswer) { // a list may be empty
		t.Fatalf("%s: %v", word, err)
	}
	return text
}

// figures are what differs from server to server and from run to run.
var figures = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}:`), "expire at DATE:"},
	{regexp.MustCompile(`(?m)^(Zookeeper version:).*`), "$1 VERSION"},
	{regexp.MustCompile(`(?m)^(dataDir|dataLogDir)=.*`), "$1=FOLDER"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`0x[0-9a-f]+|version=[0-9a-f]+`), "HEX"},
	{regexp.MustCompile(`lop=\w+`), "lop=OP"},
	{regexp.MustCompile(`-?\d+(\.\d+)?`), "N"},
}

// The lists of dump are of whoever is connected and about to expire meanwhile: how
// long they are is chance.
var chance = regexp.MustCompile(`(?m)^N expire at DATE:\n|^\tHEX\n|^\tip: .*\n|^HEX\tNms\n`)

// notHere are metrics of Apache that Zooid doesn't have, and the other way round;
// docs/protocol.md says why.
var notHere = regexp.MustCompile(`^zk_\w+_N_learner_handler_qp_\w+$|^zk_op_count_\w+$|^zk_ttl_node_\w+$|^zk_quota_\w+$|namespace$|ack_latency$|` +
	`^zk_(acl_rules_waiting|disk_\w+|memory_\w+|clock_correction_ms|clock_ms|draining|fsync_in_flight_ms|last_turn_ms|log_awaits_room|time_set_back_count|feature_level|logins_throttled|snapshot_in_flight_ms|zooid_\w+|\w+_refused)$`)

// shapeOf returns an answer without its figures: of mntr the names alone.
func shapeOf(word, answer string) string {
	if word == "mntr" || word == "envi" {
		var names []string
		for line := range strings.Lines(answer) {
			name := line[:max(0, strings.IndexAny(line, "\t=:"))]
			name = regexp.MustCompile(`_\d+_`).ReplaceAllString(name, "_N_")
			if name == "zk_server_state" || name == "zk_peer_state" {
				name = strings.TrimSpace(line)
			}
			if !notHere.MatchString(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, "\n") + "\n"
	}
	for _, f := range figures {
		answer = f.pattern.ReplaceAllString(answer, f.instead)
	}
	if word == "dump" {
		answer = chance.ReplaceAllString(answer, "")
	}
	if word == "cons" || word == "stat" {
		// The order of connections is that of a set in Apache.
		lines := strings.Split(answer, "\n")
		slices.SortStableFunc(lines, func(a, b string) int {
			if strings.HasPrefix(a, " /") && strings.HasPrefix(b, " /") {
				return strings.Compare(a, b)
			}
			return 0
		})
		answer = strings.Join(lines, "\n")
	}
	return answer
}
