//go:build linux

package proof

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// quiet returns the address of a port that answers nothing: its queue is full, as behind a firewall that drops packets.
func quiet(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the queue doesn't fill up")
	return ""
}

// TestProbe: a port is open, or closed, or it isn't known.
func TestProbe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	silent := quiet(t)
	got := Probe(t.Context(), []string{l.Addr().String(), gone.Addr().String(), silent})
	if got[l.Addr().String()] != Open || got[gone.Addr().String()] != Closed || got[silent] != Unknown {
		t.Errorf("%v; want open, closed, and not known", got)
	}
}

// TestProbeAll: a name stands for several addresses, of which the first may refuse connections.
func TestProbeAll(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, open, _ := net.SplitHostPort(l.Addr().String())
	_, silent, _ := net.SplitHostPort(quiet(t))
	here, refuses, other := net.IPv4(127, 0, 0, 1), net.IPv4(127, 83, 0, 2), net.IPv4(127, 83, 0, 3)
	for _, c := range []struct {
		port string
		ips  []net.IP
		want Port
	}{
		{open, []net.IP{refuses, here}, Open},
		{open, []net.IP{here, refuses}, Open},
		{open, []net.IP{refuses, other}, Closed},
		{silent, []net.IP{refuses, here}, Unknown},
		{silent, []net.IP{here, refuses}, Unknown},
		{silent, nil, Unknown},
	} {
		var ips []net.IPAddr
		for _, ip := range c.ips {
			ips = append(ips, net.IPAddr{IP: ip})
		}
		ctx, cancel := context.WithTimeout(t.Context(), portPatience)
		if got := probeAll(ctx, ips, c.port); got != c.want {
			t.Errorf("%v, port %s: %s; want %s", c.ips, c.port, got, c.want)
		}
		cancel()
	}
}

// TestProbeOwn: on a server's machine a refusal counts only from the machine's own addresses.
func TestProbeOwn(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	closed := gone.Addr().String()
	if got := ProbeOwn(t.Context(), []string{closed}); got[closed] != Closed {
		t.Errorf("%v; want closed", got)
	}
	_, mine, _ := net.ParseCIDR("198.51.100.0/24")
	mine.IP = net.IPv4(198, 51, 100, 7)
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "198.51.100.7:1": true, "198.51.100.8:1": false,
		"[2001:db8::7]:1": false, "no-such-name.invalid:1": false, "198.51.100.7": false,
	} {
		if have := ownAddress(t.Context(), address, []net.Addr{mine}); have != want {
			t.Errorf("%s is the machine's own: %t", address, have)
		}
	}
}

// TestHolders: a file that a process has open is found by its inode, through another path too; and what another user
// can't see is not known.
func TestHolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "log.1")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := Holders(dir); err != nil || f.Held != "" || !f.Known {
		t.Errorf("nobody has it open: %+v, %v", f, err)
	}
	other := filepath.Join(t.TempDir(), "link")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(other, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if f, err := Holders(dir); err != nil || !strings.Contains(f.Held, fmt.Sprintf("process %d has", os.Getpid())) {
		t.Errorf("open under another name: %+v, %v", f, err)
	}
	// Where /proc shows nothing, the kernel still knows that somebody writes.
	if f, why := leased([]string{path}); f.Held == "" {
		t.Errorf("the lease: %+v, %s", f, why)
	}
	file.Close()
	if f, why := leased([]string{path}); !f.Known {
		t.Errorf("the lease when it is closed: %+v, %s", f, why)
	}
	if f := shown(t.TempDir(), nil); f.Known || f.Why == "" {
		t.Errorf("without /proc: %+v", f)
	}
}

// asOther is set in the process of TestHoldersOfOthers that runs as another user.
const asOther = "ZOOID_PROOF_DIR"

