package admin

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// The error texts of Apache's AdminServer.
const (
	errUnknown    = "Unknown command: "
	errNotServing = "This ZooKeeper instance is not currently serving requests"
)

// A command is an admin command, served below admin.commandURL.
type command struct {
	name    string // the primary name
	aliases []string
	method  string // GET or POST
	// idle says that the command also runs while the server isn't serving or doesn't exist yet.
	idle bool
	// guarded commands show or change everything: the caller needs all permissions on /.
	guarded bool
	// shows and replaces say that it does so with the whole tree, whatever superusers' rules in the tree say.
	shows, replaces bool
	// changes says that it changes something though Apache takes GET requests for it.
	changes bool
	// long returns the places that answers to the command wait for, because they grow with the sessions, the watches, the
	// connections or the names of metrics; it is nil for other commands.
	long func(a *Admin) *fourletter.LongAnswers
	run  func(c *call)
}

func lists(a *Admin) *fourletter.LongAnswers    { return &a.lists }
func monitors(a *Admin) *fourletter.LongAnswers { return &a.monitors }

// commands returns all commands, sorted by name.
func commands() []command {
	const get, post = http.MethodGet, http.MethodPost
	return []command{
		{name: "configuration", aliases: []string{"conf", "config"}, method: get, run: (*call).configuration},
		{name: "connection_stat_reset", aliases: []string{"crst"}, changes: true, method: get,
			run: func(c *call) { c.of.Replica().ResetConnections() }},
		{name: "connections", aliases: []string{"cons"}, method: get, long: lists,
			run: func(c *call) { c.connections(false) }},
		{name: "dirs", method: get, run: (*call).dirs},
		{name: "drain", method: post, idle: true, guarded: true, run: (*call).drain},
		{name: "dump", method: get, long: lists, run: (*call).dump},
		{name: "environment", aliases: []string{"env", "envi"}, method: get, idle: true, run: (*call).environment},
		{name: "get_trace_mask", aliases: []string{"gtmk"}, method: get, idle: true, run: (*call).traceMask},
		{name: "hash", method: get, run: (*call).hash},
		{name: "initial_configuration", aliases: []string{"icfg"}, method: get,
			run: func(c *call) { c.set("initial_configuration", c.admin.opt.Configuration) }},
		{name: "is_read_only", aliases: []string{"isro"}, method: get, run: (*call).isReadOnly},
		{name: "last_snapshot", aliases: []string{"lsnp"}, method: get, run: (*call).lastSnapshot},
		{name: "leader", aliases: []string{"lead"}, method: get, run: (*call).leader},
		{name: "monitor", aliases: []string{"mntr"}, method: get, long: monitors, run: (*call).monitor},
		{name: "observer_connection_stat_reset", aliases: []string{"orst"}, changes: true, method: get,
			run: func(*call) {}},
		{name: "observers", aliases: []string{"obsr"}, method: get, run: (*call).observers},
		{name: "reload", method: post, idle: true, guarded: true, run: (*call).reload},
		{name: "restore", aliases: []string{"rest"}, method: post, guarded: true, replaces: true,
			run: (*call).restore},
		{name: "ruok", method: get, run: func(*call) {}},
		{name: "server_stats", aliases: []string{"srvr"}, method: get, run: func(c *call) { c.serverStats() }},
		{name: "set_trace_mask", aliases: []string{"stmk"}, changes: true, method: get, idle: true,
			run: (*call).setTraceMask},
		{name: "shed_connections", aliases: []string{"shed"}, method: post, guarded: true, run: (*call).shedConnections},
		{name: "snapshot", aliases: []string{"snap"}, method: get, guarded: true, shows: true,
			run: (*call).snapshot},
		{name: "stat_reset", aliases: []string{"srst"}, changes: true, method: get,
			run: func(c *call) { c.of.Replica().ResetStats() }},
		{name: "stats", aliases: []string{"stat"}, method: get, long: lists,
			run: func(c *call) { c.serverStats(); c.connections(true) }},
		{name: "system_properties", aliases: []string{"sysp"}, method: get, idle: true, run: (*call).systemProperties},
		{name: "top", method: get, run: (*call).top},
		{name: "voting_view", method: get, run: (*call).votingView},
		{name: "watch_summary", aliases: []string{"wchs"}, method: get, run: (*call).watchSummary},
		{name: "watches", aliases: []string{"wchc"}, method: get, long: lists, run: (*call).watches},
		{name: "watches_by_path", aliases: []string{"wchp"}, method: get, long: lists, run: (*call).watchesByPath},
		{name: "zabstate", method: get, idle: true, run: (*call).zabState},
	}
}

