package learner

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
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
		"half a proof":    {packet(authMagic, authSuccess, -1, ""), endless, "without proving"},
		"another magic":   {packet(7, authSuccess, 2, "ok"), endless, "doesn't support SASL"},
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

// TestAdmitEnds: what isn't a login, or proves nothing, isn't admitted, and costs little. Who fails is told.
func TestAdmitEnds(t *testing.T) {
	t.Parallel()
	packet := func(magic int64, size int32, token string) []byte {
		return append(jute.AppendInt(jute.AppendInt(jute.AppendLong(nil, magic), authProgress), size), token...)
	}
	endless := func([]byte) ([]byte, bool, error) { return []byte("x"), false, nil }
	begin := packet(authMagic, -1, "")
	for name, c := range map[string]struct {
		sends [][]byte
		step  func([]byte) ([]byte, bool, error)
		want  string // "" for a login that succeeds
		last  int32  // status of the last answer
	}{
		"a login":      {[][]byte{begin, packet(authMagic, 2, "ok")}, proves("ok"), "", authSuccess},
		"no proof":     {[][]byte{begin, packet(authMagic, 2, "no")}, proves("ok"), "no proof", authFailure},
		"no login":     {[][]byte{packet(7, 2, "ok")}, endless, ErrNoLogin.Error(), 7},
		"HTTP":         {[][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, endless, ErrNoLogin.Error(), 7},
		"a huge token": {[][]byte{packet(authMagic, authTokenBytesMax+1, "")}, endless, "more than", 7},
		"the largest": {
			[][]byte{packet(authMagic, authTokenBytesMax, strings.Repeat("x", authTokenBytesMax))}, endless, "no answer",
			authProgress,
		},
		"no end":          {[][]byte{begin, begin, begin, begin, begin, begin}, endless, "no end after 5", authProgress},
		"a token cut off": {[][]byte{packet(authMagic, 9, "x")}, endless, "EOF", 7},
		"silence":         {nil, endless, "EOF", 7},
	} {
		conn := &both{in: strings.NewReader(string(slices.Concat(c.sends...)))}
		err := admit(conn, c.step)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		last := int32(7) // none
		for answers := &conn.out; answers.Len() > 0; {
			status, _, err := readAuth(answers)
			if err != nil {
				t.Fatalf("%s: an answer: %v", name, err)
			}
			last = status
		}
		if last != c.last {
			t.Errorf("%s: the last answer has status %d; want %d", name, last, c.last)
		}
	}
}

// both is a connection to one who has sent everything already.
type both struct {
	in  io.Reader
	out bytes.Buffer
}

func (b *both) Read(p []byte) (int, error)  { return b.in.Read(p) }
func (b *both) Write(p []byte) (int, error) { return b.out.Write(p) }

// TestAdmitInTime: who says nothing on an open connection is given up.
func TestAdmitInTime(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	if err := Admit(here, proves("")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("silence: %v; want the end of %v", err, authTime)
	}
}
