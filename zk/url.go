package zk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// urlBytesMax bounds a URL. It has room for a thousand servers, and detects a file's content passed by mistake.
const urlBytesMax = 64 << 10

// srvPrefix begins the name of the SRV records of a URL that has only a domain.
const srvPrefix = "_zookeeper._tcp."

// A URLError says what is wrong with a URL. It doesn't contain the URL, which may have a password in the wrong place.
type URLError struct {
	Parameter string // the parameter's name; "" if the error is in another part
	Reason    string
}

// Error returns the parameter, if any, and the reason.
func (e *URLError) Error() string {
	if e.Parameter != "" {
		return fmt.Sprintf("zk: URL: parameter %s: %s", e.Parameter, e.Reason)
	}
	return "zk: URL: " + e.Reason
}

// Dial opens a client by a URL in the form of ParseURL and waits until it is connected, as Open does:
//
//	zk.Dial(ctx, "zk://zk1:2181,zk2:2181,zk3:2181/app?session_timeout=20s")
//	zk.Dial(ctx, "zks://zk1,zk2/app?tls_ca=/etc/zk/ca.pem&tls_cert=/etc/zk/app.pem&tls_key=/etc/zk/app.key")
//	zk.Dial(ctx, "zk+srv://example.com/app")
//
// ctx bounds only the wait. A program that needs settings without a parameter, such as credentials or a logger, calls
// ParseURL, sets them in the Options and calls Open.
func Dial(ctx context.Context, url string) (*Client, error) {
	connect, opt, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return Open(ctx, connect, opt)
}

// ParseURL parses a URL and returns the arguments of Open and New. The forms are
//
//	zk://HOST[:PORT],…[/CHROOT][?PARAMETER=VALUE&…]    the servers of a connect string
//	zks://…                                            the same, with TLS
//	zk+srv://NAME[/CHROOT][?…], zks+srv://…            the servers that DNS SRV records name
//
// Servers and chroot follow the rules of ParseConnectString: an IPv6 address belongs in brackets, a missing port is
// DefaultPort, also with TLS, and the chroot doesn't end in a slash. NAME is a domain, whose records are those of
// _zookeeper._tcp.NAME. If NAME begins with an underscore, it is the full name of the records, such as
// _client._tcp.zk-headless.default.svc.cluster.local; see Options.SRV. In the chroot and in values, %XX stands for a
// byte, and a plus sign stands for itself. The parameters are
//
//	session_timeout     Options.SessionTimeout, a duration such as 10s or 1m30s
//	read_only           Options.ReadOnly, true or false
//	max_outstanding, max_request_bytes, max_response_bytes, max_unread_events
//	                    the Options of these names, numbers from 1 up
//	tls_ca              a PEM file of the certificates to trust instead of the system's
//	tls_cert, tls_key   PEM files of the client's certificate, with its chain, and its key
//	tls_server_name     the name that servers' certificates must have instead of the host's
//
// The TLS parameters need zks. ParseURL reads their files to check them, and each connection reads them again, so
// renewed files are used (zks sets GetTLSConfig). A parameter that is unknown, empty or given twice is an error, and so
// is a fragment, a user or a password: credentials belong in Options.Auth or Options.SASL, since URLs are often logged.
// The error is a *URLError or a *ConnectStringError, or wraps the error of a file. No error contains a password.
func ParseURL(text string) (connect string, opt Options, err error) {
	fail := func(format string, args ...any) (string, Options, error) {
		return "", Options{}, &URLError{Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(text) > urlBytesMax:
		return fail("it has %d bytes; at most %d are accepted", len(text), urlBytesMax)
	case strings.Contains(text, "@"): // first, since a password may contain anything
		return fail("no user or password belongs in it; see Options.Auth and Options.SASL (any other @ is written %%40)")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fail("it has a blank or control character; write it as %%XX")
	case strings.Contains(text, "#"):
		return fail("it has a fragment, which means nothing here (a # of a chroot or value is written %%23)")
	}
	scheme, rest, _ := strings.Cut(text, "://")
	var overTLS, bySRV bool
	switch strings.ToLower(scheme) {
	case "zk":
	case "zks":
		overTLS = true
	case "zk+srv":
		bySRV = true
	case "zks+srv":
		overTLS, bySRV = true, true
	default:
		return fail("it begins with none of zk://, zks://, zk+srv://, zks+srv://")
	}
	place, query, _ := strings.Cut(rest, "?")
	servers, chroot := place, ""
	if at := strings.IndexByte(place, '/'); at >= 0 {
		servers = place[:at]
		if chroot, err = url.PathUnescape(place[at:]); err != nil {
			return fail("the chroot has a %% that isn't followed by two hexadecimal digits (a %% itself is written %%25)")
		}
	}
	// Only the zone of an IPv6 address contains a percent sign.
	if strings.Contains(strings.ReplaceAll(servers, "%25", ""), "%") {
		return fail("the servers have an escape; only %%25 is known there, before the zone of an IPv6 address")
	}
	servers = strings.ReplaceAll(servers, "%25", "%")
	if servers == "" {
		return fail("it names no server; two slashes come before the first, as in zk://host:%d/chroot", DefaultPort)
	}
	if bySRV {
		connect, opt.SRV, err = parseSRVPlace(servers, chroot)
	} else {
		var parsed ConnectString
		parsed, err = ParseConnectString(servers + chroot)
		connect = parsed.String()
	}
	if err != nil {
		return "", Options{}, err
	}
	if err := parseParameters(query, overTLS, &opt); err != nil {
		return "", Options{}, err
	}
	return connect, opt, nil
}

// parseSRVPlace returns the arguments of New for the name and chroot of a URL with SRV records.
func parseSRVPlace(name, chroot string) (connect, srv string, err error) {
	if strings.ContainsAny(name, ",:[]") {
		return "", "", &URLError{Reason: "after +srv:// comes one domain name; its SRV records have the servers and their ports"}
	}
	if !strings.HasPrefix(name, "_") {
		name = srvPrefix + name
	}
	if reason := badSRVName(name); reason != "" {
		return "", "", &URLError{Reason: reason}
	}
	if chroot == "/" {
		chroot = ""
	}
	if _, err := parseChroot(chroot); err != nil {
		return "", "", err
	}
	return chroot, name, nil
}

// A urlParameter is one parameter of a URL. set stores its value in the options, or returns the reason why it is
// invalid.
type urlParameter struct {
	name string
	tls  bool
	set  func(o *Options, f *tlsFiles, value string) (reason string)
}

var urlParameters = []urlParameter{
	{"session_timeout", false, func(o *Options, _ *tlsFiles, value string) string {
		d, err := time.ParseDuration(value)
		if err != nil || d < timeoutMin || d > timeoutMax {
			return fmt.Sprintf("%q isn't a duration from %v to %v, such as 10s", value, timeoutMin, timeoutMax)
		}
		o.SessionTimeout = d
		return ""
	}},
	{"read_only", false, func(o *Options, _ *tlsFiles, value string) string {
		if o.ReadOnly = value == "true"; !o.ReadOnly && value != "false" {
			return fmt.Sprintf("%q is neither true nor false", value)
		}
		return ""
	}},
	{"max_outstanding", false, numberInto(func(o *Options) *int { return &o.MaxOutstanding })},
	{"max_request_bytes", false, numberInto(func(o *Options) *int { return &o.MaxRequestBytes })},
	{"max_response_bytes", false, numberInto(func(o *Options) *int { return &o.MaxResponseBytes })},
	{"max_unread_events", false, numberInto(func(o *Options) *int { return &o.MaxUnreadEvents })},
	{"tls_ca", true, textInto(func(f *tlsFiles) *string { return &f.ca })},
	{"tls_cert", true, textInto(func(f *tlsFiles) *string { return &f.cert })},
	{"tls_key", true, textInto(func(f *tlsFiles) *string { return &f.key })},
	{"tls_server_name", true, textInto(func(f *tlsFiles) *string { return &f.serverName })},
}

func numberInto(field func(*Options) *int) func(*Options, *tlsFiles, string) string {
	return func(o *Options, _ *tlsFiles, value string) string {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			return fmt.Sprintf("%q isn't a number from 1 to %d", value, 1<<31-1)
		}
		*field(o) = int(n)
		return ""
	}
}

