package setup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/config"
)

// The ports that are written if none are given.
const (
	ClientPort   = 2181
	SecurePort   = 2281 // of clients by TLS
	quorumPort   = 2888
	electionPort = 3888
	adminPort    = 8080
	metricsPort  = 7000
)

// ServersMax bounds how many servers are written at once: far more than any useful ensemble has.
const ServersMax = 64

// Options select the files to write.
type Options struct {
	Dir string // it gets a folder for each server
	// Hosts are HOST, HOST:PORT or HOST:PORT:PORT for each server: the ports are those of the quorum
	// and of elections. With none, a single server is written.
	Hosts      []string
	ClientPort int // 0 for ClientPort, or SecurePort with TLS
	// Ports, if set, are the ports of each server. They replace ClientPort and the usual ports.
	Ports []Ports
	// TLS makes clients and servers use mutual TLS, with certificates that are written too.
	TLS bool
	// At is the path at which a server will find its folder; "" means next to zoo.cfg, wherever that is.
	At  string
	Now time.Time
}

// Ports are the ports of a server other than those for its peers: for clients, for the admin server and for Prometheus.
type Ports struct{ Client, Admin, Metrics int }

// A server is one folder to write.
type server struct {
	id     int
	host   string // that others dial
	line   string // of the membership, "" for a single server
	ports  Ports
	folder string
}

// Write writes a folder DIR/ID for each server, and with TLS the folders DIR/ca and DIR/client. If
// any of them exists, it writes nothing. It returns the folders it has written, in order.
func Write(o Options) (folders []string, err error) {
	servers, err := o.servers()
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		folders = append(folders, s.folder)
	}
	if o.TLS {
		folders = append(folders, filepath.Join(o.Dir, "client"), filepath.Join(o.Dir, "ca"))
	}
	for _, folder := range folders {
		if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("write %s: it already exists, and nothing is overwritten; give another directory (-dir)",
				folder)
		}
	}
	var r *register
	if o.TLS {
		if r, err = o.newRegister(); err != nil {
			return nil, err
		}
		if err := o.writeClient(r, servers); err != nil {
			return nil, err
		}
	}
	secret := "# By this secret the servers of the ensemble prove who they are to each other. Nobody else may read it.\n" +
		rand.Text() + rand.Text() + "\n"
	for _, s := range servers {
		if err := o.writeServer(&s, servers, secret, r); err != nil {
			return nil, err
		}
	}
	return folders, nil
}

// servers returns the servers that were asked for.
func (o *Options) servers() (all []server, err error) {
	if len(o.Hosts) > ServersMax {
		return nil, fmt.Errorf("write %d servers: at most %d", len(o.Hosts), ServersMax)
	}
	if o.Ports != nil && len(o.Ports) != max(len(o.Hosts), 1) {
		return nil, fmt.Errorf("write %d servers: there are ports of %d", max(len(o.Hosts), 1), len(o.Ports))
	}
	port := o.ClientPort
	if port == 0 {
		port = ClientPort
		if o.TLS {
			port = SecurePort
		}
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("write a server with client port %d: ports are 1 to 65535", port)
	}
	if len(o.Hosts) == 0 {
		return []server{{id: 1, host: "localhost", ports: o.ports(0, port, 0), folder: filepath.Join(o.Dir, "1")}}, nil
	}
	var lines strings.Builder
	onHost, taken := map[string]int{}, map[string]bool{} // how many servers are on a host; addresses of their peer ports
	for i, host := range o.Hosts {
		s := server{id: i + 1, folder: filepath.Join(o.Dir, strconv.Itoa(i+1))}
		name, ports, err := splitHost(strings.TrimSpace(host))
		if err != nil {
			return nil, err
		}
		s.host = name
		before := onHost[strings.ToLower(name)]
		onHost[strings.ToLower(name)]++
		s.ports = o.ports(i, port, before)
		if !strings.Contains(ports, ":") {
			ports += ":" + strconv.Itoa(electionPort+before)
		}
		quorum, _, _ := strings.Cut(ports, ":")
		at := net.JoinHostPort(strings.ToLower(name), quorum)
		if taken[at] {
			return nil, fmt.Errorf("write server %q: %s is another server's already; servers on one host have quorum ports of their own, as in %s:%d",
				host, at, config.Bracketed(name), quorumPort+before)
		}
		taken[at] = true
		clients := fmt.Sprintf(";%d", s.ports.Client)
		if o.TLS {
			clients = ";" + clients
		}
		s.line = fmt.Sprintf("server.%d=%s:%s%s", s.id, config.Bracketed(name), ports, clients)
		fmt.Fprintln(&lines, s.line)
		all = append(all, s)
	}
	if _, err := config.ParseMembers(lines.String()); err != nil {
		return nil, fmt.Errorf("write the server lines: %w", err)
	}
	return all, nil
}

