package learner

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestLoginEnds: what a server answers to a login that isn't one ends it, and costs little.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	packet := func(magic int64, status, size int32, token string) []byte {
		return append(jute.AppendInt(jute.AppendInt(jute.AppendLong(nil, magic), status), size), token...)
	}
	endless := func([]byte) ([]byte, bool, error) { return []byte("x"), false, nil }
	for name, c := range map[string]struct {
		answer []byte // to each packet
		step   func([]byte) ([]byte, bool, error)
		want   string // "" for a login that succeeds
	}{
		"a login":         {packet(authMagic, authSuccess, 2, "ok"), proves("ok"), ""},
		"no proof":        {packet(authMagic, authSuccess, 2, "no"), proves("ok"), "no proof"},
		"half a proof":    {packet(authMagic, authSuccess, -1, ""), endless, "hasn't proved"},
		"another magic":   {packet(7, authSuccess, 2, "ok"), endless, "doesn't speak SASL"},
		"refused":         {packet(authMagic, -1, 0, ""), endless, "refuses"},
		"a huge token":    {packet(authMagic, authProgress, authTokenBytesMax+1, ""), endless, "more than"},
		"no end":          {packet(authMagic, authProgress, 1, "x"), endless, "no end after"},
		"a token cut off": {packet(authMagic, authProgress, 9, "x"), endless, "EOF"},
		"silence":         {nil, endless, "EOF"},
	} {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			buffer := make([]byte, 1<<10)
			for {
				if _, err := there.Read(buffer); err != nil || c.answer == nil {
					return
				}
				if _, err := there.Write(c.answer); err != nil || strings.HasPrefix(name, "a token") {
					return
				}
			}
		}()
		err := Login(here, c.step)
		here.Close()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, _, err := readAuth(strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short packet: %v", err)
	}
}

// proves is a mechanism that begins with an empty token and wants one proof.
func proves(proof string) func([]byte) ([]byte, bool, error) {
	begun := false
	return func(token []byte) ([]byte, bool, error) {
		if !begun {
			begun = true
			return []byte{}, false, nil
		}
		if string(token) != proof {
			return nil, false, errors.New("no proof")
		}
		return nil, true, nil
	}
}
