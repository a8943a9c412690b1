//go:build !linux

package wire

import "context"

// Poll reads many connections, on these systems one after the other.
type Poll struct {
	conns []*Conn
	stop  func() bool
}

// NewPoll takes over the connections. Afterwards only Queue, Flush and Close may be called on them.
func NewPoll(ctx context.Context, conns []*Conn) (*Poll, error) {
	return &Poll{conns, context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.Net.Close()
		}
	})}, nil
}

// Each calls each with one frame from every connection i. It stops when ctx ends.
func (e *Poll) Each(ctx context.Context, each func(i int, frame []byte) error) error {
	for i, c := range e.conns {
		frame, err := c.Frame()
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

// Close ends the polling. It leaves the connections open.
func (e *Poll) Close() { e.stop() }
