package wordclient

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// answering listens, and answers each connection after its word has arrived.
func answering(t *testing.T, answer func(c net.Conn, word string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				word := make([]byte, 4)
				io.ReadFull(c, word)
				answer(c, string(word))
			}()
		}
	}()
	return l.Addr().String()
}

// TestWord asks servers that answer, that send nothing, and that stop in the middle.
func TestWord(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	at := answering(t, func(c net.Conn, word string) {
		switch word {
		case "ruok":
			io.WriteString(c, "imok")
		case "busy":
			io.WriteString(c, Busy)
		case "mute":
			<-held
		case "half":
			io.WriteString(c, "half")
			<-held
		}
	})
	for word, want := range map[string]struct {
		answer string
		err    error
	}{
		"ruok": {"imok", nil}, "none": {"", ErrNoAnswer}, "busy": {Busy, ErrBusy},
		"mute": {"", os.ErrDeadlineExceeded}, "half": {"half", os.ErrDeadlineExceeded},
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			// Where the word is given up, the server must have the time for its part of the answer: more on a busy machine.
			for patience := time.Second; ; patience *= 2 {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				answer, err := Word(ctx, nil, at, word, 100)
				cancel()
				if answer == want.answer && errors.Is(err, want.err) {
					return
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) || patience > time.Minute {
					t.Fatalf("%q, %v; want %q, %v", answer, err, want.answer, want.err)
				}
			}
		})
	}
}

// TestWordIsBounded: a reply longer than the limit is an error, and dial decides how the server is reached.
func TestWordIsBounded(t *testing.T) {
	t.Parallel()
	at := answering(t, func(c net.Conn, _ string) { c.Write(make([]byte, 1000)) })
	dialled := ""
	dial := func(ctx context.Context, server string) (net.Conn, error) {
		dialled = server
		return plain(ctx, at)
	}
	for most, whole := range map[int]bool{999: false, 1000: true} {
		answer, err := Word(t.Context(), dial, "elsewhere", "mntr", most)
		if len(answer) != most || (err == nil) != whole || dialled != "elsewhere" {
			t.Errorf("%d of %d bytes of %s, %v", len(answer), most, dialled, err)
		}
	}
}
