//go:build linux

package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/zk"
)

// shellArguments makes the test binary be the shell: a process of its own is what
// a terminal can interrupt.
const shellArguments = "ZOOID_TEST_SHELL"

func TestMain(m *testing.M) {
	if arguments, ok := os.LookupEnv(shellArguments); ok {
		os.Exit(Main("cli", strings.Fields(arguments), Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "TEST"))
	}
	os.Exit(m.Run())
}

// terminalShell is a shell at a terminal, and its keys.
type terminalShell struct {
	t       *testing.T
	keys    *os.File
	side    *os.File // the shell's, kept open to see how it leaves the terminal
	process *exec.Cmd

	mu     sync.Mutex // held by who reads: whoever else holds it stops the terminal
	screen bytes.Buffer
	news   chan struct{}
}

// atTerminal starts a shell.
func atTerminal(t *testing.T, environment []string, arguments ...string) *terminalShell {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	v := &terminalShell{t: t, keys: keys, side: side, process: exec.Command(os.Args[0]), news: make(chan struct{}, 1)}
	v.process.Env = append(os.Environ(), shellArguments+"="+strings.Join(arguments, " "), "TERM=xterm", "NO_COLOR=")
	v.process.Env = append(v.process.Env, environment...)
	v.process.Stdin, v.process.Stdout, v.process.Stderr = side, side, side
	v.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := v.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.process.Process.Kill()
		v.process.Wait()
		side.Close()
		keys.Close()
	})
	go v.watch([]unix.PollFd{{Fd: int32(keys.Fd()), Events: unix.POLLIN}})
	return v
}

// watch collects what appears, until the shell ends. ready is v.keys, which the test may close meanwhile.
func (v *terminalShell) watch(ready []unix.PollFd) {
	defer close(v.news)
	part := make([]byte, 4<<10)
	for {
		// Like terminals do: a read without news would be news to who writes.
		if _, err := unix.Poll(ready, -1); err == unix.EINTR {
			continue
		}
		n, err := v.keys.Read(part)
		if err != nil {
			return
		}
		v.mu.Lock()
		v.screen.Write(part[:n])
		v.mu.Unlock()
		select {
		case v.news <- struct{}{}:
		default:
		}
	}
}

// see waits for text, and forgets all up to its end, which it returns.
func (v *terminalShell) see(text string) (seen string) {
	v.t.Helper()
	late := time.After(time.Minute)
	for {
		v.mu.Lock()
		at := bytes.Index(v.screen.Bytes(), []byte(text))
		if at >= 0 {
			seen = string(v.screen.Next(at + len(text)))
		}
		screen := v.screen.String()
		v.mu.Unlock()
		if at >= 0 {
			return seen
		}
		select {
		case _, ok := <-v.news:
			if ok {
				continue
			}
		case <-late:
		}
		v.t.Fatalf("%q doesn't appear in %q", text, screen)
	}
}

func (v *terminalShell) press(keys string) {
	v.t.Helper()
	if _, err := io.WriteString(v.keys, keys); err != nil {
		v.t.Fatal(err)
	}
}

// Keys.
const (
	tab, enter, up             = "\t", "\r", "\x1b[A"
	ctrlC, ctrlD, ctrlR, ctrlU = "\x03", "\x04", "\x12", "\x15"
)