func textInto(field func(*tlsFiles) *string) func(*Options, *tlsFiles, string) string {
	return func(_ *Options, f *tlsFiles, value string) string {
		*field(f) = value
		return ""
	}
}

// parameterNames lists all parameters, for errors.
func parameterNames() string {
	var names []string
	for _, p := range urlParameters {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// parseParameters reads a URL's query into opt.
func parseParameters(query string, overTLS bool, opt *Options) error {
	var files tlsFiles
	given := map[string]bool{}
	for part := range strings.SplitSeq(query, "&") {
		if query == "" {
			break
		}
		name, escaped, hasValue := strings.Cut(part, "=")
		i := slices.IndexFunc(urlParameters, func(p urlParameter) bool { return p.name == name })
		if i < 0 { // the error omits the name, which may be part of a password with an & in it
			return &URLError{Reason: fmt.Sprintf("parameter %d of the URL is unknown; there are %s", len(given)+1,
				parameterNames())}
		}
		p := urlParameters[i]
		value, err := url.PathUnescape(escaped)
		var reason string
		switch {
		case given[name]:
			reason = "it is given twice"
		case p.tls && !overTLS:
			reason = "it needs TLS: begin the URL with zks://"
		case !hasValue || escaped == "":
			reason = "it has no value"
		case err != nil:
			reason = "its value has a % that isn't followed by two hexadecimal digits (a % itself is written %25)"
		case strings.ContainsRune(value, 0):
			reason = "its value has a zero byte"
		default:
			reason = p.set(opt, &files, value)
		}
		if reason != "" {
			return &URLError{Parameter: name, Reason: reason}
		}
		given[name] = true
	}
	if !overTLS {
		return nil
	}
	if (files.cert == "") != (files.key == "") {
		return &URLError{Reason: "tls_cert and tls_key go together"}
	}
	opt.GetTLSConfig = files.config
	if _, err := files.config(); err != nil {
		return fmt.Errorf("zk: URL: %w", err)
	}
	return nil
}

// tlsFiles are the files of keys and certificates; "" for none.
type tlsFiles struct{ ca, cert, key, serverName string }

// pemBytesMax bounds a file of keys or certificates. The system's file of all authorities has some 250 KB.
const pemBytesMax = 4 << 20

// config returns the configuration made from the files.
func (f tlsFiles) config() (*tls.Config, error) {
	config := &tls.Config{ServerName: f.serverName}
	if f.ca != "" {
		pem, err := readPEM(f.ca)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_ca: %s has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" {
		cert, err := readPEM(f.cert)
		if err != nil {
			return nil, fmt.Errorf("tls_cert: %w", err)
		}
		key, err := readPEM(f.key)
		if err != nil {
			return nil, fmt.Errorf("tls_key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert %s and tls_key %s: %w", f.cert, f.key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func readPEM(name string) (b []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if b, err = io.ReadAll(io.LimitReader(file, pemBytesMax+1)); err == nil && len(b) > pemBytesMax {
		err = fmt.Errorf("%s has more than %d bytes", name, pemBytesMax)
	}
	return b, err
}
