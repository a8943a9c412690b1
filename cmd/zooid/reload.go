//go:build unix

package main

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
)

// reloadable are the keys that a reload puts in force. All others need a restart.
var reloadable = []string{"maxClientCnxns", "maxCnxns", "4lw.commands.whitelist", "log.level"}

// A reloader reads a server's configuration again, and puts in force what can be changed
// while it runs: the keys in reloadable, and what is in the key and trust stores.
type reloader struct {
	args  []string
	log   *slog.Logger
	level *slog.LevelVar // of log; nil for one that doesn't change

	mu     sync.Mutex
	began  *config.Config // what the server was started with
	now    *config.Config // what was read last
	stores []server.Stores
	server *server.Server // nil while there is none
}

// newReloader returns one, nil for a server without a configuration file.
func newReloader(args []string, cfg *config.Config, o *server.Options, log *slog.Logger) *reloader {
	if cfg.File == "" {
		return nil
	}
	return &reloader{args: args, log: log, began: cfg, now: cfg, stores: slices.Clone(o.Stores)}
}

// add adds stores that are to be read again, too. A nil reloader ignores it.
func (r *reloader) add(s server.Stores) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stores = append(r.stores, s)
	}
}

// setsLevelOf makes a changed log.level count for the log. A nil reloader ignores it.
func (r *reloader) setsLevelOf(level *slog.LevelVar) {
	if r != nil {
		r.level = level
	}
}

// serve makes s the server whose settings are changed, and gives it those read last.
func (r *reloader) serve(s *server.Server) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = s
	s.SetLimits(limits(r.now))
}

// limits are the settings of cfg that can be changed while a server runs.
func limits(cfg *config.Config) server.Limits {
	return server.Limits{
		MaxClientConnections: cfg.Limits.MaxClientCnxns, MaxConnections: cfg.Limits.MaxCnxns, FourLetterWords: words(cfg.FourLetter),
	}
}

// reload reads the configuration and the stores again. A configuration that can't be read
// changes nothing; of the stores each is read for itself.
func (r *reloader) reload() (admin.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var why strings.Builder
	cfg, _ := serverConfig(r.args, io.Discard, &why)
	if cfg == nil {
		err := errors.New("the configuration can't be read again, and nothing is changed: " + strings.TrimSpace(why.String()))
		r.log.Error("reload failed", "err", err, "code", "ZD-1040")
		return admin.Reloaded{}, err
	}
	var done admin.Reloaded
	for _, key := range config.Changed(r.now, cfg) {
		if slices.Contains(reloadable, key) {
			done.InForce = append(done.InForce, key)
		}
	}
	for _, key := range config.Changed(r.began, cfg) {
		if !slices.Contains(reloadable, key) {
			done.NeedRestart = append(done.NeedRestart, key)
		}
	}
	if r.level != nil && slices.Contains(done.InForce, "log.level") {
		r.level.Set(logLevel(cfg.Log.Level))
	}
	r.now = cfg
	if r.server != nil {
		r.server.SetLimits(limits(cfg))
	}
	var failed []error
	for _, s := range r.stores {
		if err := s.Refresh(); err != nil {
			failed = append(failed, errors.New(s.Of+": "+err.Error()))
			continue
		}
		done.InForce = append(done.InForce, "key and trust stores of the "+s.Of)
	}
	err := errors.Join(failed...)
	if err != nil {
		r.log.Error("reload: stores can't be used; those read before stay in use", "err", err, "code", "ZD-1227")
	}
	r.log.Info("the configuration was read again", "inForce", done.InForce, "needRestart", done.NeedRestart)
	return done, err
}
