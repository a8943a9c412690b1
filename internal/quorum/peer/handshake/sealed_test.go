package handshake

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// tapped keeps what is written, and what is read.
type tapped struct {
	net.Conn
	wrote, read []byte
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	return n, err
}

func (c *tapped) Write(b []byte) (int, error) {
	c.wrote = append(c.wrote, b...)
	return c.Conn.Write(b)
}

// discarding writes nowhere.
type discarding struct{ net.Conn }

func (discarding) Write(b []byte) (int, error) { return len(b), nil }

// sealedPair returns both ends of a sealed connection, and what is between them.
func sealedPair(t *testing.T) (from, to *Sealed, wire *tapped, deliver net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	wire = &tapped{Conn: discarding{near}}
	psk, shared, sum := []byte("secret"), []byte("shared"), []byte("transcript")
	from, err := newSealed(wire, psk, shared, sum, true)
	if err != nil {
		t.Fatal(err)
	}
	to, err = newSealed(far, psk, shared, sum, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return from, to, wire, near
}

// TestSealedRecords changes, drops, repeats and swaps records on their way: nothing
// of it is read as if it had been written.
func TestSealedRecords(t *testing.T) {
	t.Parallel()
	records := func(t *testing.T, unveiled bool) (to *Sealed, deliver net.Conn, list [][]byte) {
		from, to, wire, deliver := sealedPair(t)
		if unveiled {
			from.Unveil()
			to.Unveil()
		}
		for _, text := range []string{"first", "second", "third"} {
			wire.wrote = nil
			if _, err := from.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(wire.wrote, []byte(text)) != unveiled {
				t.Errorf("%q is on the wire as %q", text, wire.wrote)
			}
			list = append(list, wire.wrote)
		}
		return to, deliver, list
	}
	for name, change := range map[string]func(r [][]byte) [][]byte{
		"none":         func(r [][]byte) [][]byte { return r },
		"a bit":        func(r [][]byte) [][]byte { r[1][recordHead] ^= 1; return r },
		"the tag":      func(r [][]byte) [][]byte { r[1][len(r[1])-1] ^= 1; return r },
		"one dropped":  func(r [][]byte) [][]byte { return r[1:] },
		"one repeated": func(r [][]byte) [][]byte { return [][]byte{r[0], r[0], r[1], r[2]} },
		"two swapped":  func(r [][]byte) [][]byte { return [][]byte{r[1], r[0], r[2]} },
		"too long":     func(r [][]byte) [][]byte { r[0] = []byte{0xff, 0, 0, 0}; return r },
		"too short":    func(r [][]byte) [][]byte { r[0] = []byte{0, 0, 0, 1, 0}; return r },
		"cut":          func(r [][]byte) [][]byte { return [][]byte{r[0], r[1][:10]} },
	} {
		for _, unveiled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/unveiled=%v", name, unveiled), func(t *testing.T) {
				to, deliver, list := records(t, unveiled)
				go func() {
					deliver.Write(bytes.Join(change(list), nil))
					deliver.Close()
				}()
				got, err := io.ReadAll(to)
				if !strings.HasPrefix("firstsecondthird", string(got)) {
					t.Errorf("%q is read", got)
				}
				if name == "none" && string(got) != "firstsecondthird" {
					t.Errorf("%q is read, %v", got, err)
				}
				if name != "none" && name != "cut" && !errors.Is(err, errForged) {
					t.Errorf("after %q: %v", got, err)
				}
			})
		}
	}
}

// TestSealedCarriesAll: bytes of any number arrive as they were written.
func TestSealedCarriesAll(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dice := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(dice.Uint32())
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		s, _ := newSealed(c, []byte("s"), []byte("d"), []byte("t"), false)
		s.Unveil()
		for b := data; len(b) > 0; {
			n := min(len(b), 1+dice.IntN(recordSizeMax*5))
			if _, err := s.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, _ := newSealed(c, []byte("s"), []byte("d"), []byte("t"), true)
	s.Unveil()
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
}
