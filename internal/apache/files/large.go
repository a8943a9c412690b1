package files

import "fmt"

// LargeZnodes are those with more data than a request may have by default, which an Apache server with a larger
// jute.maxbuffer has taken. The jute.maxbuffer of the Zooid server isn't known: it is a property on the server's
// command line.
type LargeZnodes struct {
	n       int
	largest int    // bytes
	path    string // of the largest
}

const (
	maxBufferDefault = 0xfffff // jute.maxbuffer of Apache's servers, clients and Zooid
	maxBufferMost    = 16 << 20
)

// Note counts a znode if it is large.
func (l *LargeZnodes) Note(z *Znode) error {
	if size := len(z.Data); size > maxBufferDefault {
		l.n++
		if size > l.largest {
			l.largest, l.path = size, z.Path
		}
	}
	return nil
}

// String says what to do, or "".
func (l *LargeZnodes) String() string {
	if l.n == 0 {
		return ""
	}
	text := fmt.Sprintf("%d znodes have more data than jute.maxbuffer, %d bytes by default: the largest, %s, has %d. Clients can read them, but can't write data of this size unless the Zooid servers are started with -Djute.maxbuffer, as Apache's were",
		l.n, maxBufferDefault, l.path, l.largest)
	if l.largest > maxBufferMost {
		text += fmt.Sprintf("; Zooid's may be at most %d", maxBufferMost)
	}
	return text
}
