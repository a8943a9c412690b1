package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Members is the membership of an ensemble, as in /zookeeper/config and dynamic configuration files.
type Members struct {
	// Version is the zxid of the change that made this membership; 0 until a first change or when a file names none.
	Version int64
	// Servers is sorted by ID, each ID once.
	Servers []Member
}

// Member is one server.N line.
type Member struct {
	ID       int64      // its myid, 0 or more
	Addrs    []PeerAddr // one or more, sorted by host
	Observer bool       // follows without voting
	Client   HostPort   // where it serves clients; zero when the line does not say
	Secure   HostPort   // where it serves clients over TLS; zero when the line does not say
}

// PeerAddr is one address other servers dial. Zooid uses the quorum port and keeps the election port for the text only.
type PeerAddr struct {
	Host         string // a name or IP address, not resolved; an IPv6 address without brackets
	QuorumPort   int
	ElectionPort int
}

// HostPort is an address to listen on or dial; the zero value means none.
type HostPort struct {
	Host string // a name or IP address, not resolved; an IPv6 address without brackets
	Port int    // 0 lets the kernel choose
}

// IsZero reports whether there is no address.
func (a HostPort) IsZero() bool { return a == HostPort{} }

// String returns host:port with brackets round an IPv6 address, as net.Dial takes it.
func (a HostPort) String() string { return Bracketed(a.Host) + ":" + strconv.Itoa(a.Port) }

// memberForm is shown whenever a server line does not parse.
const memberForm = "the form is host:quorumPort:electionPort[:participant|observer] (several joined by |), then optionally " +
	";[host:]clientPort and ;[host:]secureClientPort; an IPv6 address needs brackets"

// membersMax bounds a membership text from outside: more servers than any ensemble has.
const membersMax = 1024

// ParseMembers reads a membership in properties form: server.N lines and version=<hex>, nothing else. It reads String's
// output, Apache's dynamic files and /zookeeper/config. Any text is safe to pass; the error is an *Error.
func ParseMembers(text string) (Members, error) {
	const file = "membership" // the text's name in errors
	props, err := parseProperties([]byte(text))
	if err != nil {
		err.File = file
		return Members{}, err
	}
	m, err := membersOf(file, props, true)
	if err != nil {
		return Members{}, err
	}
	return m, nil
}

// ParseNewMembers reads the newMembers string of a reconfig request: a membership with commas for line ends.
func ParseNewMembers(list string) (Members, error) {
	return ParseMembers(strings.ReplaceAll(list, ",", "\n"))
}

