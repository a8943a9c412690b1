//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tool/top"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// answerBytesMax bounds the answers that these commands read.
const answerBytesMax = 1 << 20

// A localServer is the one on this host that runs with a zoo.cfg, and how the command that asks it reaches it: reach
// may be nil. What reach doesn't say of keys and trust is the server's own; certificates may name any host, as it is
// this one.
type localServer struct {
	cfg   *config.Config
	reach *cli.Access
}

// parseLocal parses the arguments of commands that query the server on this host. If cfg is nil, the caller exits with
// code.
func parseLocal(help string, flags *flag.FlagSet, args []string, stdout, stderr io.Writer) (s localServer, code int) {
	s.reach = new(cli.Access)
	others, err := s.reach.TakeAll(args)
	if err == nil {
		if code, done := parseFlags(flags, help, others, stdout, stderr); done {
			return localServer{}, code
		}
		if flags.NArg() != 1 {
			fmt.Fprint(stderr, help)
			return localServer{}, exitUnreachable
		}
		s.cfg, err = config.Load(flags.Arg(0), nil)
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid %s: %s\n", flags.Name(), terminal.OneLine(err.Error()))
		return localServer{}, exitUnreachable
	}
	return s, 0
}

// settle takes the profile and the environment into reach, and reads the files that it names.
func (s *localServer) settle(stderr io.Writer, name string) bool {
	if err := s.reach.Check(); err != nil {
		fmt.Fprintf(stderr, "zooid %s: %s\n", name, terminal.OneLine(err.Error()))
		return false
	}
	return true
}

// clientPort returns the address of the port that takes clients, the one without TLS if there are two.
func (s *localServer) clientPort() (at string, secure bool, err error) {
	plain, tls := s.cfg.Client, s.cfg.Secure
	if own, ok := s.cfg.Quorum.Members.Find(s.cfg.Quorum.MyID); ok {
		if !own.Client.IsZero() {
			plain = own.Client
		}
		if !own.Secure.IsZero() {
			tls = own.Secure
		}
	}
	switch {
	case plain.Port > 0:
		return here(plain.Host, plain.Port), false, nil
	case tls.Port > 0:
		return here(tls.Host, tls.Port), true, nil
	}
	return "", false, errors.New("the file has no client port to query; set admin.enableServer=true")
}

// word asks the server a four-letter word.
func (s *localServer) word(ctx context.Context, word string) (string, error) {
	at, secure, err := s.clientPort()
	if err != nil || !secure {
		return wordOf(ctx, nil, at, word, err)
	}
	by := s.dialler(&s.cfg.TLS)
	text, err := wordclient.Word(ctx, by.Reach().Dial, at, word, answerBytesMax)
	if err != nil {
		err = fmt.Errorf("%w; -tls-ca, -tls-cert and -profile name the certificates to show, if it is not to be the server's own; or set admin.enableServer=true",
			err)
	}
	return text, err
}

func wordOf(ctx context.Context, dial wordclient.Dial, at, word string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return wordclient.Word(ctx, dial, at, word, answerBytesMax)
}

// dialler returns reach, completed by the server's own stores.
func (s *localServer) dialler(own *config.TLS) *cli.Access {
	by := new(cli.Access)
	if s.reach != nil {
		*by = *s.reach
	}
	by.Reach().Or(own)
	by.Reach().AnyHost = true
	return by
}

// here returns the address to dial on this machine for a server that listens on host and port.
func here(host string, port int) string {
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// askAdmin sends a request to the admin server, over TLS if the server accepts nothing else, and returns the status and
// the body.
func (s *localServer) askAdmin(ctx context.Context, method, path, authorization string) (int, []byte, error) {
	url := "http://"
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	switch {
	case !s.cfg.Admin.ForceHTTPS:
	case s.reach != nil && s.reach.Secure():
		url, transport.DialTLSContext = "https://", s.dialTLS
	default:
		url = "https://"
		var err error
		if transport.TLSClientConfig, err = adminClientTLS(s.cfg); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url+here(s.cfg.Admin.Host, s.cfg.Admin.Port)+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return top.AnswerTo(req, transport)
}

// dialTLS connects to the admin server with reach's certificates, or the server's own where reach names none.
func (s *localServer) dialTLS(ctx context.Context, _, at string) (net.Conn, error) {
	return s.dialler(&s.cfg.Quorum.TLS.TLS).Dial(ctx, at)
}

// adminClientTLS returns a configuration that presents the server's own certificate and accepts any
// certificate that the trust store verifies, whatever host it names: the server is on this host.
func adminClientTLS(cfg *config.Config) (*tls.Config, error) {
	o := adminPortOptions(cfg, slog.New(slog.DiscardHandler))
	if o.Trust.Location == "" {
		return nil, errors.New("the admin server's certificate can't be verified: there is no trust store; set ssl.quorum.trustStore.location")
	}
	port, err := keystore.NewPort(o)
	if err != nil {
		return nil, err
	}
	return port.Dialled("localhost", false), nil
}
