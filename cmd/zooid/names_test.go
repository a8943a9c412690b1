//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unnamed is a server in a network of its own, where the test says which names there are.
type unnamed struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	log   strings.Builder
	hosts string // the file that is /etc/hosts there
}

// startUnnamed starts a server, an ensemble of one, whose lines name hosts that nobody knows.
func startUnnamed(t *testing.T, lines ...string) *unnamed {
	t.Helper()
	dir := t.TempDir()
	s := &unnamed{t: t, hosts: filepath.Join(dir, "hosts")}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("hosts", "127.0.0.1 localhost\n")
	write("data/myid", "1\n")
	write("zoo.cfg", strings.Join(append(lines, "tickTime=500", "initLimit=10", "syncLimit=5", "standaloneEnabled=false",
		"dataDir="+dir+"/data", "server.1=zk-0.not-yet.example:2881:3881;clients.not-yet.example:2181"), "\n")+"\n")
	s.cmd = exec.Command("unshare", "--net", "--mount", "sh", "-c",
		`ip link set lo up && mount --bind "$0" /etc/hosts && exec "$1"`, s.hosts, os.Args[0])
	s.cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS=server "+dir+"/zoo.cfg")
	if out, err := exec.Command("unshare", "--net", "--mount", "sh", "-c",
		`ip link set lo up && mount --bind "$0" /etc/hosts`, s.hosts).CombinedOutput(); err != nil {
		t.Skipf("needs namespaces of its own, as root: %v %s", err, out)
	}
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(2*time.Minute, func() { s.cmd.Process.Kill() })
	t.Cleanup(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, out)
		s.cmd.Wait()
		killed.Stop()
	})
	s.lines = bufio.NewScanner(io.TeeReader(out, &s.log))
	return s
}

// name makes a name known to the server.
func (s *unnamed) name(names ...string) {
	s.t.Helper()
	f, err := os.OpenFile(s.hosts, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for _, n := range names {
		fmt.Fprintf(f, "127.0.0.1 %s.not-yet.example\n", n)
	}
}

// await reads the log until a line has all texts.
func (s *unnamed) await(texts ...string) {
	s.t.Helper()
lines:
	for s.lines.Scan() {
		for _, text := range texts {
			if !strings.Contains(s.lines.Text(), text) {
				continue lines
			}
		}
		return
	}
	s.t.Fatalf("the log ends without %q:\n%s", texts, s.log.String())
}

// TestNameNotYetInDNS: a server waits for the names of all the addresses that it listens at, with one line for each.
func TestNameNotYetInDNS(t *testing.T) {
	t.Parallel()
	s := startUnnamed(t, "electionPortBindRetry=0", "admin.enableServer=true", "admin.plainRemote=true",
		"admin.serverAddress=admin.not-yet.example",
		"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
		"metricsProvider.httpHost=metrics.not-yet.example")
	s.await("ZD-1150", "metrics.not-yet.example:7000")
	s.name("metrics")
	s.await("ZD-1150", "admin.not-yet.example:8080")
	s.name("admin", "zk-0", "clients")
	s.await("msg=serving")
	if out, err := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(s.cmd.Process.Pid)+"/ns/net", "cat",
		"/proc/net/tcp").CombinedOutput(); err != nil || !strings.Contains(string(out), ":0B41 ") ||
		strings.Contains(string(out), ":0F29 ") { // 2881, 3881
		t.Errorf("the quorum port must be open and the election port not: %v\n%s", err, out)
	}
	if n := strings.Count(s.log.String(), "ZD-1150"); n < 2 || n > 4 { // the last names may have been there at once
		t.Errorf("%d lines say that the server waits; want one for each address\n%s", n, s.log.String())
	}
}

// TestNameNeverInDNS: it waits no longer than it is told to.
func TestNameNeverInDNS(t *testing.T) {
	t.Parallel()
	s := startUnnamed(t, "electionPortBindRetry=1")
	s.await("ZD-1150", "zk-0.not-yet.example:2881")
	s.await("ZD-1103", "zk-0.not-yet.example:2881")
}