// relay passes connections on to a server until it is cut.
type relay struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func startRelay(t *testing.T, address string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	t.Cleanup(func() {
		l.Close()
		r.cut()
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			go io.Copy(in, out)
			go io.Copy(out, in)
		}
	}()
	return r
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// TestTerminal sits at a terminal: completion, history over restarts and by search,
// events while typing, a connection that breaks, colours, interrupts.
func TestTerminal(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, r := open(t, address), startRelay(t, address)
	at := r.Addr().String()
	history := "ZOOID_HISTORY=" + filepath.Join(t.TempDir(), "history")
	v := atTerminal(t, []string{history}, "-server", at)
	v.see("[zk: " + at + "(CONNECTED) 0] ")
	v.press("creat" + tab + "/app hello" + enter)
	v.see("Created /app")
	v.press("get /a" + tab + enter)
	v.see("hello")
	v.press("tree /" + enter)
	v.see("\x1b[1;34m/\x1b[0m")
	v.press("get -w /app" + enter)
	v.see("hello")
	v.see(" 4] ")
	v.press("ls /ap")
	v.see("ls /ap")
	if _, err := c.Set(t.Context(), "/app", []byte("changed"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	v.see("type:NodeDataChanged path:/app")
	v.see("ls /ap") // drawn again
	r.cut()
	v.see("state:Disconnected")
	v.see("state:SyncConnected")
	v.see("ls /ap")
	v.press(ctrlU + ctrlC)
	v.see(" 4] ")
	v.press("watch /app" + enter)
	v.see("Ctrl-C ends it")
	v.press(ctrlC)
	v.see(" 5] ")
	v.press(ctrlR + "get /")
	v.see("reverse-i-search")
	v.press(enter)
	v.see("changed")
	v.press("nosuch" + enter)
	v.see("Command not found")
	v.press(ctrlD)
	if err := v.process.Wait(); v.process.ProcessState.ExitCode() != exitUnknown {
		t.Errorf("it ended with %v", err)
	}

	v = atTerminal(t, []string{history}, "-server", at)
	v.see(" 0] ")
	v.press(up + up + enter)
	v.see("changed")

	v = atTerminal(t, nil, "-server", "127.0.0.1:1", "ls", "/")
	v.see("no connection to 127.0.0.1:1")
	v.see("Ctrl-C gives up")
	v.press(ctrlC)
	v.see("interrupted")

	v = atTerminal(t, []string{"NO_COLOR=1"}, "-server", at, "tree", "/app")
	v.see("/app\r\n\r\n1 znode\r")
}

// TestInterruptAtTerminal interrupts a listing that the terminal doesn't keep up
// with: the shell goes on.
func TestInterruptAtTerminal(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	v := newSession(t, address)
	v.must(t, "create", "/long")
	for range 10 {
		v.must(t, "txn", strings.Repeat("create -s /long/"+strings.Repeat("x", 200)+" ; ", 1000))
	}
	w := atTerminal(t, []string{"ZOOID_HISTORY="}, "-server", address)
	w.see(" 0] ")
	if w.mode()&unix.NOFLSH == 0 {
		t.Error("an interrupt would drop output, and might stop the shell for ever: see terminal.KeepOutput")
	}
	for i := range 3 {
		w.press("find /long" + enter)
		w.see("/long/x")
		w.press(ctrlC)
		w.see(fmt.Sprintf(" %d] ", i+1))
	}
	w.press("version" + enter)
	w.see("ZooKeeper CLI version")
	w.press(ctrlD)
	if err := w.process.Wait(); err != nil {
		t.Error(err)
	}
	if mode := w.mode(); mode&unix.NOFLSH != 0 || mode&unix.ECHO == 0 || mode&unix.ICANON == 0 {
		t.Errorf("the shell leaves the terminal in another mode: %#x", mode)
	}
}

// mode returns the terminal's local modes.
func (v *terminalShell) mode() uint32 {
	mode, err := unix.IoctlGetTermios(int(v.side.Fd()), unix.TCGETS)
	if err != nil {
		v.t.Fatal(err)
	}
	return mode.Lflag
}

// TestMirrorAsksAtATerminal answers the question before a large deletion, and breaks
// it off.
func TestMirrorAsksAtATerminal(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := open(t, address)
	plant(t, c, "/from", "/to", "/to/x")
	for _, k := range []struct{ keys, then string }{
		{"no\n", "it would delete 1 of the target's 2 znodes"},
		{ctrlC, "it would delete 1 of the target's 2 znodes"},
		{"yes\n", "0 created, 0 changed, 1 deleted"},
	} {
		v := atTerminal(t, nil, "-server", address, "mirror", "-delete", "/from", "/to")
		v.see("Do it? (yes/no) ")
		v.press(k.keys)
		v.see(k.then)
	}
}

// TestStartFlagsSteerNothing gives the shell hostile flags of its own.
func TestStartFlagsSteerNothing(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{
		"-" + evilWord, "-timeout=" + evilWord, "-o=" + evilWord, "-server=" + evilWord + "//", "-D" + evilWord,
		"-auth-file=" + evilWord, "-sasl=" + evilWord, "-client-configuration=" + evilWord, "-r=" + evilWord,
	} {
		v := atTerminal(t, nil, flag)
		text := v.see("hint: zooid cli --help lists the flags")
		tame(t, flag, strings.ReplaceAll(text, "\r\n", "\n")) // the terminal's own line ends
		if err := v.process.Wait(); v.process.ProcessState.ExitCode() != exitUsage {
			t.Errorf("%q: %v", flag, err)
		}
	}
}

// evilWord is as much of evil as a word has.
var evilWord = strings.Join(strings.Fields(evil), "")