// membersOf collects the server lines among props. Strict refuses every other key, as Apache does in dynamic files.
func membersOf(file string, props []property, strict bool) (Members, *Error) {
	var m Members
	seen := map[int64]int{}
	for _, p := range props {
		fail := func(format string, args ...any) (Members, *Error) {
			return Members{}, &Error{
				Code: "ZD-1006", File: file, Line: p.line, Key: p.key, Value: p.value, Problem: fmt.Sprintf(format, args...),
			}
		}
		switch {
		case strings.HasPrefix(p.key, "server."):
			member, err := parseMember(p.key[len("server."):], p.value)
			if err != nil {
				return fail("%v", err)
			}
			if line, dup := seen[member.ID]; dup {
				return fail("server %d is already given in line %d; each id names one server", member.ID, line)
			}
			if len(seen) == membersMax {
				return fail("more than %d servers", membersMax)
			}
			seen[member.ID] = p.line
			m.Servers = append(m.Servers, member)
		case strings.HasPrefix(p.key, "group"), strings.HasPrefix(p.key, "weight"):
			return fail("%s", whyGroups)
		case p.key == "version" && strict:
			v, err := strconv.ParseUint(p.value, 16, 63)
			if err != nil {
				return fail("the version is not a hexadecimal number of at most 63 bits")
			}
			m.Version = int64(v)
		case strict:
			return fail("a membership may contain only server.N and version; other keys belong in zoo.cfg")
		}
	}
	slices.SortFunc(m.Servers, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return m, nil
}

// String returns the text Apache stores in /zookeeper/config: the server lines by ascending id, then version=<hex>
// without a line end.
func (m Members) String() string {
	var b strings.Builder
	for _, s := range m.Servers {
		fmt.Fprintf(&b, "server.%d=%s\n", s.ID, s)
	}
	fmt.Fprintf(&b, "version=%x", uint64(m.Version))
	return b.String()
}

// Find returns the member with this id.
func (m Members) Find(id int64) (Member, bool) {
	i, ok := slices.BinarySearchFunc(m.Servers, id, func(s Member, id int64) int { return cmp.Compare(s.ID, id) })
	if !ok {
		return Member{}, false
	}
	return m.Servers[i], true
}

// Voters returns how many members vote.
func (m Members) Voters() int {
	n := 0
	for _, s := range m.Servers {
		if !s.Observer {
			n++
		}
	}
	return n
}

// parseMember reads server.<id>=<spec>.
func parseMember(id, spec string) (Member, error) {
	m := Member{}
	var err error
	if m.ID, err = parseID(id); err != nil {
		return m, err
	}
	parts := strings.Split(spec, ";")
	if len(parts) > 3 {
		return m, fmt.Errorf("more than three parts between semicolons; %s", memberForm)
	}
	var role string
	for _, text := range strings.Split(strings.TrimRight(parts[0], "|"), "|") {
		a, r, err := parsePeerAddr(text)
		if err != nil {
			return m, err
		}
		if r != "" && role != "" && r != role {
			return m, fmt.Errorf("one address says %s, another %s; all addresses of a server have one role", role, r)
		}
		role = cmp.Or(role, r)
		m.Addrs = append(m.Addrs, a)
	}
	m.Observer = role == "observer"
	slices.SortStableFunc(m.Addrs, func(a, b PeerAddr) int { return strings.Compare(a.Host, b.Host) })
	for i, to := range []*HostPort{&m.Client, &m.Secure} {
		if i+1 < len(parts) && parts[i+1] != "" {
			if *to, err = parseClientAddr(parts[i+1]); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// parseID reads a server id: any non-negative 64-bit number. -1 is Apache's value for an unset id.
func parseID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("%s is not a server id; an id is a whole number from 0, commonly 1 to 254", quoted(text))
	}
	return id, nil
}

func parsePeerAddr(text string) (PeerAddr, string, error) {
	var a PeerAddr
	host, rest, err := splitHost(text)
	if err != nil {
		return a, "", err
	}
	parts := strings.Split(rest, ":")
	if rest == "" || len(parts) < 2 || len(parts) > 3 {
		return a, "", fmt.Errorf("%s is not an address with two ports; %s", quoted(text), memberForm)
	}
	a.Host = host
	if a.QuorumPort, err = parsePort(parts[0], 1); err != nil {
		return a, "", err
	}
	if a.ElectionPort, err = parsePort(parts[1], 1); err != nil {
		return a, "", err
	}
	if a.QuorumPort == a.ElectionPort {
		return a, "", fmt.Errorf("quorum port and election port are both %d; they must differ", a.QuorumPort)
	}
	if len(parts) == 2 {
		return a, "", nil
	}
	role := strings.ToLower(trimJava(parts[2]))
	if role != "participant" && role != "observer" {
		return a, "", fmt.Errorf("%s is not a role; a server is a participant or an observer", quoted(parts[2]))
	}
	return a, role, nil
}

// parseClientAddr reads port or host:port; the host is 0.0.0.0 by default.
func parseClientAddr(text string) (HostPort, error) {
	host, rest := "0.0.0.0", text
	if strings.Contains(text, ":") {
		var err error
		if host, rest, err = splitHost(text); err != nil {
			return HostPort{}, err
		}
	}
	port, err := parsePort(rest, 0)
	return HostPort{host, port}, err
}

// splitHost splits a leading host name or address from the text after its colon.
func splitHost(text string) (host, rest string, err error) {
	if inside, ok := strings.CutPrefix(text, "["); ok {
		host, rest, ok = strings.Cut(inside, "]")
		if !ok {
			return "", "", fmt.Errorf("%s has no closing bracket; %s", quoted(text), memberForm)
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			return "", "", fmt.Errorf("%s has no port after the bracket; %s", quoted(text), memberForm)
		}
	} else {
		host, rest, _ = strings.Cut(text, ":")
	}
	host, err = canonicalHost(host)
	return host, rest, err
}

// hostMax is the longest name DNS allows.
const hostMax = 255

// canonicalHost checks a host and writes an IPv6 address the way Java prints it, all eight groups, since the text in
// /zookeeper/config is compared and shown by clients. Names, and addresses with a zone, are left as they are.
func canonicalHost(host string) (string, error) {
	addr, err := netip.ParseAddr(host)
	if err == nil && addr.Zone() == "" {
		return javaAddr(addr), nil
	}
	if !isName(host) && (err != nil || !isName(addr.Zone())) {
		return "", fmt.Errorf("%s is not a host name or IP address; an IPv6 address needs brackets", quoted(host))
	}
	return host, nil
}

// isName admits the characters of host and interface names, so that no name can forge another line of a membership.
func isName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= hostMax
}

// javaAddr prints an address as InetAddress.getHostAddress does; an IPv4-mapped one becomes IPv4.
func javaAddr(addr netip.Addr) string {
	addr = addr.Unmap()
	if addr.Is4() {
		return addr.String()
	}
	groups := addr.As16()
	parts := make([]string, 8)
	for i := range parts {
		parts[i] = strconv.FormatUint(uint64(groups[2*i])<<8|uint64(groups[2*i+1]), 16)
	}
	return strings.Join(parts, ":")
}

func parsePort(text string, lowest int) (int, error) {
	port, err := strconv.Atoi(text)
	if err != nil || port < lowest || port > 65535 {
		return 0, fmt.Errorf("%s is not a port; a port is a number from %d to 65535", quoted(text), lowest)
	}
	return port, nil
}

// Bracketed returns a host with brackets round an IPv6 address.
func Bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// String returns the part after server.N=, in canonical form.
func (m Member) String() string {
	var b strings.Builder
	for i, a := range m.Addrs {
		if i > 0 {
			b.WriteByte('|')
		}
		fmt.Fprintf(&b, "%s:%d:%d", Bracketed(a.Host), a.QuorumPort, a.ElectionPort)
	}
	if m.Observer {
		b.WriteString(":observer")
	} else {
		b.WriteString(":participant")
	}
	if !m.Client.IsZero() {
		b.WriteString(";" + m.Client.String())
	} else if !m.Secure.IsZero() {
		b.WriteString(";")
	}
	if !m.Secure.IsZero() {
		b.WriteString(";" + m.Secure.String())
	}
	return b.String()
}
