package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
)

// Added is a server that Add has written.
type Added struct {
	Folder string
	Line   string // its server line, as reconfig takes it
	TLS    bool
	Others string // the connect string of the servers before
}

// Add writes the folder DIR/ID of one more server of the ensemble in o.Dir, which o.Hosts names. The other servers'
// lines and secret come from those of their folders that exist; the new server's zoo.cfg and certificate are the same
// as Write's. With TLS, the files in DIR/client name the new server, too.
func Add(o Options, id int) (a Added, err error) {
	if len(o.Hosts) != 1 {
		return a, fmt.Errorf("add server %d: want one host, there are %d", id, len(o.Hosts))
	}
	// Two commands must not read the same ensemble at the same time: each would omit the other's server, or use its id.
	if dir, err := os.Open(o.Dir); err == nil {
		defer dir.Close() // which unlocks
		if err := lock(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return a, fmt.Errorf("lock %s: %w", o.Dir, err)
		}
	}
	e, err := readEnsemble(o.Dir)
	if err != nil {
		return a, err
	}
	s, all, err := o.join(e, id)
	if err != nil {
		return a, err
	}
	if _, err := os.Lstat(s.folder); !errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("write %s: it already exists, and nothing is overwritten", s.folder)
	}
	a = Added{Folder: s.folder, Line: s.line, TLS: o.TLS, Others: e.connect(o.TLS)}
	if !o.TLS {
		return a, o.writeServer(&s, all, e.secret, nil)
	}
	if err := checkHost(s.host); err != nil {
		return a, err
	}
	return a, change(o.Dir, o.Now, func(r *register) error {
		if err := o.writeServer(&s, all, e.secret, r); err != nil {
			return err
		}
		return addToClients(o.Dir, net.JoinHostPort(s.host, strconv.Itoa(s.ports.Client)))
	})
}

// An ensemble is read from the folders of servers.
type ensemble struct {
	members config.Members
	secret  string
}

// readEnsemble reads the folders of servers in dir, which must agree.
func readEnsemble(dir string) (*ensemble, error) {
	files, _ := filepath.Glob(filepath.Join(literal(dir), "*", "zoo.cfg"))
	if len(files) == 0 {
		return nil, fmt.Errorf("read the ensemble in %s: there is no server's folder; put zoo.cfg and secret of one of its servers into %s",
			dir, filepath.Join(dir, "1"))
	}
	e := &ensemble{}
	for _, file := range files {
		members, err := readMembers(file)
		if err != nil {
			return nil, fmt.Errorf("read the server lines of %s: %w", file, err)
		}
		for _, m := range members.Servers {
			if known, ok := e.members.Find(m.ID); !ok {
				e.members.Servers = append(e.members.Servers, m)
				slices.SortFunc(e.members.Servers, func(a, b config.Member) int { return cmp.Compare(a.ID, b.ID) })
			} else if !sameServer(known, m) {
				return nil, fmt.Errorf("read the ensemble in %s: %s says server.%d=%s, another server's zoo.cfg %s; make them agree with what the servers use ('zooid cli config')",
					dir, file, m.ID, m, known)
			}
		}
		if err := e.readSecret(filepath.Join(filepath.Dir(file), "secret")); err != nil {
			return nil, err
		}
	}
	switch {
	case len(e.members.Servers) == 0:
		return nil, fmt.Errorf("read the ensemble in %s: no zoo.cfg has server lines; the page operations (grow and shrink) says how one server becomes three",
			dir)
	case e.secret == "":
		return nil, fmt.Errorf("read the ensemble in %s: no server's folder has the file secret; put it beside a zoo.cfg",
			dir)
	}
	return e, nil
}

// sameServer reports whether two lines with one id mean the same server. A running server may write its line
// differently.
func sameServer(a, b config.Member) bool {
	return slices.Equal(a.Addrs, b.Addrs) && a.Observer == b.Observer && a.Client.Port == b.Client.Port &&
		a.Secure.Port == b.Secure.Port
}

