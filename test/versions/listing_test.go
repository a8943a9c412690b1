package versions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/wordclient"
	"github.com/zooid-project/zooid/zk"
)

const (
	patience    = time.Minute // until a server does what it is to do; only a failing test waits so long
	askPause    = 20 * time.Millisecond
	askTimeout  = 10 * time.Second
	askBytesMax = 1 << 20

	sessionTimeout = 10 * time.Minute
	superUser      = "super:super-secret"
	aliceUser      = "alice:alice-secret"
)

// answerTo asks a server a four-letter word.
func answerTo(addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return wordclient.Word(ctx, nil, addr, word, askBytesMax)
}

// await polls until the answer to a word has a match, and returns its first group.
func await(t *testing.T, addr, word, pattern string) string {
	t.Helper()
	find := regexp.MustCompile(`(?m)` + pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(askPause) {
		text, err := answerTo(addr, word)
		if m := find.FindStringSubmatch(text); err == nil && m != nil {
			return m[1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the answer to %s at %s has no %q after %v: %v\n%s", word, addr, pattern, patience, err, text)
		}
	}
}

// sessionLines lists the sessions that live, as the leader knows them.
func sessionLines(t *testing.T, addrs []string) (lines []string) {
	t.Helper()
	for _, addr := range addrs {
		if mode := await(t, addr, "srvr", `^Mode: (.*)$`); mode != "leader" && mode != "standalone" {
			continue
		}
		dump, err := answerTo(addr, "dump")
		if err != nil {
			t.Fatal(err)
		}
		dump, _, _ = strings.Cut(dump, "ephemeral nodes dump")
		for _, id := range regexp.MustCompile(`(?m)^\s+(0x[0-9a-f]+)$`).FindAllStringSubmatch(dump, -1) {
			lines = append(lines, "lives "+id[1])
		}
		slices.Sort(lines)
		return lines
	}
	t.Fatalf("none of %v leads", addrs)
	return nil
}

// digestLines lists the digests of the whole state that a server tells, by zxid.
func digestLines(t *testing.T, addr string) (lines []string) {
	t.Helper()
	hash, err := answerTo(addr, "hash")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(hash) {
		lines = append(lines, "digest "+strings.TrimSpace(line))
	}
	return lines
}

// znodeLines lists a subtree as a super user sees it.
func znodeLines(t *testing.T, c *zk.Client, path string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	data, stat, err := c.Get(ctx, path)
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	acl, _, err := c.GetACL(ctx, path)
	if err != nil {
		t.Fatalf("get the ACL of %s: %v", path, err)
	}
	sum := "null"
	if data != nil {
		sum = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	entries := make([]string, len(acl))
	for i, a := range acl { // the golden listings have the permissions as numbers
		entries[i] = fmt.Sprintf("{%d %v}", uint32(a.Perms), a.ID)
	}
	lines := []string{fmt.Sprintf("znode %s stat %+v acl %v sha256 %s", path, stat, entries, sum)}
	names, _, err := c.Children(ctx, path)
	if err != nil {
		t.Fatalf("list %s: %v", path, err)
	}
	slices.Sort(names)
	for _, name := range names {
		lines = append(lines, znodeLines(t, c, strings.TrimSuffix(path, "/")+"/"+name)...)
	}
	return lines
}

// logLines lists the last index in a data directory, which nobody has open.
func logLines(t *testing.T, folder string) []string {
	t.Helper()
	var text bytes.Buffer
	if err := storage.Describe(&text, storage.OS{}, folder); err != nil {
		t.Fatal(err)
	}
	entries := regexp.MustCompile(`\n    entry (\d+) term (\d+)`).FindAllStringSubmatch(text.String(), -1)
	if entries == nil {
		t.Fatalf("no entries in the log:\n%s", &text)
	}
	last := entries[len(entries)-1]
	return []string{fmt.Sprintf("log %s ends at index %s term %s", filepath.Base(folder), last[1], last[2])}
}

// sessionLine says how to resume a session.
func sessionLine(s zk.Session) string {
	return fmt.Sprintf("session %#x timeout %v password %x", uint64(s.ID), s.Timeout, s.Passwd)
}

// sessionsIn reads the sessions of a listing.
func sessionsIn(t *testing.T, lines []string) (all []zk.Session) {
	t.Helper()
	for _, line := range lines {
		if !strings.HasPrefix(line, "session ") {
			continue
		}
		var s zk.Session
		var id uint64
		var timeout string
		_, err := fmt.Sscanf(line, "session %v timeout %s password %x", &id, &timeout, &s.Passwd)
		d, err2 := time.ParseDuration(timeout)
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("read the listing, line %q: %v", line, err)
		}
		s.ID, s.Timeout = int64(id), d
		all = append(all, s)
	}
	return all
}

// compare reports the lines that two listings don't share.
func compare(t *testing.T, got, want []string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not in the listing: %s", line)
		}
	}
}

// having returns the lines that begin with one of the words.
func having(lines []string, words ...string) (some []string) {
	for _, line := range lines {
		if word, _, _ := strings.Cut(line, " "); slices.Contains(words, word) {
			some = append(some, line)
		}
	}
	return some
}
