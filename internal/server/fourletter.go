package server

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
)

const (
	// wordTimeout ends a connection whose client doesn't read the answer to its four-letter word.
	wordTimeout = 10 * time.Second
	// wordMaskTimeout ends a connection whose client doesn't send the mask that belongs to stmk. Apache closes it at
	// once, even if the mask is only in the next packet.
	wordMaskTimeout = time.Second
	// lingerPatience is how long a connection stays open for its client to read the last reply and close it first.
	lingerPatience = time.Second
	// wordLinger is the same for a four-letter word, behind which the client may have sent more, such as a newline, and
	// for a TLS alert. It is short because a connection with a word no longer counts toward any limit.
	wordLinger = 200 * time.Millisecond
)

// fourLetterWord answers a four-letter word; rest is the input already read after it. The caller closes the connection.
func (a *acceptor) fourLetterWord(conn net.Conn, name string, rest []byte) {
	conn.SetDeadline(time.Now().Add(wordTimeout))
	conn.SetReadDeadline(time.Now().Add(wordMaskTimeout))
	a.replica.CountReceived()
	a.meters.BytesReceived.Add(int64(len(name)))
	ask := fourletter.Ask{
		Word: name, Remote: javaSocket(conn.RemoteAddr().String()), Done: a.closing, Serving: a.serving(), Started: true,
		From: socket.NetworkOf(conn.RemoteAddr()), To: socket.Output{Conn: conn}, Rest: socket.Replay(conn, rest),
	}
	if name == "srvr" || name == "stat" { // these ask whether the server is well; mntr says what is wrong
		ask.Serving = ask.Serving && a.stalls.stands() == ""
	}
	err := a.words.Answer(a.reports, ask, func(text []byte) error {
		if len(text) == 0 {
			return nil
		}
		conn.SetWriteDeadline(time.Now().Add(wordTimeout))
		_, err := conn.Write(text)
		if err == nil {
			a.replica.CountSent()
		}
		return err
	})
	if err != nil {
		a.clientLog.Info("a four-letter word's client did not take the answer", "word", fourletter.Printable(name),
			"client", conn.RemoteAddr().String(), "err", err)
		return
	}
	// The answer to the client's next word must not list this connection.
	a.connections.forget(conn)
	socket.Linger(conn, wordLinger)
}

// none is what Java prints for a property that doesn't exist.
const none = "<NA>"

// Environment returns what the envi four-letter word prints about the process: Apache's keys in
// Apache's order, with the closest equivalents that a Go process has.
func (s *Server) Environment() []fourletter.Variable {
	host, _ := os.Hostname()
	exe, _ := os.Executable()
	wd, _ := os.Getwd()
	var name, home string
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	free, most, total := processMemory()
	list := []fourletter.Variable{
		{Name: "zookeeper.version", Value: s.opt.Version},
		{Name: "host.name", Value: host},
		{Name: "java.version", Value: runtime.Version()},
		{Name: "java.vendor", Value: "The Go Authors"},
		{Name: "java.home", Value: none},
		{Name: "java.class.path", Value: exe},
		{Name: "java.library.path", Value: none},
		{Name: "java.io.tmpdir", Value: os.TempDir()},
		{Name: "java.compiler", Value: runtime.Compiler},
		{Name: "os.name", Value: javaSystem(runtime.GOOS)},
		{Name: "os.arch", Value: runtime.GOARCH},
		{Name: "os.version", Value: kernelVersion()},
		{Name: "user.name", Value: name},
		{Name: "user.home", Value: home},
		{Name: "user.dir", Value: wd},
		{Name: "os.memory.free", Value: megabytes(free)},
		{Name: "os.memory.max", Value: megabytes(most)},
		{Name: "os.memory.total", Value: megabytes(total)},
	}
	for i := range list {
		list[i].Value = cmp.Or(list[i].Value, none)
	}
	return list
}

func megabytes(n uint64) string { return fmt.Sprintf("%dMB", n>>20) }

// javaSystem returns Java's name of an operating system.
func javaSystem(goos string) string {
	switch goos {
	case "darwin":
		return "Mac OS X"
	case "freebsd":
		return "FreeBSD"
	}
	return strings.ToUpper(goos[:1]) + goos[1:]
}

// kernelVersion returns the release of the Linux kernel, or none on other systems.
func kernelVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return none
	}
	return strings.TrimSpace(string(b))
}

// processMemory returns the free bytes of the heap, the bytes that the process may use
// (GOMEMLIMIT), and the bytes that it has obtained from the system.
func processMemory() (free, most, total uint64) {
	samples := []rtmetrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/total:bytes"}}
	rtmetrics.Read(samples)
	most = uint64(min(debug.SetMemoryLimit(-1), math.MaxInt64)) // -1 only reads the limit
	return samples[0].Value.Uint64(), most, samples[1].Value.Uint64()
}

// openFiles returns how many files the process has open, or -1 if that isn't known.
func openFiles() int64 {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return -1
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return -1
	}
	return int64(len(names)) - 1 // dir itself
}

// openFilesMax returns how many files the process may have open, or -1 if that isn't known.
func openFilesMax() int64 {
	b, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			var soft int64
			if _, err := fmt.Sscan(rest, &soft); err == nil {
				return soft
			}
		}
	}
	return -1
}
