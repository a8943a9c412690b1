//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tree"
)

const serverHelp = `usage: zooid server [zoo.cfg] [-D name=value]…
       zooid server PORT DATADIR [TICKTIME [MAXCLIENTCNXNS]] [-D name=value]…

Runs a server in the foreground until SIGTERM or SIGINT. On SIGHUP it rereads its
zoo.cfg, and logs which settings have taken effect and which need a restart. Without a
file, it serves 127.0.0.1:2181 from ./zooid-data.

zoo.cfg is read as Apache ZooKeeper reads it; -D sets Apache's system properties
(zookeeper.extendedTypesEnabled=false). Options that only a JVM understands are
ignored with a warning.
`

// runServer runs a server until it is told to stop. It exits with 0 after
// SIGTERM, 1 if it can't start or must stop, 2 for wrong arguments.
func runServer(args []string, stdout, stderr io.Writer) int {
	cfg, code := serverConfig(args, stdout, stderr)
	if cfg == nil {
		return code
	}
	log, level := newLog(&cfg.Log, stderr)
	for _, w := range cfg.Warnings {
		log.Warn(w.String(), "code", w.Code)
	}
	logRisks(cfg, log)
	warnOfVariables(cfg, os.Getenv, log)
	opt, err := serverOptions(cfg, log)
	if err == nil {
		err = checkDirs(&cfg.Storage, !cfg.Quorum.Distributed)
	}
	var seen *observers
	if err == nil {
		seen, err = observe(cfg, &opt, log)
	}
	if err != nil {
		return cantStart(err, stderr)
	}
	defer seen.close()
	trail, err := beginTrail(cfg, &opt, stderr)
	if err != nil {
		return cantStart(err, stderr)
	}
	defer trail.end()
	defer followLevel(level, log)()
	addProcessor()
	again := newReloader(args, cfg, &opt, log)
	again.setsLevelOf(level)
	stop, cancel := stopSignals(log, again)
	defer cancel()
	opt.Stop = stop.Done()
	logStart(log, cfg, &opt)
	adm, err := startAdmin(cfg, args, again, &opt, log, map[string]http.Handler{metricsPath: &seen.metrics})
	if err != nil {
		return cantStart(err, stderr)
	}
	defer adm.Close()
	told := notifyStart(log)
	defer told.stopping()
	for {
		again.configure(&opt)
		if opt.JoinsOnly, err = joinsOnly(&cfg.Storage); err != nil {
			return cantStart(err, stderr)
		}
		s, err := server.Open(opt)
		if err != nil && stop.Err() != nil {
			return 0 // stopped while it was waiting for its peers
		}
		healed, healing := heal(opt, err, time.Now())
		if healed {
			continue
		}
		trail.opened(err)
		if err = errors.Join(err, healing); err != nil {
			return cantStart(err, stderr)
		}
		if err := removeInitialize(&cfg.Storage); err != nil {
			log.Warn("the server has started, but can't remove the file initialize, which permits a start with an empty tree",
				"err", err, "code", "ZD-1122")
		}
		told.ready()
		seen.opened(s)
		runs, ended := context.WithCancel(stop)
		go pollStores(runs.Done(), storesPoll, opt.Secure.TLS, opt.PeerTLS.Server)
		again.serve(s)
		adm.Serve(s)
		go logServing(runs, log, s) // last: its line says that the server is ready, at the admin server too
		select {
		case <-stop.Done():
			told.stopping()
			err = s.Close()
		case err = <-s.Failed():
			if panicked := (*server.PanicError)(nil); errors.As(err, &panicked) {
				log.Error("the server ended with an error", "err", err, "code", cmp.Or(runbook.Code(coded(err)), "ZD-2004"))
				ended()
				return 1 // without Close, which would wait for goroutines that wait for the state
			}
			if stalled := (*server.StallError)(nil); errors.As(err, &stalled) {
				log.Error("the server ended with an error", "err", err, "code", cmp.Or(runbook.Code(coded(err)), "ZD-2004"))
				ended()
				return exitStalled // without Close, which would wait for the disk
			}
			s.Close()
		}
		ended()
		adm.Serve(nil)
		healed, healing = heal(opt, err, time.Now())
		if err = errors.Join(err, healing); err == nil {
			return 0
		}
		if !healed {
			log.Error("the server ended with an error", "err", err, "code", cmp.Or(runbook.Code(coded(err)), "ZD-2004"))
			return 1
		}
	}
}

// exitStalled is the exit code of a server that ended because its log's disk hangs: EX_IOERR of sysexits.h.
const exitStalled = 74

// cantStart reports why the server can't start, and returns the exit code.
func cantStart(err error, stderr io.Writer) int {
	if err = coded(err); runbook.Code(err) == "" {
		err = runbook.Errorf("ZD-1100", "%w", err)
	}
	fmt.Fprintln(stderr, "zooid server:", errorText(err))
	return 1
}