// named returns the commands by all their names, aliases included.
func named() map[string]*command {
	byName := map[string]*command{}
	list := commands()
	for i := range list {
		c := &list[i]
		byName[c.name] = c
		for _, alias := range c.aliases {
			byName[alias] = c
		}
	}
	return byName
}

// A call is one request for a command, with the answer being built.
type call struct {
	admin *Admin
	of    Server // nil while there is no server
	req   *http.Request
	query url.Values
	ids   []jute.ID // that the caller of a guarded command has proved; none if it has shown the token

	w        http.ResponseWriter
	status   int
	fields   object
	problem  any                     // the value of "error": nil or a text
	streamed bool                    // the command has written the answer itself
	place    *fourletter.LongAnswers // of a long answer, nil for none
	release  func()                  // gives up the place
}

// set adds a key to the answer.
func (c *call) set(key string, value any) { c.fields.set(key, value) }

// fail turns the answer into an error.
func (c *call) fail(status int, why string) {
	c.status, c.problem = status, why
}

// answer runs the command with a name or alias, and writes its answer.
func (a *Admin) answer(w http.ResponseWriter, r *http.Request, name string) {
	c := &call{admin: a, of: a.server(), req: r, query: r.URL.Query(), w: w, status: http.StatusOK, release: func() {}}
	defer func() { c.release() }()
	cmd := a.byName[name]
	switch {
	case cmd == nil:
		c.problem = errUnknown + name
	case !cmd.idle && !c.serving():
		c.problem = errNotServing
	case (cmd.changes || cmd.method == http.MethodPost) && fromElsewhere(r):
		name = cmd.name
		c.fail(http.StatusForbidden, "A page of another site has sent the request")
	case cmd.guarded && !c.permitted(cmd):
	case !cmd.takes(r.Method):
		name = cmd.name
		w.Header().Set("Allow", cmd.method)
		c.fail(http.StatusMethodNotAllowed, "The command "+cmd.name+" takes "+cmd.method+" requests")
	case cmd.long != nil && !c.begin(cmd.long(a)):
		name = cmd.name
		c.fail(http.StatusServiceUnavailable, "The server is sending other long answers; ask again later")
	default:
		if cmd.guarded {
			a.keep(r)
		}
		name = cmd.name // as in Apache, the answer uses the primary name
		cmd.run(c)
	}
	if !c.streamed {
		c.write(name)
	}
}

// begin waits for the place of a long answer, and reports whether there is one.
func (c *call) begin(place *fourletter.LongAnswers) bool {
	from := socket.NetworkOf(c.conn().RemoteAddr())
	if !place.Begin(from, c.req.Context().Done()) {
		return false
	}
	c.place, c.release = place, sync.OnceFunc(func() { place.End(from) })
	return true
}

// takes reports whether the command accepts a request method.
func (cmd *command) takes(method string) bool {
	return method == cmd.method || method == http.MethodHead && cmd.method == http.MethodGet
}

// serving reports whether there is a server that serves.
func (c *call) serving() bool { return c.of != nil && c.of.Status().Serving }

// write finishes the call by writing its answer as JSON.
func (c *call) write(name string) {
	c.set("command", name)
	c.set("error", c.problem)
	body, err := text(c.fields)
	if err != nil {
		c.admin.opt.Log.Error("an answer of the admin server could not be encoded", "command", name, "err", err,
			"code", "ZD-4012")
		http.Error(c.w, "the answer could not be encoded", http.StatusInternalServerError)
		return
	}
	c.fields = nil // the caller may take its time
	send := func() error {
		c.w.Header().Set("Content-Type", "application/json")
		c.w.WriteHeader(c.status)
		c.w.Write(body) // an error means that the caller has gone
		_, err := io.WriteString(c.w, "\n")
		return err
	}
	if len(body) <= fourletter.LongAnswerMin {
		c.release()
		send()
		return
	}
	timeout := cmp.Or(c.admin.opt.answerTimeout, answerTimeout)
	http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(timeout)) // another caller may wait for the place
	if c.place == nil {
		send()
		return
	}
	c.place.Send(socket.Output{Conn: c.conn()}, send)
}

// conn returns the connection of the caller.
func (c *call) conn() net.Conn {
	conn, _ := c.req.Context().Value(connKey{}).(net.Conn)
	return conn
}
