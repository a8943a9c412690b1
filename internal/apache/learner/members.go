package learner

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A Member is a server of an ensemble's configuration.
type Member struct {
	ID       int64
	Quorum   []string // addresses at which it listens for learners while it leads
	Election []string
	Observer bool
	Client   string // address for clients; "" if the line has none
}

// Limits of a configuration.
const (
	ConfigBytesMax = 512 << 10 // Apache's limit for a configuration in the election protocol
	membersMax     = 255       // ids have 8 bits
)

// ParseConfig parses a configuration as in /zookeeper/config and NEWLEADER, or a zoo.cfg: lines server.N=…, and
// version=… in hex. It skips other lines.
//
//	server.1=host:2888:3888[:role][|host:2888:3888…][;clientport]
func ParseConfig(text string) (members []Member, version int64, err error) {
	if len(text) > ConfigBytesMax {
		return nil, 0, fmt.Errorf("a configuration of %d bytes; at most %d", len(text), ConfigBytesMax)
	}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		id, server := strings.CutPrefix(key, "server.")
		switch {
		case !ok:
		case key == "version":
			if version, err = strconv.ParseInt(value, 16, 64); err != nil {
				return nil, 0, fmt.Errorf("the configuration's version %q: %w", value, err)
			}
		case server:
			m, err := parseMember(id, value)
			if err != nil {
				return nil, 0, fmt.Errorf("%s=%s: %w", key, value, err)
			}
			if len(members) == membersMax {
				return nil, 0, fmt.Errorf("more than %d servers", membersMax)
			}
			members = append(members, m)
		}
	}
	slices.SortStableFunc(members, func(a, b Member) int { return int(min(max(a.ID-b.ID, -1), 1)) })
	return members, version, nil
}

// Weighted reports whether a configuration gives servers weights or groups, so that a quorum isn't simply a majority.
func Weighted(text string) bool {
	for line := range strings.Lines(text) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.HasPrefix(key, "group.") || strings.HasPrefix(key, "weight.") {
			return true
		}
	}
	return false
}

var errAddress = errors.New("want host:quorumPort:electionPort")

func parseMember(id, value string) (m Member, err error) {
	if m.ID, err = strconv.ParseInt(id, 10, 64); err != nil {
		return m, fmt.Errorf("the id %q: %w", id, err)
	}
	value, client, _ := strings.Cut(value, ";")
	for part := range strings.SplitSeq(value, "|") {
		host, rest, ok := cutHost(strings.TrimSpace(part))
		fields := strings.Split(rest, ":")
		if !ok || !plainHost(host) || len(fields) < 2 || len(fields) > 3 {
			return m, errAddress
		}
		for _, port := range fields[:2] {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return m, fmt.Errorf("the port %q: %w", port, errAddress)
			}
		}
		m.Quorum = append(m.Quorum, net.JoinHostPort(host, fields[0]))
		m.Election = append(m.Election, net.JoinHostPort(host, fields[1]))
		m.Observer = m.Observer || len(fields) == 3 && strings.EqualFold(fields[2], "observer")
	}
	m.Client = clientAddress(strings.TrimSpace(client), m.Quorum[0])
	return m, nil
}

// clientAddress returns the address of the part of a server line behind the semicolon: a port, or host:port. Without a
// host, or with a wildcard, it is that of a quorum port.
func clientAddress(text, quorum string) string {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = "", text
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, _, err = net.SplitHostPort(quorum); err != nil {
			return ""
		}
	}
	if !plainHost(host) {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// plainHost reports whether text may be the name or address of a host. Operators' commands get it as a word of a shell,
// and its source is any client that may change the ensemble's configuration.
func plainHost(text string) bool {
	return text != "" && text[0] != '-' && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:%", r)
	})
}

// cutHost splits text into the host and what follows it; an IPv6 host is in brackets.
func cutHost(text string) (host, rest string, ok bool) {
	if inner, v6 := strings.CutPrefix(text, "["); v6 {
		host, rest, ok = strings.Cut(inner, "]:")
		return host, rest, ok
	}
	return strings.Cut(text, ":")
}
