//go:build unix

package moving

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/zk"
)

// isURL distinguishes the URL of an admin server from a path.
func isURL(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}

// A snapshotSource streams a snapshot from the admin server of a running server.
type snapshotSource struct {
	url           string
	authorization string
	client        *http.Client
}

const (
	// commandsPath is where the admin server's commands are unless admin.commandURL says otherwise.
	commandsPath = "/commands"
	snapshotName = "snapshot"

	// firstByteTimeout exceeds the time that a server may take to write a snapshot, silenceTimeout the time that it may
	// take to send a part of it.
	firstByteTimeout = 11 * time.Minute
	silenceTimeout   = 2 * time.Minute
)

// newSnapshotSource returns a source for the admin server at a URL, with access as the flags say.
func newSnapshotSource(address string, reach *cli.Access) (*snapshotSource, error) {
	at, err := url.Parse(address)
	switch {
	case err != nil || at.Host == "":
		return nil, errors.New("the URL can't be read; want http://HOST:PORT") // not the URL: it may hold a password
	case at.User != nil:
		return nil, errors.New("the URL contains a password: give it as -auth digest:USER:PASSWORD or in an -auth-file")
	case at.RawQuery != "" || at.Fragment != "":
		return nil, errors.New("the URL has more than a host, a port and a path; want http://HOST:PORT")
	case at.Scheme == "http" && reach.Secure():
		return nil, errors.New("the flags, the profile or the environment (ZOOID_TLS…) say TLS, the URL doesn't: want https://HOST:PORT")
	}
	if at.Scheme == "https" && !reach.Secure() {
		if _, _, err := reach.Take([]string{"-tls"}); err != nil {
			return nil, err
		}
	}
	var who zk.Options
	reach.Put(&who)
	s := &snapshotSource{}
	if s.authorization, err = authorization(&who); err != nil {
		return nil, err
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = commandsPath
	}
	if path.Base(at.Path) != snapshotName {
		at.Path = path.Join(at.Path, snapshotName)
	}
	s.url = at.String()
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return reach.Dial(ctx, address) }
	s.client = &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DisableCompression: true, DialContext: dial, DialTLSContext: dial,
			ResponseHeaderTimeout: firstByteTimeout,
		},
		// the target of a redirect would get the password
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// authorization returns the Authorization header that identifies the client to the admin server.
func authorization(who *zk.Options) (string, error) {
	switch len(who.Auth) {
	case 0:
	case 1:
		if credentials := string(who.Auth[0].Auth); !strings.ContainsAny(credentials, " \r\n") {
			return who.Auth[0].Scheme + " " + credentials, nil
		}
		return "", errors.New("the admin server accepts no identity that contains a space")
	default:
		return "", errors.New("the admin server accepts one identity: give a single -auth")
	}
	if who.GetTLSConfig != nil {
		c, err := who.GetTLSConfig()
		if err != nil {
			return "", err
		}
		if len(c.Certificates) > 0 {
			return "x509", nil
		}
	}
	return "ip", nil
}

// fetch writes the snapshot that the server streams.
func (s *snapshotSource) fetch(ctx context.Context, to io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", s.authorization)
	res, err := s.client.Do(req)
	if err != nil {
		var uncertain *tls.CertificateVerificationError
		if errors.As(err, &uncertain) {
			return fmt.Errorf("ask the server for a snapshot: %w. If a private authority signed its certificate, name the authority's file with -tls-ca",
				err)
		}
		return fmt.Errorf("ask the server for a snapshot: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/octet-stream" {
		return refusedSnapshot(s.url, res)
	}
	// A server that stops sending in the middle of a snapshot is given up.
	silent := time.AfterFunc(silenceTimeout, func() { cancel(fmt.Errorf("no data arrived for %v", silenceTimeout)) })
	defer silent.Stop()
	for got := int64(0); ; {
		n, err := io.CopyN(to, res.Body, 1<<20)
		got += n
		silent.Reset(silenceTimeout)
		switch {
		case errors.Is(err, io.EOF):
			if res.ContentLength >= 0 && got != res.ContentLength {
				return fmt.Errorf("%s ended after %d of %d bytes", s.url, got, res.ContentLength)
			}
			return nil
		case errors.As(err, new(*fs.PathError)): // an error of the local disk
			return err
		case err != nil:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("the snapshot from %s ended after %d of %d bytes: %w. Try again", s.url, got,
				res.ContentLength, err)
		}
	}
}

// refusalBytesMax bounds the part of an error response that is read.
const refusalBytesMax = 64 << 10

// refusedSnapshot returns an error that says why a server has sent no snapshot, and what to do.
func refusedSnapshot(at string, res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, refusalBytesMax))
	if err != nil {
		body = nil
	}
	var answer struct{ Error string }
	if json.Unmarshal(body, &answer) != nil || answer.Error == "" {
		answer.Error = http.StatusText(res.StatusCode)
	}
	do := ""
	switch res.StatusCode {
	case http.StatusUnauthorized:
		do = "The server doesn't accept these credentials: give the right -auth (digest:super:PASSWORD)"
	case http.StatusForbidden:
		do = "Give an identity that has all permissions on / (-auth digest:super:PASSWORD)"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		do = "Is this the URL of the admin server (admin.serverPort, admin.commandURL)?"
	case http.StatusTooManyRequests:
		do = "Wait, or export the server's data directory"
	case http.StatusServiceUnavailable:
		do = "Set admin.snapshot.enabled=true, or export the server's data directory"
	case http.StatusOK:
		do = "This isn't the admin server of a serving Zooid server"
	}
	return fmt.Errorf("%s sent no snapshot: %d, %.300s. %s", at, res.StatusCode, answer.Error, do)
}
