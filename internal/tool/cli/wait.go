package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/zk"
)

const (
	// silentPatience is how long a command at a terminal may run without printing anything.
	silentPatience = 2 * time.Second
	// waitStep is the interval at which a wait for a connection checks for failures.
	waitStep = 50 * time.Millisecond
)

// await waits until c, a client of host, is connected or ctx ends. It gives up once every server
// has failed in a way that another attempt can't fix. If the wait takes long, await prints what is
// wrong and, at a terminal, what to do about it.
func (s *shell) await(ctx context.Context, c *zk.Client, host string) error {
	begun, told := time.Now(), s.out.JSON
	for {
		step, cancel := context.WithTimeout(ctx, waitStep)
		err := c.Wait(step)
		cancel()
		waited, ok := errors.AsType[*zk.WaitError](err)
		if !ok || ctx.Err() != nil || hopeless(waited, serversOf(host)) {
			return err
		}
		if !told && time.Since(begun) >= silentPatience {
			told = true
			trouble := s.notConnected(host, err)
			if s.out.ErrTerm {
				s.out.Messagef("%s\n  hint: %s\nwaiting for up to %v; Ctrl-C gives up", trouble, trouble.hint(), s.opt.timeout)
			} else {
				s.out.Messagef("%s; waiting for up to %v", trouble, s.opt.timeout)
			}
		}
	}
}

// hopeless reports whether the TLS handshake has failed permanently with every server.
func hopeless(waited *zk.WaitError, servers []string) bool {
	return len(servers) > 0 && !slices.ContainsFunc(servers, func(server string) bool {
		return waited.Failures[server] == nil || !permanent(waited.Failures[server])
	})
}

// permanent reports whether a failed handshake would fail again: one side refuses the other's
// certificate or version, or the server doesn't speak TLS there. If a server has several addresses,
// all must have failed like that.
func permanent(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !permanent(one) })
	}
	if is[*tls.CertificateVerificationError](err) || is[x509.UnknownAuthorityError](err) ||
		is[x509.CertificateInvalidError](err) || is[tls.RecordHeaderError](err) {
		return true
	}
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error" && !strings.Contains(alert.Err.Error(), "internal error")
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// serving is the answer to srvr of servers that accept no session.
type serving int

const (
	unknownServing serving = iota
	noQuorum               // they serve no client
	servesOthers           // they serve others
)

// notConnected describes why there is no connection to host. It asks servers that only
// close connections for the reason.
func (s *shell) notConnected(host string, err error) *connectError {
	e := &connectError{host: host, secure: s.opt.access.Secure, err: err}
	if !e.cut() {
		return e
	}
	var mu sync.Mutex
	_, _ = subtree.InParallel(serversOf(host), func(server string) (none struct{}, _ error) {
		reply, err := s.opt.access.Ask(context.Background(), server, "srvr") // takes a few seconds at most
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
		case strings.Contains(reply, "not currently serving requests"):
			e.serving = noQuorum
		case e.serving == unknownServing:
			e.serving = servesOthers
		}
		return none, nil
	})
	return e
}

// serversOf returns the servers of a connect string.
func serversOf(host string) []string {
	parsed, err := zk.ParseConnectString(host)
	if err != nil {
		return nil // can't happen: a client was made from it before
	}
	return parsed.Servers
}

// tellOfSilence prints that a command is still running if it has printed nothing for a
// while at a terminal, unless stop is called before.
func (s *shell) tellOfSilence() (stop func()) {
	if !s.out.ErrTerm || s.out.JSON {
		return func() {}
	}
	s.out.Spoken.Store(false)
	server := s.client.State().Server
	timer := time.AfterFunc(silentPatience, func() {
		if !s.out.Spoken.Load() {
			s.out.Errf("still running, connected to %s; Ctrl-C ends it\n", server)
		}
	})
	return func() { timer.Stop() }
}