// readMembers reads the server lines of a zoo.cfg, or of the dynamic file next to it to which a server has moved them.
func readMembers(file string) (config.Members, error) {
	text, err := readBounded(file)
	if err != nil {
		return config.Members{}, err
	}
	values, err := config.Properties(text)
	if err != nil {
		return config.Members{}, err
	}
	if dynamic := values["dynamicConfigFile"]; dynamic != "" {
		text, err := readBounded(filepath.Join(filepath.Dir(file), filepath.Base(dynamic)))
		if err != nil {
			return config.Members{}, err
		}
		return config.ParseMembers(string(text))
	}
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, "server.") {
			fmt.Fprintf(&lines, "%s=%s\n", key, values[key])
		}
	}
	return config.ParseMembers(lines.String())
}

func (e *ensemble) readSecret(file string) error {
	secret, err := readBounded(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if e.secret != "" && e.secret != string(secret) {
		return fmt.Errorf("read %s: it isn't the secret of the other servers", file)
	}
	e.secret = string(secret)
	return nil
}

// connect returns the addresses at which the servers take clients.
func (e *ensemble) connect(byTLS bool) string {
	var all []string
	for _, m := range e.members.Servers {
		at := m.Client
		if byTLS {
			at = m.Secure
		}
		if !at.IsZero() {
			all = append(all, net.JoinHostPort(m.Addrs[0].Host, strconv.Itoa(at.Port)))
		}
	}
	return strings.Join(all, ",")
}

// join returns the server to add to e, and all servers. It sets whether they use TLS, and the port for clients.
func (o *Options) join(e *ensemble, id int) (s server, all []server, err error) {
	o.TLS = !e.members.Servers[len(e.members.Servers)-1].Secure.IsZero()
	if err := o.chooseClientPort(e); err != nil {
		return s, nil, fmt.Errorf("add server %d: %w", id, err)
	}
	wanted, err := o.servers()
	if err != nil {
		return s, nil, err
	}
	s = wanted[0]
	for _, m := range e.members.Servers {
		if sameHost(m.Addrs[0].Host, s.host) {
			s.ports.Admin++
			s.ports.Metrics++
		}
	}
	s.id, s.folder = id, filepath.Join(o.Dir, strconv.Itoa(id))
	_, place, _ := strings.Cut(s.line, "=")
	s.line = fmt.Sprintf("server.%d=%s", id, place)
	one, err := config.ParseMembers(s.line)
	if err != nil {
		return s, nil, fmt.Errorf("write the server line: %w", err)
	}
	if id < 1 {
		return s, nil, fmt.Errorf("add server %d: ids begin with 1", id)
	}
	for _, m := range e.members.Servers {
		switch {
		case m.ID == int64(id):
			return s, nil, fmt.Errorf("add server %d: it already belongs to the ensemble: server.%d=%s", id, m.ID, m)
		case slices.Contains(m.Addrs, one.Servers[0].Addrs[0]):
			return s, nil, fmt.Errorf("add server %d at %s: server %d is there: %s", id, o.Hosts[0], m.ID, m)
		}
		all = append(all, server{id: int(m.ID), line: fmt.Sprintf("server.%d=%s", m.ID, m)})
	}
	if len(all) >= ServersMax {
		return s, nil, fmt.Errorf("add server %d: the ensemble has %d already, and the limit is %d", id, len(all), ServersMax)
	}
	return s, append(all, s), nil
}

// chooseClientPort sets the port for the new server's clients, unless it is given: the first server's, or one that no
// server on the same host has.
func (o *Options) chooseClientPort(e *ensemble) error {
	host, _, err := splitHost(strings.TrimSpace(o.Hosts[0]))
	if err != nil {
		return err
	}
	given := o.ClientPort
	if given == 0 {
		o.ClientPort = clientPortOf(e.members.Servers[0])
	}
	for _, m := range e.members.Servers {
		switch port := clientPortOf(m); {
		case !sameHost(m.Addrs[0].Host, host) || port < o.ClientPort:
		case given == 0:
			o.ClientPort = port + 1
		case port == given:
			return fmt.Errorf("server %d takes clients on port %d of the same host; give another port (-client-port)", m.ID, port)
		}
	}
	return nil
}

// clientPortOf returns the port at which a server takes clients, by TLS if it has both.
func clientPortOf(m config.Member) int {
	if !m.Secure.IsZero() {
		return m.Secure.Port
	}
	return m.Client.Port
}
