package server

import (
	"time"

	"github.com/zooid-project/zooid/internal/replica"
)

// slow reports whether a stage took as long as a slow request (log.slowRequestMs). The replica logs
// the stages of a request that it sees. Taking in and sending happen here, for many requests at
// once, and are logged separately.
func (s *Server) slow(took time.Duration) bool {
	return s.opt.SlowRequest > 0 && took >= s.opt.SlowRequest
}

// tookIn notes that size bytes of a client's requests were taken in, which took the time took.
func (s *Server) tookIn(c *replica.Client, size int, took time.Duration) {
	s.meters.Stages.Decode.Observe(took.Nanoseconds())
	if s.slow(took) {
		s.slowLog.Warn("a client's requests were accepted slowly", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "bytes", size, "decodeMs", took.Milliseconds())
	}
}

// wrote notes a write of size bytes, begun at the time began, that had to wait for the client to
// read.
func (s *Server) wrote(c *replica.Client, size int, began time.Time) {
	if took := time.Since(began); s.slow(took) {
		s.slowLog.Warn("a client was slow to read its answers", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "bytes", size, "sendMs", took.Milliseconds())
	}
}
