package socket

import (
	"errors"
	"iter"
	"net"
	"time"
)

// The waits after a failed accept: another attempt would fail at once, most likely because there are no descriptors
// left. Some connections must close first.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Accepted yields the connections that l accepts, until l is closed, or done is and an accept fails. It calls failed,
// which may be nil, after each other failed accept.
func Accepted(l net.Listener, done <-chan struct{}, failed func(error)) iter.Seq[net.Conn] {
	return func(yield func(net.Conn) bool) {
		pause := acceptPauseMin
		for {
			nc, err := l.Accept()
			if err == nil {
				if pause = acceptPauseMin; !yield(nc) {
					return
				}
				continue
			}
			select {
			case <-done:
				return
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if failed != nil {
				failed(err)
			}
			select {
			case <-done:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, acceptPauseMax)
		}
	}
}
