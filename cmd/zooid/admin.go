//go:build unix

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
)

// startAdmin starts the admin server. It returns nil if the configuration turns it off.
func startAdmin(cfg *config.Config, args []string, again *reloader, of *server.Options, log *slog.Logger,
	pages map[string]http.Handler) (*admin.Admin, error) {
	if !cfg.Admin.Enabled {
		return nil, nil
	}
	o, err := adminOptions(cfg, again, of, log)
	if err != nil {
		return nil, err
	}
	if again != nil {
		o.Reload = again.reload
	}
	if cfg.File != "" {
		text, err := os.ReadFile(cfg.File)
		if err != nil {
			return nil, fmt.Errorf("read the configuration for the admin server: %w", err)
		}
		o.Configuration = config.Redact(string(text))
	}
	o.Properties, o.Pages = properties(args), pages
	o.Bind = socket.Binder{Retries: of.BindRetries, Stop: of.Stop, Waiting: socket.LogWaiting(log)}
	a, err := admin.Listen(o)
	if errors.Is(err, syscall.EADDRINUSE) {
		// It is the first port that a server opens: a second start on the same directory ends here.
		lock, locked := storage.OS{}.Lock(cfg.Storage.DataDir)
		if locked == nil {
			lock.Close()
		} else if !errors.Is(locked, os.ErrNotExist) {
			return nil, runbook.Errorf("ZD-1113", "open the data directory %s: %w", cfg.Storage.DataDir, locked)
		}
	}
	return a, err
}

// adminOptions returns the admin package's options for cfg. It adds the key and trust stores of the admin port to
// those of the server.
func adminOptions(cfg *config.Config, again *reloader, of *server.Options, log *slog.Logger) (admin.Options, error) {
	a := &cfg.Admin
	o := admin.Options{
		Address: net.JoinHostPort(a.Host, strconv.Itoa(a.Port)), CommandURL: a.CommandURL, IdleTimeout: a.IdleTimeout,
		ApacheSnapshot:   func(dir string) (string, int64, error) { return apacheSnapshot(&cfg.Storage, dir) },
		SnapshotDisabled: !a.Snapshot, RestoreDisabled: !a.Restore,
		Znodes: func(file string) ([]byte, error) {
			return apache.Znodes(file, cfg.Storage.DataDir, cfg.Storage.DataLogDir, server.RestoreBytesMax)
		}, RateInterval: a.RateInterval, DrainTimeout: a.DrainTimeout, Log: log,
		TokenFile: adminToken(cfg), Hosts: ownHosts(cfg),
	}
	if !a.PortUnification && !a.ForceHTTPS {
		return o, nil
	}
	port, err := keystore.NewPort(adminPortOptions(cfg, log))
	if err != nil {
		return o, runbook.Errorf("ZD-1226", "set up TLS for the admin server (ssl.quorum.* keys): %w", err)
	}
	for _, note := range port.Notes() {
		log.Warn("TLS for the admin server: "+note, "code", "ZD-1225")
	}
	stores := storesOf("admin server", port)
	again.add(stores)
	of.Stores = append(of.Stores, stores)
	o.TLS = &socket.TLS{Config: port.Config(), Plain: !a.ForceHTTPS, Check: port.Check}
	return o, nil
}

// ownHosts returns, in lower case, the configured names of this host and of the other servers' hosts, including
// additional names for callers.
func ownHosts(cfg *config.Config) []string {
	names := []string{strings.ToLower(cfg.Admin.Host)}
	for _, name := range cfg.Admin.HostNames {
		names = append(names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	for i := range cfg.Quorum.Members.Servers {
		for _, at := range cfg.Quorum.Members.Servers[i].Addrs {
			names = append(names, strings.ToLower(at.Host))
		}
	}
	return names
}

// adminToken returns the path of the file with the admin server's token.
func adminToken(cfg *config.Config) string {
	return filepath.Join(cfg.Storage.DataDir, admin.TokenScheme)
}

// apacheSnapshot writes the contents of the data directory as a snapshot file in Apache's format.
func apacheSnapshot(s *config.Storage, dir string) (file string, zxid int64, err error) {
	dirs := []string{s.DataDir}
	if s.DataLogDir != s.DataDir {
		dirs = append(dirs, s.DataLogDir)
	}
	done, err := apache.Export(apache.ExportOptions{Dirs: dirs, To: dir, Reconfigure: changeMembers})
	if err != nil {
		return "", 0, err
	}
	return filepath.Join(dir, files.Version2, fmt.Sprintf("snapshot.%x", done.Zxid)), done.Zxid, nil
}

// adminPortOptions returns the keystore package's options for the admin server, which uses the stores of the peer port.
func adminPortOptions(cfg *config.Config, log *slog.Logger) keystore.Options {
	o := portOptions(&cfg.Quorum.TLS.TLS, "admin server", log)
	o.VerifyClientHost = false // the certificate identifies the caller, which may be on any host
	o.ClientAuth = "none"
	if cfg.Admin.NeedClientAuth {
		o.ClientAuth = "need"
	}
	return o
}

// properties returns the properties given on the command line, which correspond to
// Java's system properties, without the values of secrets.
func properties(args []string) map[string]string {
	all := map[string]string{}
	for i, arg := range args {
		if arg == "-D" && i+1 < len(args) {
			arg += args[i+1]
		}
		if def, ok := strings.CutPrefix(arg, "-D"); ok {
			name, value, _ := strings.Cut(def, "=")
			if config.IsSecret(name) {
				value = "***"
			}
			all[name] = value
		}
	}
	delete(all, "")
	return all
}
