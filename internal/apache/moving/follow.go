//go:build unix

package moving

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/kerberos"
)

const followHelp = `usage: zooid migrate follow [flags] ENSEMBLE DIR

Keeps a copy of a running Apache ZooKeeper ensemble, 3.5 or later, in DIR until it is
interrupted. It connects to the leader as an observer: it has no vote, and the ensemble
doesn't wait for it. After each transaction it compares Apache's digest of the tree (3.6 and
later) with the digest of the copy.

ENSEMBLE is the connect string of the client ports (zk1:2181,zk2:2181), or a file with the
server lines, such as Apache's zoo.cfg; a dynamicConfigFile that it names is read, too. The
servers' quorum ports must be reachable from this machine.

  zooid migrate follow zk1:2181,zk2:2181,zk3:2181 /var/lib/copy

DIR must be new, empty, or an earlier copy, which is marked by the file ZOOIDCOPY. An Apache
server's own dataDir is refused. The copy has the format of Apache's dataDir: zooid import DIR
DATADIR makes the data directory of a Zooid server from it. To continue a copy, run the
command again; it fetches only what is missing.

  -adopt            DIR is a copy made by a version of Zooid that wrote no file ZOOIDCOPY

  -listen ADDRESS   serve reads to clients at this address, as a read-only server does
  -super USER:HASH  a superuser for these clients, as printed by zooid digest (superDigest)
  -id N             this observer's id, which no server may have (200)

If the servers use TLS among themselves (sslQuorum):
  -peer-tls                    use TLS, and trust the system's certificate authorities
  -peer-tls-ca FILE            the authorities that sign the servers' certificates
  -peer-tls-cert FILE          this observer's certificate and key
  -peer-tls-password-file FILE the password of these files, which are PEM, JKS or PKCS12
  -peer-tls-any-host           don't check that a certificate names its server

If the servers log in to each other (quorum.auth.enableSasl) with DIGEST-MD5:
  -peer-sasl-user USER            the user, as in a section QuorumLearner
  -peer-sasl-password-file FILE   the file with the password
or with Kerberos, which $KRB5_CONFIG or /etc/krb5.conf configures:
  -peer-sasl-keytab FILE          this observer's key
  -peer-sasl-principal NAME/HOST  this observer's principal; HOST must be a server's host
  -peer-sasl-service NAME         the servers' principal without its host (zkquorum)

The client ports are used once, to read the configuration, with the flags of zooid cli for
TLS and logins: -tls…, -auth, -sasl, -client-configuration.

exit code: 0 interrupted, and all digests were equal; 1 it failed, or found no leader;
2 wrong arguments; 3 interrupted, and a digest differed.
`

// The exit codes of zooid migrate follow.
const (
	followEqual   = 0
	followFailed  = 1
	followDiffers = 3
)

// followFlags holds the parsed command line.
type followFlags struct {
	access      cli.Access
	listen      string
	super       string
	id          int64
	adopt       bool
	peerTLS     bool
	peerAnyHost bool
	keys, trust keystore.Store
	peerUser    string
	peerPass    string
	peerTicket  kerberos.Login
	words       []string
}

func (f *followFlags) register(flags *flags) {
	f.registerPeer(flags)
	flags.StringVar(&f.listen, "listen", "", "")
	flags.Func("super", "", func(value string) error {
		if user, hash, ok := strings.Cut(value, ":"); !ok || user == "" || hash == "" {
			return errors.New("want USER:HASH, as zooid digest prints it")
		}
		f.super = value
		return nil
	})
}

