//go:build unix

package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// followLevel makes SIGUSR1 set the log to its most verbose level and SIGUSR2 restore
// the level it began with, until the returned function is called.
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
			level.Set(min(to, slog.LevelInfo)) // so that the next line is logged
			log.Info("a signal changes the level of the log", "signal", s.String(), "level", to.String())
			level.Set(to)
		}
	}()
	return func() {
		signal.Stop(came)
		close(came)
	}
}