// stopSignals returns a context that ends with the first signal that asks the server to
// stop; the log then names the signal. SIGHUP makes a server with a configuration file
// read it again. On a terminal, or without a file, SIGHUP means that the terminal is
// gone, and stops the server unless it was started with nohup.
func stopSignals(log *slog.Logger, again *reloader) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) || again != nil {
		signals = append(signals, syscall.SIGHUP)
	}
	reloads := again != nil && !terminal.Is(os.Stdin)
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		defer signal.Stop(came)
		for {
			select {
			case s := <-came:
				if s == syscall.SIGHUP && reloads {
					again.reload() // reload logs its own result
					continue
				}
				log.Info("stopping: a signal asked for it", "signal", s.String())
				cancel()
			case <-ctx.Done():
			}
			return
		}
	}()
	return ctx, cancel
}

// logStart logs which version starts with which configuration: the first thing to know
// when reading a log.
func logStart(log *slog.Logger, cfg *config.Config, o *server.Options) {
	file := cmp.Or(cfg.File, "none")
	log.Info("starting zooid", "version", zooidVersion(), "configuration", file, "id", o.ID,
		"servers", max(len(o.Members), 1), "dataDir", o.DataDir, "dataLogDir", o.LogDir)
}

// logServing logs the state with which a server begins to serve. By then the server has applied its whole log.
func logServing(ctx context.Context, log *slog.Logger, s *server.Server) {
	look := time.NewTicker(servingLook)
	defer look.Stop()
	for !s.Status().Serving {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
	st := s.Status()
	log.Info("serving", "as", st.Mode, "zxid", fmt.Sprintf("0x%x", uint64(st.Zxid)), "znodes", st.Nodes,
		"sessions", st.GlobalSessions)
	select {
	case <-time.After(settleDelay):
		memory.Settle(os.DirFS("/"))
	case <-ctx.Done():
	}
}

// settleDelay leaves the processors to the clients that have waited for the server.
const settleDelay = time.Second

// servingLook is the interval between checks whether the server serves.
const servingLook = 50 * time.Millisecond

// addProcessor lets Go use one processor more than there are. Under writes, one of Go's
// threads is in the log's fdatasync most of the time, and counts as running until the
// runtime's monitor, which may sleep for 10 ms, takes its processor away. On a machine
// with two processors, while a long computation such as writing a snapshot takes the
// other one, no thread would be left for connections.
func addProcessor() {
	if os.Getenv("GOMAXPROCS") == "" { // else the operator has chosen
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// serverConfig reads the configuration that the arguments name. If cfg is nil, the caller exits with code.
func serverConfig(args []string, stdout, stderr io.Writer) (cfg *config.Config, code int) {
	var found, defs []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-h" || a == "--help":
			fmt.Fprint(stdout, serverHelp)
			return nil, 0
		case a == "-D" && i+1 < len(args):
			i++
			defs = append(defs, args[i])
		case strings.HasPrefix(a, "-D") && len(a) > 2:
			defs = append(defs, a[2:])
		case slices.ContainsFunc(javaOptions, func(prefix string) bool { return strings.HasPrefix(a, prefix) }):
			defs = append(defs, a)
		case strings.HasPrefix(a, "-"):
			fmt.Fprintf(stderr, "zooid server: unknown option %q\n", a)
			fmt.Fprint(stderr, serverHelp) // by itself: see synopsis
			return nil, 2
		default:
			found = append(found, a)
		}
	}
	addProviders()
	var err error
	switch len(found) {
	case 0:
		cfg, err = config.Default(defs)
	case 1:
		cfg, err = config.Load(found[0], defs)
	default:
		cfg, err = config.Standalone(found, defs)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid server:", errorText(err))
		if len(found) > 0 && slices.Contains(scriptCommands, found[0]) {
			fmt.Fprintln(stderr, "  hint: zooid server zoo.cfg runs a server in the foreground; "+
				"systemd starts and stops it (zooid docs install systemd), and zooid status zoo.cfg shows its state")
		}
		return nil, 2
	}
	return cfg, 0
}

var (
	// javaOptions begin options that start scripts pass to Java. They are ignored with a warning, as serverHelp says.
	javaOptions = []string{"-X", "-javaagent:", "-agentlib:", "-agentpath:", "-verbose:"}
	// scriptCommands are the commands of Apache's zkServer.sh.
	scriptCommands = []string{"start", "start-foreground", "stop", "restart", "status", "version", "print-cmd", "upgrade"}
)

// serverOptions converts the configuration into the server package's options.
func serverOptions(cfg *config.Config, log *slog.Logger) (server.Options, error) {
	o := server.Options{
		ID:      1,
		DataDir: cfg.Storage.DataDir, LogDir: cfg.Storage.DataLogDir,
		Backlog: cfg.Limits.ListenBacklog,
		Serving: server.Serving{
			Tick: cfg.TickTime, SessionTimeoutMin: cfg.Sessions.MinTimeout, SessionTimeoutMax: cfg.Sessions.MaxTimeout,
			MaxFrame: cfg.Limits.JuteMaxBuffer, MaxOutstanding: cfg.Limits.GlobalOutstanding, Limits: clientLimits(cfg),
			SlowRequest: cfg.Log.Slow, SnapCount: cfg.Storage.SnapCount, SnapBytes: snapBytes(&cfg.Storage),
		},
		MaxClientConnections: cfg.Limits.MaxClientCnxns, MaxConnections: cfg.Limits.MaxCnxns,
		MemoryLimit:        memoryLimit(cfg),
		MemoryMost:         memoryMost(),
		SessionlessTimeout: cfg.Limits.SessionlessTimeout, TCPKeepAlive: cfg.Limits.TCPKeepAlive,
		Settings: tree.Settings{
			ExtendedTypes: cfg.Tree.TTL, EnforceQuota: cfg.Tree.EnforceQuota,
			SkipACL: cfg.Tree.SkipACL, ReconfigEnabled: cfg.Quorum.ReconfigEnabled, FeatureLevel: tree.FeatureLevelMax,
		},
		FourLetterWords: words(cfg.FourLetter),
		SnapshotsKept:   snapshotsKept(&cfg.Storage),
		RootACL:         rootACL(cfg),
		RecheckInterval: cfg.Auth.Recheck,
		FsyncWarning:    max(cfg.Storage.FsyncWarning, time.Millisecond),
		FsyncStall:      cfg.Storage.FsyncStall,
		ReapInterval:    cfg.Tree.ContainerInterval, ReapPerMinute: cfg.Tree.ContainersPerMin,
		ReapNeverUsed: cfg.Tree.ContainerUnused,
		BindRetries:   bindRetries(&cfg.Quorum),
		Audit:         auditSettings(&cfg.Audit), Log: log, Version: versionText(),
	}
	if cfg.Sessions.ApachePasswords {
		o.SessionPasswd = func(session int64) []byte {
			p := files.Passwd(session)
			return p[:]
		}
	}
	if cfg.Client.Port >= 0 {
		o.Listen = []string{net.JoinHostPort(cfg.Client.Host, strconv.Itoa(cfg.Client.Port))}
	}
	var err error
	if o.Auth, err = authOptions(cfg); err != nil {
		return o, err
	}
	if err := secureOptions(cfg, log, &o); err != nil {
		return o, err
	}
	if cfg.Quorum.Distributed {
		return o, ensembleOptions(cfg, &o)
	}
	return o, nil
}

// snapBytes returns how many bytes of log force a snapshot. Without a limit it is more than any log has.
func snapBytes(s *config.Storage) int64 {
	if s.SnapSizeLimit <= 0 {
		return math.MaxInt64
	}
	return s.SnapSizeLimit << 10
}

// snapshotsKept returns how many snapshots the purge keeps, which follows each snapshot.
func snapshotsKept(s *config.Storage) int {
	if s.PurgeInterval <= 0 {
		return storage.KeepAll
	}
	return s.SnapRetainCount
}

// bindRetries returns how often a port with an unknown host name is tried again; negative means forever.
func bindRetries(q *config.Quorum) int { return cmp.Or(q.BindRetries, -1) }

// memoryLimit returns the limit of the memory account, 0 for none.
func memoryLimit(cfg *config.Config) int64 {
	if cfg.Limits.Memory != 0 {
		return max(cfg.Limits.Memory, 0)
	}
	return memory.DefaultLimit(os.DirFS("/"))
}

// memoryMost returns how much memory the process can have, or 0 if GOMEMLIMIT limits Go's runtime.
func memoryMost() int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	return memory.Most(os.DirFS("/"))
}

