package server

import (
	"log/slog"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
)

// slowStages logs the stages that took as long as a slow request (log.slowRequestMs). The replica logs the stages of a
// request that it sees. Taking in and sending happen here, for many requests at once, and are logged separately.
type slowStages struct {
	log  *slog.Logger  // limited in rate
	slow time.Duration // 0 for never
}

func (s *slowStages) isSlow(took time.Duration) bool { return s.slow > 0 && took >= s.slow }

// tookIn notes that size bytes of a client's requests were taken in, which took the time took.
func (s *slowStages) tookIn(c *replica.Client, size int, took time.Duration) {
	if s.isSlow(took) {
		s.log.Warn("a client's requests were accepted slowly", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "bytes", size, "decodeMs", took.Milliseconds())
	}
}

// wrote notes a write of size bytes, begun at the time began, that had to wait for the client to
// read.
func (s *slowStages) wrote(c *replica.Client, size int, began time.Time) {
	if took := time.Since(began); s.isSlow(took) {
		s.log.Warn("a client was slow to read its answers", "client", c.Remote(),
			"session", replica.SessionText(c.Session()), "bytes", size, "sendMs", took.Milliseconds())
	}
}
