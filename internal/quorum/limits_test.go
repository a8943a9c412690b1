package quorum

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
)

// TestReasonOfARefusal: a long reason is cut when it is sent, and what claims to be
// longer is no answer.
func TestReasonOfARefusal(t *testing.T) {
	var b bytes.Buffer
	if err := writeAnswer(&b, strings.Repeat("x", 2*reasonMax)); err != nil {
		t.Fatal(err)
	}
	var refused *refusedError
	if err := readAnswer(&b); !errors.As(err, &refused) || len(refused.reason) != reasonMax {
		t.Errorf("a long reason arrives as %v", err)
	}
	b.Write([]byte{0, 0, 4, 1})
	b.WriteString(strings.Repeat("x", reasonMax+1))
	if err := readAnswer(&b); err == nil || errors.As(err, &refused) && len(refused.reason) > reasonMax {
		t.Errorf("a reason of %d bytes is read: %v", reasonMax+1, err)
	}
}

// TestSendQueueIsBounded fills what waits for a peer: the next frame is dropped,
// and the connection closed, so that all of it is made anew.
func TestSendQueueIsBounded(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	r := &remote{up: true, conn: here}
	r.ready.L = &r.mu
	const head = 5 // of a frame
	if !r.send(FrameRaft, make([]byte, sendQueueBytesMax-head)) {
		t.Fatal("a frame within the limit is dropped")
	}
	if r.send(FrameRaft, []byte{0}) {
		t.Error("a frame beyond the limit is queued")
	}
	if _, err := here.Write([]byte{0}); err == nil {
		t.Error("the connection goes on")
	}
}
