//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/serverid"
)

// TestServerZeroInMessages logs what the packages below say of server 0, in both formats.
func TestServerZeroInMessages(t *testing.T) {
	id := serverid.Raft(0)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, _ := newLog(&config.Log{Format: format}, &out)
		log.Info("a peer is reached", "peer", id, "others", []uint64{1, id}, "err", fmt.Errorf("server %d is there", id),
			"bytes", uint64(7))
		text := out.String()
		for _, want := range map[string][]string{
			"text": {"peer=0 ", `others="[1 0]"`, `err="server 0 is there"`, "bytes=7"},
			"json": {`"peer":0,`, `"err":"server 0 is there"`, `"bytes":7`},
		}[format] {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s\nwant %s", format, text, want)
			}
		}
	}
	if text := errorText(errors.Join(fmt.Errorf("server %d left", id))); !strings.Contains(text, "server 0 left") {
		t.Error(text)
	}
}
