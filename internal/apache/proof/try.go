package proof

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A Try names one run of a command that moves an ensemble. All the run's requests to other machines, and the answers,
// contain it, so that an answer to an earlier run isn't mistaken for one to this run.
type Try string

// tryBytes is the number of random bytes of a Try.
const tryBytes = 8

// NewTry draws a Try.
func NewTry() Try {
	var b [tryBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // it can't fail on the supported systems
	}
	return Try(hex.EncodeToString(b[:]))
}

// Valid reports whether t has the form of a Try.
func (t Try) Valid() bool {
	b, err := hex.DecodeString(string(t))
	return err == nil && len(b) == tryBytes
}

// A Request asks a stopped server's machine for the transactions of its log after a zxid, and for what the machine
// knows about the server's end.
type Request struct {
	After int64
	Try   Try
	Ports []string // host:port at which the running server listens
}

// String returns the request as one word, which needs no quotes in a shell:
//
//	0x500000123/0123456789abcdef/zk1:2888,zk1:3888,zk1:2181
func (r Request) String() string {
	text := fmt.Sprintf("%#x", uint64(r.After))
	if r.Try == "" {
		return text
	}
	ports := make([]string, len(r.Ports))
	for i, p := range r.Ports {
		ports[i] = strings.NewReplacer("[", "", "]", "").Replace(p)
	}
	return text + "/" + string(r.Try) + "/" + strings.Join(ports, ",")
}

// portsMax bounds the ports in a request.
const portsMax = 64

// ParseRequest parses what String returns. A zxid alone is a request without a Try, whose answer proves nothing.
func ParseRequest(text string) (r Request, err error) {
	zxid, rest, more := strings.Cut(text, "/")
	if r.After, err = strconv.ParseInt(zxid, 0, 64); err != nil || r.After < 0 {
		return r, errors.New("want a request as zooid migrate switch prints it, such as 0x500000123/0123456789abcdef/zk1:3888")
	}
	if !more {
		return r, nil
	}
	try, ports, _ := strings.Cut(rest, "/")
	if r.Try = Try(try); !r.Try.Valid() {
		return r, fmt.Errorf("%q isn't a try's name from zooid migrate switch", try)
	}
	for part := range strings.SplitSeq(ports, ",") {
		at := strings.LastIndexByte(part, ':')
		if at <= 0 || len(r.Ports) == portsMax {
			return r, fmt.Errorf("%q isn't a list of at most %d ports", ports, portsMax)
		}
		n, err := strconv.ParseUint(part[at+1:], 10, 16)
		if err != nil || n == 0 || strings.ContainsAny(part[:at], "[]") { // String writes none
			return r, fmt.Errorf("%q isn't a port", part)
		}
		r.Ports = append(r.Ports, net.JoinHostPort(part[:at], part[at+1:]))
	}
	return r, nil
}