// registerPeer adds the flags that follow and switch share.
func (f *followFlags) registerPeer(flags *flags) {
	flags.access = &f.access
	flags.BoolVar(&f.adopt, "adopt", false, "")
	flags.Int64Var(&f.id, "id", 200, "")
	flags.BoolVar(&f.peerTLS, "peer-tls", false, "")
	flags.BoolVar(&f.peerAnyHost, "peer-tls-any-host", false, "")
	flags.StringVar(&f.trust.Location, "peer-tls-ca", "", "")
	flags.StringVar(&f.keys.Location, "peer-tls-cert", "", "")
	flags.StringVar(&f.keys.PasswordPath, "peer-tls-password-file", "", "")
	flags.StringVar(&f.peerUser, "peer-sasl-user", "", "")
	flags.Func("peer-sasl-password-file", "", func(value string) error {
		text, err := os.ReadFile(value)
		f.peerPass = strings.TrimRight(string(text), "\r\n")
		return err
	})
	flags.StringVar(&f.peerTicket.Keytab, "peer-sasl-keytab", "", "")
	flags.StringVar(&f.peerTicket.Principal, "peer-sasl-principal", "", "")
	flags.StringVar(&f.peerTicket.Service, "peer-sasl-service", "zkquorum", "")
}

func (f *followFlags) arguments(words []string) error {
	if f.words = words; len(words) != 2 {
		return errors.New("name an ensemble and a directory")
	}
	return f.checkPeer()
}

// checkPeer checks the flags that registerPeer adds.
func (f *followFlags) checkPeer() error {
	f.trust.PasswordPath = f.keys.PasswordPath
	switch {
	case f.id < 1 || f.id > 254:
		return fmt.Errorf("-id %d: want 1 to 254, and none that a server has", f.id)
	case (f.peerUser == "") != (f.peerPass == ""):
		return errors.New("give -peer-sasl-user and -peer-sasl-password-file together")
	case (f.peerTicket.Keytab == "") != (f.peerTicket.Principal == ""):
		return errors.New("give -peer-sasl-keytab and -peer-sasl-principal together")
	case f.peerUser != "" && f.peerTicket.Keytab != "":
		return errors.New("give either -peer-sasl-user or -peer-sasl-keytab, not both")
	}
	return nil
}

func (f *followFlags) run(ctx context.Context, s cli.Streams) (int, error) {
	last, err := f.follow(ctx, s.Err)
	if err == nil && last.Elections == 0 {
		err = fmt.Errorf("no leader was followed, so the ensemble's current state is unknown; the copy is unchanged: %v%s",
			last, reason(last.LastFailed))
	}
	if err != nil {
		return followFailed, err
	}
	fmt.Fprintf(s.Out, "stopped: %v\nTo continue with this copy: zooid import %s DATADIR\n", last, f.words[1])
	if last.Mismatch != nil {
		return followDiffers, nil
	}
	return followEqual, nil
}

// reason returns an error as the end of a message.
func reason(err error) string {
	if err == nil {
		return ""
	}
	return ". The last try: " + terminal.Visible(err.Error())
}

// follow follows an ensemble until it is interrupted.
func (f *followFlags) follow(ctx context.Context, stderr io.Writer) (last follow.Status, err error) {
	dial, err := f.dialer()
	if err != nil {
		return last, err
	}
	var mu sync.Mutex // guards the terminal
	line := terminal.NewProgress(stderr)
	o := f.options(dial, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		line.End()
		fmt.Fprintln(stderr, time.Now().Format(time.DateTime), terminal.OneLine(terminal.Visible(text)))
	})
	f2, err := follow.Open(o)
	if err != nil {
		return last, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	served <- nil
	if f.listen != "" {
		if err := f.serve(ctx, f2, stderr, served, cancel); err != nil {
			return last, err
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := terminal.ProgressEvery
		if !terminal.Is(stderr) {
			every = statusEvery
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			mu.Lock()
			if text := f2.Status().String(); every == statusEvery {
				fmt.Fprintln(stderr, time.Now().Format(time.DateTime), text)
			} else {
				line.Show(text)
			}
			mu.Unlock()
		}
	}()
	err = f2.Run(ctx)
	cancel()
	<-ended
	line.End()
	return f2.Status(), errors.Join(err, <-served)
}

// options returns the options of a follower of the ensemble and directory that the arguments name.
func (f *followFlags) options(dial func(context.Context, string) (net.Conn, error), say func(string)) follow.Options {
	return follow.Options{
		Dir: f.words[1], Ensemble: f.words[0], Adopt: f.adopt, ID: f.id, Config: f.config, Dial: dial, Say: say,
	}
}

// statusEvery is the time between two status lines if there is no terminal.
const statusEvery = time.Minute

// serve answers clients.
func (f *followFlags) serve(ctx context.Context, f2 *follow.Follower, stderr io.Writer, served chan error,
	cancel func()) error {
	s, err := follow.NewServer(f2, auth.Options{SuperDigest: f.super})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen for clients: %w", err)
	}
	fmt.Fprintf(stderr, "reads are answered at %v\n", l.Addr())
	<-served
	go func() {
		served <- s.Serve(ctx, l)
		cancel()
	}()
	return nil
}

