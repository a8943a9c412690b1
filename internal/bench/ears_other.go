//go:build !linux

package bench

import "context"

// ears hear what comes on many connections: here one after the other.
type ears struct {
	conns []*conn
	stop  func() bool
}

// newEars takes the connections over: what is left of them then are queue, flush
// and close.
func newEars(ctx context.Context, conns []*conn) (*ears, error) {
	return &ears{conns, context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.net.Close()
		}
	})}, nil
}

// hear calls each with one frame that comes on every connection i, unless ctx ends.
func (e *ears) hear(ctx context.Context, each func(i int, frame []byte) error) error {
	for i, c := range e.conns {
		frame, err := c.frame()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = each(i, frame)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// close ends the hearing; the connections are still to be closed.
func (e *ears) close() { e.stop() }
