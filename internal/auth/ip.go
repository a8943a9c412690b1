package auth

import (
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// AddressID returns the identity for the IP address addr of 4 or 16 bytes, such as a net.IP. The id is the address as
// Java prints it: 10.0.0.1, or all eight groups of IPv6 without leading zeros, such as 0:0:0:0:0:0:0:1, followed by "%"
// and zone if zone isn't empty. An IPv4-mapped IPv6 address counts as IPv4. For any other length the identity matches
// nothing.
func AddressID(addr []byte, zone string) jute.ID {
	if len(addr) == 16 && string(addr[:12]) == "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff" {
		addr, zone = addr[12:], ""
	}
	var b []byte
	switch len(addr) {
	case 4:
		for i, c := range addr {
			if i > 0 {
				b = append(b, '.')
			}
			b = strconv.AppendUint(b, uint64(c), 10)
		}
	case 16:
		for i := 0; i < 16; i += 2 {
			if i > 0 {
				b = append(b, ':')
			}
			b = strconv.AppendUint(b, uint64(addr[i])<<8|uint64(addr[i+1]), 16)
		}
		if zone != "" {
			b = append(append(b, '%'), zone...)
		}
	}
	return jute.ID{Scheme: ip, ID: string(b)}
}

// address is an IP address: the first size bytes, 4 or 16, of b.
type address struct {
	b    [16]byte
	size int
}

// block is the set of addresses whose first bits are those of address.
type block struct {
	address
	bits int
}

// blockHolds reports whether the ip id of an ACL covers the ip id of a connection. An IPv4 block has no IPv6 addresses,
// and an IPv6 block no IPv4 addresses.
func blockHolds(acl, id string) bool {
	if acl == id {
		_, ok := parseAddress(id) // a bare address is by far the most frequent entry
		return ok
	}
	want, ok := parseBlock(acl)
	if !ok {
		return false
	}
	have, ok := parseAddress(id)
	return ok && want.holds(&have)
}

// holds reports whether an address is in the block.
func (b *block) holds(have *address) bool {
	if have.size != b.size {
		return false
	}
	whole := b.bits / 8
	if have.b != b.b && string(have.b[:whole]) != string(b.b[:whole]) {
		return false
	}
	rest := b.bits % 8
	return rest == 0 || (have.b[whole]^b.b[whole])>>(8-rest) == 0
}

// parseBlock parses a block in the form address or address/bits.
func parseBlock(s string) (block, bool) {
	text, bits, found := strings.Cut(s, "/")
	a, ok := parseAddress(text)
	if !ok {
		return block{}, false
	}
	n := a.size * 8
	if found {
		if n, ok = parseUint(bits, 10, n); !ok {
			return block{}, false
		}
	}
	return block{a, n}, true
}

// parseAddress parses four decimal numbers of 0 to 255 between dots, or IPv6: eight groups of one to four hex digits
// between colons, where one "::" may stand for one or more groups of zero. There is no mixed form.
func parseAddress(s string) (address, bool) {
	if strings.Contains(s, ":") {
		return parseIPv6(s)
	}
	a := address{size: 4}
	for i := range 4 {
		part, rest, found := strings.Cut(s, ".")
		n, ok := parseUint(part, 10, 255)
		if !ok || found != (i < 3) {
			return address{}, false
		}
		a.b[i], s = byte(n), rest
	}
	return a, true
}

func parseIPv6(s string) (address, bool) {
	head, tail, compressed := strings.Cut(s, "::")
	var front, back address
	m, ok := parseGroups(&front.b, head)
	if !ok || !compressed && m != 8 {
		return address{}, false
	}
	n, ok := parseGroups(&back.b, tail)
	if !ok || compressed && m+n > 7 {
		return address{}, false
	}
	copy(front.b[16-2*n:], back.b[:2*n])
	front.size = 16
	return front, true
}

// parseGroups parses at most eight groups into b and returns their number.
func parseGroups(b *[16]byte, s string) (int, bool) {
	if s == "" {
		return 0, true
	}
	for i := range 8 {
		part, rest, found := strings.Cut(s, ":")
		n, ok := parseUint(part, 16, 0xffff)
		if !ok || len(part) > 4 {
			return 0, false
		}
		b[2*i], b[2*i+1] = byte(n>>8), byte(n)
		if !found {
			return i + 1, true
		}
		s = rest
	}
	return 0, false
}

// parseUint parses a number of at most limit. Leading zeros are allowed. Unlike Apache's parser it accepts neither
// signs nor digits outside ASCII.
func parseUint(s string, base, limit int) (int, bool) {
	n := 0
	for i := range len(s) {
		c := int(s[i])
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n*base + c
		if c >= base || n > limit {
			return 0, false
		}
	}
	return n, len(s) > 0
}