// TestHoldersOfOthers: a user who can neither see the processes nor take a lease knows nothing.
func TestHoldersOfOthers(t *testing.T) {
	if dir := os.Getenv(asOther); dir != "" {
		f, err := Holders(dir)
		fmt.Printf("held %q known %v err %v\n", f.Held, f.Known, err)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("it takes root to become another user")
	}
	dir, err := os.MkdirTemp("/tmp", "proof") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "proof.test"), program, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "data"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "data", "log.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(filepath.Join(dir, "proof.test"), "-test.run", "^TestHoldersOfOthers$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asOther+"="+filepath.Join(dir, "data"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `held "" known false err <nil>`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestJudge: what proves that a server has stopped, what shows that it runs, and what proves neither.
func TestJudge(t *testing.T) {
	t.Parallel()
	try := NewTry()
	for name, c := range map[string]struct {
		change      func(*Server)
		runs, lacks string
	}{
		"a proof": {func(*Server) {}, "", ""},
		"filtered from afar, refused on its machine": {func(s *Server) {
			s.Before["h:3888"], s.After["h:3888"] = Unknown, Unknown
		}, "", ""},
		"filtered": {func(s *Server) { s.After["h:3888"], s.Said.Ports["h:3888"] = Unknown, Unknown }, "", "h:3888"},
		"refused by a firewall": {func(s *Server) {
			s.Before["h:3888"], s.Said.Ports["h:3888"] = Closed, Unknown
		}, "", "h:3888"},
		"the election port":   {func(s *Server) { s.After["h:3888"] = Open }, "h:3888", ""},
		"the client port":     {func(s *Server) { s.After["h:2181"] = Open }, "h:2181", ""},
		"seen on its machine": {func(s *Server) { s.Said.Ports["h:2888"] = Open }, "h:2888", ""},
		"open files":          {func(s *Server) { s.Said.Files = Files{Held: "the process 7"} }, "the process 7", ""},
		"unseen files":        {func(s *Server) { s.Said.Files = Files{Why: "others"} }, "", "others"},
		"an earlier try":      {func(s *Server) { s.Said.Try = NewTry() }, "", "from another try"},
		"no testimony":        {func(s *Server) { s.Said = nil }, "", "zooid migrate tail"},
		"another directory":   {func(s *Server) { s.Joined = false }, "", "-datalogdir"},
		"another end":         {func(s *Server) { s.Last++ }, "", "where its log ends"},
	} {
		s := Server{
			ID: 1, Election: []string{"h:3888"}, Others: []string{"h:2888", "h:2181"}, Last: 9, Joined: true, Copied: 9,
			Before: map[string]Port{"h:3888": Open, "h:2888": Closed, "h:2181": Open},
			After:  map[string]Port{"h:3888": Closed, "h:2888": Closed, "h:2181": Closed},
			Said: &Testimony{Try: try, Last: 9, Files: Files{Known: true},
				Ports: map[string]Port{"h:3888": Closed, "h:2888": Closed, "h:2181": Closed}},
		}
		c.change(&s)
		v := s.Judge(try)
		runs, lacks := strings.Join(v.Runs, " "), strings.Join(v.Lacks, " ")
		if v.Stopped() != (c.runs+c.lacks == "") || !strings.Contains(runs, c.runs) || !strings.Contains(lacks, c.lacks) ||
			(c.runs == "") != (runs == "") || (c.lacks == "") != (lacks == "") {
			t.Errorf("%s: runs %q, lacks %q; want %q and %q", name, runs, lacks, c.runs, c.lacks)
		}
	}
}

// TestTestimony: what is printed is found again, between what a login shell says; half of it isn't.
func TestTestimony(t *testing.T) {
	t.Parallel()
	want := Testimony{Try: NewTry(), Last: 7, Files: Files{Known: true}, Ports: map[string]Port{"h:1": Closed}}
	line := want.Line()
	got, err := FindTestimony([]byte("Welcome\n" + line + "more"))
	if err != nil || got.Try != want.Try || got.Last != 7 || !got.Files.Known || got.Ports["h:1"] != Closed {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "Welcome\n", line[:len(line)-1], "zooid stopped 1: ?\n"} {
		if got, err := FindTestimony([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestRequest: a request is one word, and is parsed again.
func TestRequest(t *testing.T) {
	t.Parallel()
	r := Request{After: 0x500000123, Try: NewTry(), Ports: []string{"zk1:2888", "[fe80::1]:3888"}}
	text := r.String()
	if strings.ContainsAny(text, "[]*?$ '\"") {
		t.Errorf("a shell reads %q otherwise", text)
	}
	if got, err := ParseRequest(text); err != nil || got.After != r.After || got.Try != r.Try ||
		len(got.Ports) != 2 || got.Ports[0] != r.Ports[0] || got.Ports[1] != r.Ports[1] {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "x", "-1", "1/2/h:1", "1/0123456789abcdef/", "1/0123456789abcdef/h",
		"1/0123456789abcdef/h:0"} {
		if got, err := ParseRequest(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
