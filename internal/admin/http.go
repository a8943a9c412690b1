package admin

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/socket"
)

// Limits of a request. Parameters of commands are short, and so are all bodies except restore's.
const (
	// headerBytesMax bounds the request line and the header; net/http reads 4 KiB more before it rejects a request.
	headerBytesMax = 8 << 10
	// headerTimeout is how long a connection may take to send the header, and before that for its TLS handshake.
	headerTimeout = 10 * time.Second
	// bodyBytesMax bounds a body, and bodyTimeout how long it may take.
	bodyBytesMax = 64 << 10
	bodyTimeout  = 30 * time.Second
	// restoreBytesMax bounds the body of restore, which goes to a file. A caller without permission to restore is
	// rejected before any of it is read. Each restoreStep of the body may take bodyTimeout.
	restoreBytesMax = 1 << 30
	restoreStep     = 1 << 20
	// answerTimeout ends an unread answer. An answer that streams a file may take that long for each streamStep.
	answerTimeout = 30 * time.Second
	// connectionsMax bounds the connections. Only few clients inspect a server.
	connectionsMax = 100
	// idleTimeoutDefault is admin.idleTimeout where it isn't set.
	idleTimeoutDefault = 30 * time.Second
)

// Options configure an Admin. The comments name the configuration keys.
type Options struct {
	Address     string        // admin.serverAddress and admin.serverPort, "host:port"
	Bind        socket.Binder // opens the port
	CommandURL  string        // admin.commandURL; "" is /commands
	Hosts       []string      // names by which it is reached, in lower case, besides those that can only be its own
	IdleTimeout time.Duration // admin.idleTimeout
	TLS         *socket.TLS   // nil for none

	// ApacheSnapshot writes the tree as an Apache snapshot file into an empty directory that belongs to the caller; nil
	// if this isn't possible.
	ApacheSnapshot   func(dir string) (file string, zxid int64, err error)
	SnapshotDisabled bool          // admin.snapshot.enabled=false
	RestoreDisabled  bool          // admin.restore.enabled=false
	RateInterval     time.Duration // admin.rateLimiterIntervalInMS: between two snapshots, and two restores
	// Znodes returns the znodes of a snapshot file, of this cluster or of Apache, for Server.Replace; nil if this isn't
	// possible.
	Znodes func(file string) (znodes []byte, err error)

	// TokenFile is where a token for callers on this host is written, for the server's user alone; "" for none. It is
	// another one whenever a server begins to serve.
	TokenFile string

	Configuration string            // the text of zoo.cfg, for initial_configuration
	Properties    map[string]string // for system_properties
	// Pages are additional pages by path.
	Pages map[string]http.Handler
	// Reload reads the configuration again and reports the result.
	Reload func() (Reloaded, error)
	// DrainTimeout is how long a drain waits for another server to take over.
	DrainTimeout time.Duration
	Log          *slog.Logger

	// For tests; 0 means the constant of the same name.
	headerTimeout, bodyTimeout, answerTimeout, snapshotTimeout time.Duration
	restoreBytes                                               int64
}

// Reloaded says which changed keys a reload has put in force, and which need a restart.
type Reloaded struct{ InForce, NeedRestart []string }

// An Admin serves a server's commands and pages over HTTP. Its methods may be called concurrently.
type Admin struct {
	opt    Options
	log    *slog.Logger // rate-limited, for lines that callers can cause
	byName map[string]*command
	http   *http.Server

	snapshots, restores rate
	lists, monitors     fourletter.LongAnswers
	token               token

	current atomic.Pointer[Server]

	once sync.Once
	wg   sync.WaitGroup
	port *socket.Port
}

// Listen starts to serve, until Close.
func Listen(opt Options) (*Admin, error) {
	opt.CommandURL = cmp.Or(opt.CommandURL, "/commands")
	if opt.IdleTimeout <= 0 {
		opt.IdleTimeout = idleTimeoutDefault
	}
	if opt.headerTimeout <= 0 {
		opt.headerTimeout = headerTimeout
	}
	if opt.bodyTimeout <= 0 {
		opt.bodyTimeout = bodyTimeout
	}
	if opt.snapshotTimeout <= 0 {
		opt.snapshotTimeout = snapshotTimeout
	}
	write := opt.headerTimeout + opt.bodyTimeout + answerTimeout
	if opt.answerTimeout > 0 {
		write = opt.answerTimeout
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	a := &Admin{opt: opt, log: lograte.Limit(opt.Log), byName: named(), token: token{path: opt.TokenFile},
		monitors: fourletter.LongAnswers{Most: fourletter.MonitorsMax}}
	if a.snapshots.interval, a.restores.interval = opt.RateInterval, opt.RateInterval; a.opt.restoreBytes == 0 {
		a.opt.restoreBytes = restoreBytesMax
	}
	l, err := opt.Bind.Listen(opt.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for the admin server on %s: %w (is something else running there? set admin.serverPort)",
			opt.Address, err)
	}
	a.port = socket.NewPort(l, opt.TLS, opt.headerTimeout, connectionsMax)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	a.http = &http.Server{
		Handler: a.port.Checked(a.handler()), Protocols: protocols, MaxHeaderBytes: headerBytesMax,
		ReadHeaderTimeout: opt.headerTimeout, ReadTimeout: headerTimeout + opt.bodyTimeout,
		WriteTimeout: write, IdleTimeout: opt.IdleTimeout, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ConnContext: a.begun,
	}
	a.wg.Go(func() {
		if err := a.http.Serve(a.port); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			a.opt.Log.Error("the admin server has ended", "err", err, "code", "ZD-4015")
		}
	})
	opt.Log.Info("the admin server listens", "address", l.Addr().String(), "commands", opt.CommandURL,
		"tls", opt.TLS.Text())
	return a, nil
}