// ensembleOptions adds the options that a server of an ensemble needs.
func ensembleOptions(cfg *config.Config, o *server.Options) error {
	q := &cfg.Quorum
	var err error
	if o.PeerTLS, err = peerTLS(&q.TLS, o); err != nil {
		return err
	}
	if o.PeerSecrets, err = peerSecrets(q); err != nil {
		return err
	}
	o.ID = serverid.Raft(q.MyID)
	o.Membership = membership(q.Members)
	if q.ReconfigEnabled {
		o.Membership.Listening = func(text string, id uint64) (server.Listening, bool) {
			return listening(text, id, q.ListenOnAllIPs)
		}
	}
	if q.ReconfigEnabled && cfg.File != "" {
		o.Membership.Save = (&memberFiles{cfg: cfg, log: o.Log}).save
	}
	o.RunningOnly = q.RunningOnly
	o.Patience = time.Duration(max(q.SyncLimit, 1)) * cfg.TickTime
	o.ReadOnlyMode = cfg.Sessions.ReadOnlyMode
	o.Shown = shown(q)
	o.LocalSessions, o.LocalSessionsUpgrading = cfg.Sessions.Local, cfg.Sessions.LocalUpgrading
	o.Members, o.Clients = peers(q.Members), clientAddresses(cfg)
	for _, m := range q.Members.Servers {
		if m.ID != q.MyID {
			continue
		}
		if o.PeerListen, err = peerListen(m, q.ListenOnAllIPs); err != nil {
			return err
		}
		if !m.Client.IsZero() {
			o.Listen = []string{net.JoinHostPort(m.Client.Host, strconv.Itoa(m.Client.Port))}
		}
	}
	return nil
}

func words(w config.FourLetterWords) []string {
	if w.All {
		return []string{"*"}
	}
	return w.Words
}
