//go:build unix

package main

import (
	"log/slog"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/systemd"
)

// startPatience is how long the service manager waits for a server that is recovering or waiting
// for its peers. After that the server counts as started: the first of three servers can't serve
// before the second is started, which may happen only after the first counts as started.
const startPatience = 10 * time.Second

// A notifier reports the state of one server to the service manager.
type notifier struct {
	log   *slog.Logger
	once  sync.Once
	timer *time.Timer
}

// notifyStart begins the notifications of a start; ready and stopping follow.
func notifyStart(log *slog.Logger) *notifier {
	n := &notifier{log: log}
	n.timer = time.AfterFunc(startPatience, func() {
		n.started("recovering or waiting for peers; not serving clients yet")
	})
	return n
}

// ready reports that clients are accepted.
func (n *notifier) ready() {
	n.timer.Stop()
	n.started("")
	n.tell(systemd.Status("clients are accepted"))
}

// started reports, once, that the start is over.
func (n *notifier) started(status string) {
	n.once.Do(func() { n.tell(systemd.Ready, systemd.Status(status)) })
}

// stopping reports that the server is shutting down.
func (n *notifier) stopping() {
	n.timer.Stop()
	n.tell(systemd.Stopping)
}

func (n *notifier) tell(states ...string) {
	if err := systemd.Notify(states...); err != nil {
		n.log.Warn("the server can't report its state to the service manager", "err", err, "code", "ZD-1107")
	}
}
