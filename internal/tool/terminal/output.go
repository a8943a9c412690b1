package terminal

import (
	"io"
	"sync"
)

// An Output passes on what is written to it, and remembers the first error: most commands don't check each line that
// they print, and must not report success if it is lost. Several goroutines may write to it.
type Output struct {
	w io.Writer

	mu  sync.Mutex
	err error
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Unwrap returns the destination, which may be a terminal.
func (o *Output) Unwrap() io.Writer { return o.w }

// Write writes to the destination, and remembers the first error.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// Err returns the first error of a write.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