// Addresses returns the hosts that are addresses instead of names. Those of the loopback interface don't count.
func (o *Options) Addresses() (all []string) {
	for _, text := range o.Hosts {
		host, _, _ := splitHost(strings.TrimSpace(text))
		if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() {
			all = append(all, host)
		}
	}
	return all
}

// ports returns the ports of server i. before is the number of earlier servers on the same host.
func (o *Options) ports(i, client, before int) Ports {
	if o.Ports != nil {
		return o.Ports[i]
	}
	return Ports{client + before, adminPort + before, metricsPort + before}
}

// splitHost splits a host from its ports, of which the second may be missing.
func splitHost(text string) (host, ports string, err error) {
	host, ports, _ = strings.Cut(text, ":")
	if inside, ok := strings.CutPrefix(text, "["); ok {
		if host, ports, ok = strings.Cut(inside, "]"); !ok {
			return "", "", fmt.Errorf("write server %q: the bracket isn't closed", text)
		}
		ports = strings.TrimPrefix(ports, ":")
	} else if net.ParseIP(text) != nil {
		host, ports = text, "" // an IPv6 address without brackets
	}
	switch {
	case host == "":
		return "", "", fmt.Errorf("write server %q: it has no host", text)
	case host[0] == '-':
		return "", "", fmt.Errorf("write server %q: no host begins like that, and flags come before the hosts", text)
	case ports == "":
		ports = strconv.Itoa(quorumPort)
	}
	return host, ports, nil
}

func (o *Options) writeServer(s *server, all []server, secret string, r *register) error {
	files := []file{{"zoo.cfg", o.configuration(s, all), 0o644}}
	if s.line != "" {
		files = append(files, file{"data/myid", strconv.Itoa(s.id) + "\n", 0o644}, file{"secret", secret, 0o600})
	}
	if r != nil {
		hosts := []string{s.host}
		if ip := net.ParseIP(s.host); strings.EqualFold(s.host, "localhost") || ip != nil && ip.IsLoopback() {
			// Java's clients look up the name of an address, and expect that name in the certificate.
			hosts = slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(name string) bool {
				return strings.EqualFold(name, s.host)
			})
			hosts = slices.Insert(hosts, 0, s.host) // the server's own name comes first, since the certificate is listed by it
		}
		if s.line == "" {
			if name, err := os.Hostname(); err == nil {
				hosts = append(hosts, name)
			}
		}
		text, list, err := r.issueFor("server "+strconv.Itoa(s.id), hosts)
		if err != nil {
			return err
		}
		files = append(files, file{"server.pem", text, 0o600}, file{"ca.pem", r.ca.text, 0o644}, file{listFile, list, 0o644})
	}
	return writeFolder(s.folder, "data", files)
}

// newRegister makes an authority. Its own key should be kept elsewhere.
func (o *Options) newRegister() (*register, error) {
	ca, err := newAuthority(o.Now)
	if err != nil {
		return nil, err
	}
	key, err := ca.keyText()
	if err != nil {
		return nil, err
	}
	r := &register{dir: filepath.Join(o.Dir, "ca"), ca: ca, now: o.Now}
	if err := writeFolder(r.dir, "", []file{{"ca.key", key, 0o600}, {"ca.pem", ca.text, 0o644}}); err != nil {
		return nil, err
	}
	return r, r.record()
}

// issueFor issues and records a certificate for init. It returns the certificate and the revocation list.
func (r *register) issueFor(name string, hosts []string) (text, list string, err error) {
	text, cert, err := r.ca.issue(name, hosts, r.now, r.now.AddDate(0, 0, certificateDays))
	if err != nil {
		return "", "", err
	}
	if err := r.record(cert); err != nil {
		return "", "", err
	}
	return text, block(listBlock, r.list.Raw), nil
}

// writeClient writes the files that a client needs. The client has the superuser's name.
func (o *Options) writeClient(r *register, servers []server) error {
	text, _, err := r.issueFor(superuserDefault, nil)
	if err != nil {
		return err
	}
	var connect []string
	for _, s := range servers {
		connect = append(connect, net.JoinHostPort(s.host, strconv.Itoa(s.ports.Client)))
	}
	return writeFolder(filepath.Join(o.Dir, "client"), "",
		append(clientFiles("client.pem", text, strings.Join(connect, ",")), file{"ca.pem", r.ca.text, 0o644}))
}

type file struct {
	name, text string
	mode       os.FileMode
}

// writeFolder makes a folder that only its owner may access, and its files.
func writeFolder(folder, inside string, files []file) error {
	if err := os.MkdirAll(filepath.Join(folder, inside), 0o700); err != nil {
		return err
	}
	for _, f := range files {
		if err := writeNew(filepath.Join(folder, f.name), f.text, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// writeNew writes a file that must not exist yet: a secret is never overwritten.
func writeNew(path, text string, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// at returns the path at which a server will find a file of its folder.
func (o *Options) at(name string) string {
	if o.At == "" {
		return "./" + name
	}
	return path.Join(filepath.ToSlash(o.At), name)
}
