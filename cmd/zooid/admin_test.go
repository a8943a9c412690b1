package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a server process whose log is read until it serves.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   strings.Builder
	admin string // address of its admin server
	file  string // its zoo.cfg
	lines *bufio.Scanner
}

// startServer runs a server with a configuration file of these lines, in a folder of its own,
// and returns when it serves.
func startServer(t *testing.T, lines ...string) *process {
	t.Helper()
	p := launchServer(t, lines...)
	p.await("msg=serving")
	return p
}

// launchServer is startServer without waiting.
func launchServer(t *testing.T, lines ...string) *process {
	t.Helper()
	return launchWith(t, nil, lines...)
}

// launchWith is launchServer with arguments before the file's name.
func launchWith(t *testing.T, args []string, lines ...string) *process {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines = append(lines, "dataDir="+data)
	if !strings.Contains(strings.Join(lines, "\n"), "secureClientPortAddress=") {
		lines = append(lines, "clientPortAddress=127.0.0.1")
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(os.Args[0]), file: file}
	p.cmd.Env = append(os.Environ(),
		"ZOOID_TEST_ARGS="+strings.Join(append(append([]string{"server"}, args...), file), " "))
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(5*time.Minute, func() { p.cmd.Process.Kill() })
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, out)
		p.cmd.Wait()
		killed.Stop()
	})
	p.lines = bufio.NewScanner(io.TeeReader(out, &p.log))
	return p
}

// await reads the log until a line has the text.
func (p *process) await(text string) {
	p.t.Helper()
	for p.lines.Scan() {
		if line := p.lines.Text(); strings.Contains(line, "the admin server listens") {
			_, after, _ := strings.Cut(line, "address=")
			p.admin, _, _ = strings.Cut(after, " ")
		}
		if strings.Contains(p.lines.Text(), text) {
			return
		}
	}
	p.t.Fatalf("the log ends without %q:\n%s", text, p.log.String())
}

// get returns the status and the body of a page.
func (p *process) get(path string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.admin+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.do(req)
}

// do returns the status and the body of a request.
func (p *process) do(req *http.Request) (int, string) {
	p.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestAdminKeys: admin.enableServer, admin.serverAddress and admin.serverPort say where a
// server answers commands, and no secret of its configuration is shown there.
func TestAdminKeys(t *testing.T) {
	t.Parallel()
	p := startServer(t, "clientPort=0", "admin.enableServer=true", "admin.serverAddress=127.0.0.2", "admin.serverPort=0",
		"quorum.secret=0123456789012345678901234567")
	if !strings.HasPrefix(p.admin, "127.0.0.2:") || strings.HasSuffix(p.admin, ":8080") {
		t.Fatalf("it listens at %s", p.admin)
	}
	if status, body := p.get("/commands/initial_configuration"); status != http.StatusOK ||
		!strings.Contains(body, `quorum.secret=***\n`) || strings.Contains(body, "0123456789") {
		t.Errorf("%d, %s", status, body)
	}
	if without := startServer(t, "clientPort=0"); without.admin != "" {
		t.Errorf("without admin.enableServer it listens at %s", without.admin)
	}
}

// TestAdminHostNames: over plain HTTP the admin server is asked by the names that the configuration has for it, and by
// no other that somebody may have registered.
func TestAdminHostNames(t *testing.T) {
	t.Parallel()
	p := startServer(t, "clientPort=0", "admin.enableServer=true", "admin.serverPort=0",
		"admin.hostNames=zk-admin.example.com, Other.example.com.")
	for name, want := range map[string]int{
		"zk-admin.example.com": http.StatusOK, "other.example.com": http.StatusOK, "other.example.com:80": http.StatusOK,
		"evil.example.com": http.StatusMisdirectedRequest, "zk-admin.example.com.evil.org": http.StatusMisdirectedRequest,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+"/commands/ruok", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = name
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("as %s: status %d, want %d", name, answer.StatusCode, want)
		}
	}
}

// TestProperties: the properties that the admin server shows.
func TestProperties(t *testing.T) {
	t.Parallel()
	got := properties([]string{"zoo.cfg", "-D", "zookeeper.a=b=c", "-Dd", "-D", "zookeeper.DigestAuthenticationProvider.superDigest=super:x", "-Xmx1g"})
	want := map[string]string{"zookeeper.a": "b=c", "d": "", "zookeeper.DigestAuthenticationProvider.superDigest": "***"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s is %q, want %q", name, v, value)
		}
	}
}
