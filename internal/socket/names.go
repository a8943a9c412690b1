package socket

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// A Binder listens at addresses whose hosts may be names. A name's record may appear or be corrected after the server
// has started, for example when a machine boots before its DNS, or when a container gets a new address. Then Listen
// tries again. If another process uses the address, or if the host is an address, a failure is an error at once.
type Binder struct {
	// Config opens the listeners.
	Config net.ListenConfig
	// Retries is how often Listen tries again. If it is negative, Listen tries until Stop is closed.
	Retries int
	// Stop makes Listen return when it is closed. It may be nil.
	Stop <-chan struct{}
	// Waiting is called once by each Listen that tries again. It may be nil.
	Waiting func(addr string, err error)

	open  func(addr string) (net.Listener, error) // for tests; nil for Config
	pause time.Duration                           // for tests; 0 for bindPause
}

// bindPause is the time between two attempts, as in Apache.
const bindPause = time.Second

// Listen listens for TCP connections at addr. While the name isn't known, it blocks and tries again, as often as
// Retries says.
func (b *Binder) Listen(addr string) (net.Listener, error) {
	open, pause := b.open, b.pause
	if open == nil {
		open = func(addr string) (net.Listener, error) { return b.Config.Listen(context.Background(), "tcp", addr) }
	}
	pause = cmp.Or(pause, bindPause)
	again := time.NewTicker(pause)
	defer again.Stop()
	for tried := 0; ; tried++ {
		l, err := open(addr)
		if err == nil || !notYetNamed(addr, err) || b.Retries >= 0 && tried >= b.Retries {
			return l, err
		}
		if tried == 0 && b.Waiting != nil {
			b.Waiting(addr, err)
		}
		select {
		case <-again.C:
		case <-b.Stop:
			return nil, err
		}
	}
}

// notYetNamed reports whether err may disappear once DNS has the present address of addr's host.
func notYetNamed(addr string, err error) bool {
	host, _, splitErr := net.SplitHostPort(addr)
	if splitErr != nil || host == "" || net.ParseIP(host) != nil {
		return false
	}
	var unknown *net.DNSError
	return errors.As(err, &unknown) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// LogWaiting returns a function for Binder.Waiting that logs a warning.
func LogWaiting(log *slog.Logger) func(addr string, err error) {
	return func(addr string, err error) {
		log.Warn("the name of a listening address doesn't resolve yet, or is that of another machine; the server tries again every second",
			"address", addr, "err", err, "code", "ZD-1150")
	}
}
