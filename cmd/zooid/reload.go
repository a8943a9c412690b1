//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/server"
)

// reloadable are the keys that a reload puts in force. All others need a restart.
var reloadable = []string{
	"maxClientCnxns", "maxCnxns", "limits.connection", "limits.address", "limits.identity", "limits.path",
	"4lw.commands.whitelist", "log.level",
	"DigestAuthenticationProvider.superDigest", "X509AuthenticationProvider.superUser", "superUser", "letAnySaslUserDoX",
}

// reloadableLogins are keys that a reload puts in force, with the users of the login file, if there is a login file.
var reloadableLogins = []string{
	"SASLAuthenticationProvider.superPassword", "sasl.enabled.mechanisms", "sasl.serverconfig",
	"security.auth_to_local", "kerberos.removeHostFromPrincipal", "kerberos.removeRealmFromPrincipal",
}

// A reloader reads a server's configuration again, and puts in force the parts that can
// be changed while it runs: the keys in reloadable, and the content of the key and trust
// stores.
type reloader struct {
	args  []string
	log   *slog.Logger
	level *slog.LevelVar // of log; nil for one that doesn't change

	mu     sync.Mutex
	began  *config.Config // the configuration at the server's start
	now    *config.Config // last read
	given  *config.Config // opened by the running server
	stores []server.Stores
	logins *sasl.Following // nil if there is no login file
	server *server.Server  // nil while there is none
}

// newReloader returns a reloader, or nil for a server without a configuration file.
func newReloader(args []string, cfg *config.Config, o *server.Options, log *slog.Logger) *reloader {
	if cfg.File == "" {
		return nil
	}
	r := &reloader{args: args, log: log, began: cfg, now: cfg, stores: slices.Clone(o.Stores)}
	r.logins, _ = o.SASL.Mechanism.(*sasl.Following)
	return r
}

// add adds stores for a reload to read again. It does nothing on a nil reloader.
func (r *reloader) add(s server.Stores) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stores = append(r.stores, s)
	}
}

// setsLevelOf makes a reload apply a changed log.level to level. It does nothing on a nil reloader.
func (r *reloader) setsLevelOf(level *slog.LevelVar) {
	if r != nil {
		r.level = level
	}
}

// serve makes s the server whose settings a reload changes, and applies the settings read last.
func (r *reloader) serve(s *server.Server) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = s
	if r.given == r.now {
		return // an entry may have panicked since, and after that the limits can't be set
	}
	s.SetLimits(limits(r.now))
	s.SetSuperusers(superusers(r.now))
}

// configure sets in o, for a server about to open, the settings read last. It does nothing on a nil reloader.
func (r *reloader) configure(o *server.Options) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = r.now
	l, u := limits(r.now), superusers(r.now)
	o.MaxClientConnections, o.MaxConnections, o.FourLetterWords, o.Serving.Limits = l.MaxClientConnections,
		l.MaxConnections, l.FourLetterWords, l.Clients
	o.Auth.SuperDigest, o.Auth.SASLSuperUsers, o.Auth.X509SuperUser, o.Auth.AnySASLUser = u.Digest, u.SASL, u.X509,
		u.AnySASL
}

// superusers returns the superusers of cfg.
func superusers(cfg *config.Config) auth.Superusers {
	a := &cfg.Auth
	return auth.Superusers{
		Digest: a.SuperDigest.Reveal(), SASL: a.SASLSuperUsers, X509: a.X509SuperUser, AnySASL: a.SASLAnyUser,
	}
}

// canReload reports whether a reload puts a key in force.
func (r *reloader) canReload(key string) bool {
	return slices.Contains(reloadable, key) || r.logins != nil && slices.Contains(reloadableLogins, key)
}

// clientLimits returns the client limits of cfg, which was read without an error.
func clientLimits(cfg *config.Config) [limit.Scopes]limit.Set {
	l := &cfg.Limits
	var sets [limit.Scopes]limit.Set
	for s, text := range [limit.Scopes]string{l.Connection, l.Address, l.Identity, l.Path} {
		sets[s], _ = limit.Parse(limit.Scope(s), text, limit.Default(limit.Scope(s)))
	}
	return sets
}

// limits returns the settings of cfg that can be changed while a server runs.
func limits(cfg *config.Config) server.Limits {
	return server.Limits{
		MaxClientConnections: cfg.Limits.MaxClientCnxns, MaxConnections: cfg.Limits.MaxCnxns,
		FourLetterWords: words(cfg.FourLetter),
		Clients:         clientLimits(cfg),
	}
}

// reload reads the configuration and the stores again. A configuration that can't be read
// changes nothing; each store is read independently of the others.
func (r *reloader) reload() (admin.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var why strings.Builder
	cfg, _ := serverConfig(r.args, io.Discard, &why)
	if cfg == nil {
		err := errors.New("the configuration can't be reloaded, and nothing changed: " + strings.TrimSpace(why.String()))
		r.log.Error("reload failed", "err", err, "code", "ZD-1040")
		return admin.Reloaded{}, err
	}
	var done admin.Reloaded
	for _, key := range config.Changed(r.now, cfg) {
		if r.canReload(key) {
			done.InForce = append(done.InForce, key)
		}
	}
	for _, key := range config.Changed(r.began, cfg) {
		if !r.canReload(key) && key != "dynamicConfigFile" { // which a running server writes itself (memberFiles)
			done.NeedRestart = append(done.NeedRestart, key)
		}
	}
	if r.level != nil && slices.Contains(done.InForce, "log.level") {
		r.level.Set(logLevel(cfg.Log.Level))
	}
	r.now = cfg
	failed := r.reloadLogins(&cfg.Auth, &done)
	for _, s := range r.stores {
		if err := s.Refresh(); err != nil {
			failed = append(failed, errors.New(s.Of+": "+err.Error()))
			continue
		}
		done.InForce = append(done.InForce, "key and trust stores of the "+s.Of)
	}
	err := errors.Join(failed...)
	if err != nil {
		r.log.Error("reload: some files can't be used; the previous content of stores and logins stays in use", "err", err, "code", "ZD-1227")
	}
	if r.server != nil {
		r.server.SetLimits(limits(cfg))
		r.server.SetSuperusers(superusers(cfg)) // also checks connected clients against the current stores and logins
	}
	r.log.Info("the configuration was reloaded", "inForce", done.InForce, "needRestart", done.NeedRestart)
	return done, err
}

// reloadLogins reads the login file again, if there was one at the start.
func (r *reloader) reloadLogins(a *config.Auth, done *admin.Reloaded) []error {
	if r.logins == nil {
		return nil
	}
	l, err := loginMechanism(a)
	if err == nil && l == nil {
		err = errors.New("it is missing, or has no section for the server; to turn off logins by SASL, restart the server")
	}
	if err != nil {
		return []error{fmt.Errorf("login file: %w", err)}
	}
	l.warn(r.log)
	r.logins.Replace(l.mechanism, l.secrets)
	done.InForce = append(done.InForce, "users of the login file")
	return nil
}