// begun counts a new connection if it is without TLS although the port accepts TLS.
func (a *Admin) begun(ctx context.Context, c net.Conn) context.Context {
	if _, secure := c.(*tls.Conn); !secure && a.opt.TLS != nil {
		if s := a.server(); s != nil {
			s.AdminMeters().Insecure.Inc()
		}
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// keep keeps the connection of a request, whose caller may do what it asks.
func (a *Admin) keep(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		a.port.Keep(c)
	}
}

// Addr returns where the Admin listens.
func (a *Admin) Addr() net.Addr { return a.port.Addr() }

// Serve sets the server that the commands ask; nil for none. A nil Admin ignores the call.
func (a *Admin) Serve(s Server) {
	switch {
	case a == nil:
	case s == nil:
		a.current.Store(nil)
	default:
		if err := a.token.draw(); err != nil {
			a.opt.Log.Warn("the token for callers of the admin server on this host can't be written; they need a credential",
				"file", a.opt.TokenFile, "err", err, "code", "ZD-4029")
		}
		a.current.Store(&s)
	}
}

// server returns the server to ask, nil if there is none.
func (a *Admin) server() Server {
	if s := a.current.Load(); s != nil {
		return *s
	}
	return nil
}

// Close ends all connections and stops listening. It is idempotent. A nil Admin ignores the call.
func (a *Admin) Close() {
	if a == nil {
		return
	}
	a.once.Do(func() {
		a.http.Close()
		a.wg.Wait()
		a.port.Wait()
	})
}

// handler returns the handler of all requests.
func (a *Admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", a.alive)
	mux.HandleFunc("/readyz", a.ready)
	for path, page := range a.opt.Pages {
		mux.Handle(path, page)
	}
	root := strings.TrimSuffix(a.opt.CommandURL, "/")
	if root != "" {
		mux.HandleFunc(root, a.commandList)
	}
	mux.HandleFunc(root+"/", func(w http.ResponseWriter, r *http.Request) {
		switch name := strings.TrimPrefix(r.URL.Path, root+"/"); name {
		case "":
			a.commandList(w, r)
		default:
			a.answer(w, r, name)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.foreign(r) {
			http.Error(w, fmt.Sprintf("the admin server isn't called %.100q; ask it by its address, by a name of a server line or of admin.hostNames, or over TLS",
				r.Host), http.StatusMisdirectedRequest)
			return
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPost:
		case http.MethodOptions:
			w.Header().Set("Allow", allowed)
			return
		case http.MethodTrace:
			http.Error(w, "TRACE is refused: it would show a caller's credentials to scripts", http.StatusForbidden)
			return
		case http.MethodPut, http.MethodDelete:
			w.Header().Set("Allow", allowed)
			http.Error(w, "the admin server takes GET and POST requests", http.StatusMethodNotAllowed)
			return
		default:
			w.Header().Set("Allow", allowed)
			http.Error(w, fmt.Sprintf("the admin server takes no %.20q requests; use GET or POST", r.Method),
				http.StatusNotImplemented)
			return
		}
		most := int64(bodyBytesMax)
		if name := strings.TrimPrefix(r.URL.Path, root+"/"); a.byName[name] != nil && a.byName[name].name == "restore" {
			most = a.opt.restoreBytes
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		mux.ServeHTTP(w, r)
	})
}

// allowed are the methods that some path accepts.
const allowed = "GET, HEAD, POST, OPTIONS"

// commandList serves the page with a link to each command.
func (a *Admin) commandList(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html;charset=utf-8")
	for _, c := range commands() {
		link := (&url.URL{Path: strings.TrimSuffix(a.opt.CommandURL, "/") + "/" + c.name}).String()
		fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n<br/>\n", html.EscapeString(link), c.name)
	}
}
