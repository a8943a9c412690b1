//go:build unix

package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// followLevel lets SIGUSR1 make the log tell everything and SIGUSR2 go back to the
// level it began with, until the function that it returns is called.
func followLevel(level *slog.LevelVar, log *slog.Logger) (end func()) {
	configured := level.Level()
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range came {
			to := configured
			if s == syscall.SIGUSR1 {
				to = slog.LevelDebug
			}
			level.Set(min(to, slog.LevelInfo)) // so that the next line is seen
			log.Info("a signal changes the level of the log", "signal", s.String(), "level", to.String())
			level.Set(to)
		}
	}()
	return func() {
		signal.Stop(came)
		close(came)
	}
}
