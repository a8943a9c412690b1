package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// exitSignal plus the number of a signal is the exit code of a command that the signal has ended.
	exitSignal = 128
	// signalsApart is the least time between two interrupts: timeout(1) sends the same one to a process and its group.
	signalsApart = 100 * time.Millisecond
)

// Interruptible returns a context that ends at the first of the signals, so that a command ends in an orderly way. If
// left is set, a second signal ends the process at once, after a line with what left returns: the state that is left.
// SIGHUP doesn't count as a second one, since a lost terminal may send it more than once.
func Interruptible(signals []os.Signal, left func() string, to io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	got, ended := make(chan os.Signal, 16), make(chan struct{}) // room for several: what finds no room is lost
	signal.Notify(got, signals...)
	go func() {
		var first time.Time
		for {
			select {
			case <-ended:
				return
			case s := <-got:
				number, ok := s.(syscall.Signal)
				switch {
				case first.IsZero():
					first = time.Now()
					cancel()
				case ok && left != nil && number != syscall.SIGHUP && time.Since(first) >= signalsApart:
					fmt.Fprintf(to, "\n%s\n", Visible(left()))
					os.Exit(exitSignal + int(number))
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		close(ended)
		cancel()
	}
}
