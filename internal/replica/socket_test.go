package replica

import "time"

// hooked is a Socket that calls those of its functions that a test has set.
type hooked struct {
	acked func() bool
	abort func()
	rest  func(time.Duration)
	try   func([]byte) int
	Woken
}

func (h hooked) Wake() {}

func (h hooked) Acked() bool { return h.acked == nil || h.acked() }

func (h hooked) Abort() {
	if h.abort != nil {
		h.abort()
	}
}

func (h hooked) Rest(d time.Duration) {
	if h.rest != nil {
		h.rest(d)
	}
}

func (h hooked) Try(b []byte) int {
	if h.try == nil {
		return 0
	}
	return h.try(b)
}
