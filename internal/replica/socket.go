package replica

import (
	"runtime"
	"time"
)

// A Socket is what a Client requires of the connection below it. Wake, Abort, Tries, Delivered and Acked may be called
// with the client locked. They must neither block nor call the client.
type Socket interface {
	// Wake makes some goroutine take the output. It is called while no goroutine is flushing.
	Wake()
	// Tries reports whether output may be written without blocking. If it may not, Try and Push do nothing.
	Tries() bool
	// Try writes as much as it can without blocking, and returns the number of bytes written. Only the flushing goroutine
	// calls it.
	Try(out []byte) int
	// Push does Wake's work on the caller's goroutine, as far as possible without blocking or long reads. It is called
	// without the client locked, after flushing was set.
	Push()
	// Rest waits on the flushing goroutine before the next step of long reads.
	Rest(d time.Duration)
	// Abort ends the connection at once, even in the middle of a write.
	Abort()
	// Delivered returns how many bytes the other end has received so far, and false if that isn't known.
	Delivered() (uint64, bool)
	// Acked reports whether the other end is known to have received everything written so far.
	Acked() bool
}

// Woken is the Socket of a client without a connection of its own: calling it makes some goroutine take the output.
type Woken func()

// Wake calls w.
func (w Woken) Wake() { w() }

// Tries returns false.
func (Woken) Tries() bool { return false }

// Try does nothing.
func (Woken) Try([]byte) int { return 0 }

// Push does nothing.
func (Woken) Push() {}

// Rest lets other goroutines run.
func (Woken) Rest(time.Duration) { runtime.Gosched() }

// Abort does nothing: the goroutine that takes the output learns that the connection is ending.
func (Woken) Abort() {}

// Delivered returns false.
func (Woken) Delivered() (uint64, bool) { return 0, false }

// Acked returns true.
func (Woken) Acked() bool { return true }