// config returns the ensemble's configuration, from a file or by asking a server.
func (f *followFlags) config(ctx context.Context) (string, error) {
	if file, err := os.Open(f.words[0]); err == nil {
		defer file.Close()
		lines, name, err := propertyLines(file)
		if err != nil || name == "" {
			return lines, err
		}
		more, err := dynamicLines(f.words[0], name)
		return lines + more, err
	}
	o := zk.Options{SessionTimeout: 10 * time.Second}
	f.access.Put(&o)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := zk.Open(ctx, f.words[0], o)
	if err != nil {
		return "", fmt.Errorf("ask %s for its configuration: %w", f.words[0], err)
	}
	defer c.Close()
	text, _, err := c.GetConfig(ctx)
	return string(text), err
}

// propertyLines returns the lines of a file that is read as Java's properties, each as key=value, and the file that it
// names as its dynamicConfigFile; "" if it names none. Of lines with the same key the last counts.
func propertyLines(r io.Reader) (lines, dynamic string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, learner.ConfigBytesMax+1))
	if err == nil && len(text) > learner.ConfigBytesMax {
		err = fmt.Errorf("a configuration of more than %d bytes", learner.ConfigBytesMax)
	}
	if err != nil {
		return "", "", err
	}
	values, err := config.Properties(text)
	if err != nil {
		return "", "", err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines += strings.ReplaceAll(key+"="+values[key], "\n", " ") + "\n" // no line of Apache's can hold an escaped \n
	}
	return lines, values["dynamicConfigFile"], nil
}

// dynamicLines returns the server lines of the file that a zoo.cfg names as its dynamicConfigFile.
func dynamicLines(zooCfg, name string) (string, error) {
	const do = "Copy that file from the server, and name it instead"
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("%s has its server lines in %s, which is relative to the directory in which Apache was started. %s",
			zooCfg, name, do)
	}
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s has its server lines in another file: %w. %s", zooCfg, err, do)
	}
	defer file.Close()
	lines, _, err := propertyLines(file)
	return lines, err
}

// dialer returns the function that connects to quorum ports.
func (f *followFlags) dialer() (func(context.Context, string) (net.Conn, error), error) {
	dial := new(net.Dialer).DialContext
	if f.peerTLS || f.peerAnyHost || f.trust.Location != "" || f.keys.Location != "" || f.keys.PasswordPath != "" {
		o := keystore.ClientOptions{Trust: f.trust.ByName(), AnyHost: f.peerAnyHost}
		if f.keys.Location != "" {
			var err error
			if o.Certificates, err = f.keys.ByName().Certificates(); err != nil {
				return nil, err
			}
		}
		config, _, err := keystore.Client(o)
		if err != nil {
			return nil, err
		}
		dial = (&tls.Dialer{Config: config}).DialContext
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, "tcp", address)
		if err == nil {
			if err = f.login(conn, address); err != nil {
				conn.Close()
			}
		}
		return conn, err
	}, nil
}

// login logs in at a quorum port, if the flags say how.
func (f *followFlags) login(conn net.Conn, address string) error {
	switch {
	case f.peerUser != "":
		return learner.Login(conn, sasl.NewPeerClient(f.peerUser, f.peerPass, rand.Reader).Step)
	case f.peerTicket.Keytab != "":
		ticket, err := f.peerTicket.Begin(address)
		if err != nil {
			return err
		}
		return learner.Login(conn, ticket.Step)
	}
	return nil
}
