package zk

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// DefaultPort is the client port of a server whose port isn't given.
const DefaultPort = 2181

// A ConnectString is the parsed form of "host:port,host:port/chroot".
type ConnectString struct {
	Servers []string // host:port, IPv6 hosts in brackets, in the order written
	Chroot  string   // "" if there is none; it doesn't end in a slash
}

// A ConnectStringError says what is wrong with a connect string, and at which byte.
type ConnectStringError struct {
	Text   string
	Offset int // byte offset of the offending part
	Reason string
}

// Error returns the text, the byte and the reason.
func (e *ConnectStringError) Error() string {
	return fmt.Sprintf("zk: connect string %q, byte %d: %s", e.Text, e.Offset, e.Reason)
}

// ParseConnectString parses "host[:port][,host[:port]]...[/chroot]", the form that all ZooKeeper clients share. A
// missing port is DefaultPort. Blanks around a server and empty elements between or after commas are ignored, as in the
// Java client. An IPv6 address belongs in brackets. Without them, the text after the last colon is the port if the rest
// is an address, as in the Java client: fe80::1:2181 is port 2181 of fe80::1. Host names aren't resolved here, but at
// each connection attempt. At least one server is needed. The error is a *ConnectStringError.
func ParseConnectString(text string) (ConnectString, error) {
	var c ConnectString
	fail := func(at int, format string, args ...any) (ConnectString, error) {
		return ConnectString{}, &ConnectStringError{text, at, fmt.Sprintf(format, args...)}
	}
	list := text
	if at := strings.Index(text, "://"); at >= 0 {
		return fail(0, "scheme %q is not supported; list the servers, or use Dial or ParseURL", text[:at+3])
	}
	if at := strings.IndexByte(text, '/'); at >= 0 {
		list = text[:at]
		chroot, err := parseChroot(text[at:])
		if bad, ok := errors.AsType[*ConnectStringError](err); ok {
			return fail(at+bad.Offset, "%s", bad.Reason)
		}
		c.Chroot = chroot
	}
	at := 0
	for part := range strings.SplitSeq(list, ",") {
		if s := strings.TrimSpace(part); s != "" {
			server, reason := parseServer(s)
			if reason != "" {
				return fail(at, "%s", reason)
			}
			c.Servers = append(c.Servers, server)
		}
		at += len(part) + 1
	}
	if len(c.Servers) == 0 {
		return fail(0, "it names no server")
	}
	return c, nil
}

// parseChroot parses a connect string's chroot, "" if there is none. Its error is a *ConnectStringError.
func parseChroot(text string) (chroot string, err error) {
	if text == "" || text == "/" {
		return "", nil
	}
	if err := jute.CheckPath(text); err != nil {
		offset := 0
		if bad, ok := errors.AsType[*jute.PathError](err); ok {
			offset = bad.Offset
			err = errors.New(bad.Reason)
		}
		return "", &ConnectStringError{text, offset, fmt.Sprintf("chroot: %v", err)}
	}
	return text, nil
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6()
}

// parseServer returns s as host:port, or the reason why s is invalid. s must not be empty.
func parseServer(s string) (server, reason string) {
	host, port := s, ""
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "the bracket of an IPv6 address is not closed"
		}
		host, port = s[1:end], s[end+1:]
		if _, err := netip.ParseAddr(host); err != nil {
			return "", fmt.Sprintf("%q is not an IPv6 address", host)
		}
		if port != "" && port[0] != ':' {
			return "", fmt.Sprintf("%q follows the bracket; only a colon and a port may", port)
		}
	} else if colon := strings.LastIndexByte(s, ':'); colon >= 0 {
		before, after := s[:colon], s[colon:]
		switch _, bad := strconv.Atoi(after[1:]); {
		case !strings.Contains(before, ":") || isIPv6(before) && (bad == nil || !isIPv6(s)):
			host, port = before, after
		case !isIPv6(s):
			return "", fmt.Sprintf("%q has several colons and is not an IPv6 address; put one in brackets, the port after them",
				s)
		}
	}
	if host == "" || strings.ContainsAny(host, " \t\n\r[]") {
		return "", fmt.Sprintf("%q has no proper host name", s)
	}
	number := DefaultPort
	if port != "" {
		n, err := strconv.ParseUint(port[1:], 10, 16)
		if err != nil || n == 0 {
			return "", fmt.Sprintf("port %q is not a number from 1 to 65535", port[1:])
		}
		number = int(n)
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), ""
}

// String returns the form that ParseConnectString parses.
func (c ConnectString) String() string { return strings.Join(c.Servers, ",") + c.Chroot }
