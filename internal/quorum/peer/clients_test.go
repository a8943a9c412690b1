package peer

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestClientAddresses: what a peer tells of its client ports is taken if it is an address, in which a missing host is
// that by which the peer is reached; a hostile peer's text reaches no list.
func TestClientAddresses(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]ClientAddresses{
		":2181\n":                          {"zk2:2181", ""},
		"\n:2281":                          {"", "zk2:2281"},
		"10.0.0.1:2181\n[fd00::1]:2281":    {"10.0.0.1:2181", "[fd00::1]:2281"},
		"":                                 {},
		"\n\n\n":                           {},
		"zk2\n:0":                          {},
		":65536\n:-1":                      {},
		"a,9=b:1\na=b:1":                   {},
		"a\tb:1\na b:1":                    {},
		"\x1b[31m:1\n\xff:1":               {},
		strings.Repeat("a", 1000) + ":1\n": {strings.Repeat("a", 1000) + ":1", ""},
	} {
		if got := readClientAddresses([]byte(told), "zk2:2888"); got != want {
			t.Errorf("%.40q: %v, want %v", told, got, want)
		}
	}
	long := ClientAddresses{Plain: strings.Repeat("a", quorum.NoteSizeMax)}
	if payload := long.append(nil); len(payload) > 0 {
		t.Errorf("a note of %d bytes", len(payload))
	}
	var heard []string
	notes := append(appendFrameHead(nil, noteClients, 6), ":2181\n"...)
	err := readNotes(bytes.NewReader(notes), func(quorum.Event) { t.Error("an event") },
		func(uint64) { t.Error("a lineage") }, func(b []byte) { heard = append(heard, string(b)) })
	if err != io.EOF || len(heard) != 1 || heard[0] != ":2181\n" {
		t.Errorf("%v, %q", err, heard)
	}
}
