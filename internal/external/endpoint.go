package external

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// headersBytesMax bounds the headers of an answer.
const headersBytesMax = 16 << 10

// An endpoint answers questions over HTTP.
type endpoint struct {
	url    string
	client *http.Client
}

func newEndpoint(o Options) (*endpoint, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read auth.caFile: %w", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read auth.caFile: %s holds no certificate in PEM", o.CAFile)
		}
	}
	// Proxies from the environment aren't used: they would see credentials.
	transport := &http.Transport{
		TLSClientConfig: config, MaxConnsPerHost: o.Concurrency, MaxIdleConnsPerHost: o.Concurrency,
		IdleConnTimeout:    time.Minute,
		DisableCompression: true, MaxResponseHeaderBytes: headersBytesMax,
	}
	return &endpoint{url: o.Target, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (e *endpoint) ask(ctx context.Context, q *question) (*answer, error) {
	line, err := q.line()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(line))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered with the status %d; an answer has 200, one that refuses too", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(b) > answerBytesMax {
		return nil, errTooLong
	}
	return parseAnswer(b, q.Request)
}

func (e *endpoint) close() { e.client.CloseIdleConnections() }

var errTooLong = fmt.Errorf("the answer has more than %d bytes", answerBytesMax)
