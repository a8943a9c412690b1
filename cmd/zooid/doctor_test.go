//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/doctor"
	"github.com/zooid-project/zooid/internal/tool/setup"
)

// A patient is a server on this machine that nothing is wrong with, until a test plants something. Nothing of it is
// faked: the test looks at it with the command alone.
type patient struct {
	t     *testing.T
	dir   string // its folder
	ports []int  // of server i: 3i for the quorum, 3i+1 for elections, 3i+2 for clients; the last is free
	limit int    // of open files, for the command; 0 is this process's
	disk  bool   // the disk is measured, too
}

// newPatient writes an ensemble of three, as zooid init does, at a time.
func newPatient(t *testing.T, secure bool, at time.Time) *patient {
	t.Helper()
	root := t.TempDir()
	p := &patient{t: t, dir: filepath.Join(root, "1"), ports: freeport.Take(t, 16)}
	o := setup.Options{Dir: root, TLS: secure, Now: at}
	for i := range 3 {
		o.Hosts = append(o.Hosts, fmt.Sprintf("127.0.0.1:%d:%d", p.ports[3*i], p.ports[3*i+1]))
		o.Ports = append(o.Ports, setup.Ports{Client: p.ports[3*i+2], Admin: p.ports[9+2*i], Metrics: p.ports[10+2*i]})
	}
	_, err := setup.Write(o)
	p.must(err)
	if secure { // the strict profile refuses some of what is planted
		p.replace("security.profile=strict\n", "")
	}
	return p
}

func (p *patient) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *patient) path(name string) string { return filepath.Join(p.dir, name) }

func (p *patient) write(name, text string) {
	p.t.Helper()
	p.must(os.WriteFile(p.path(name), []byte(text), 0o600))
}

// replace changes the configuration; with no old text it appends.
func (p *patient) replace(old, text string) {
	p.t.Helper()
	b, err := os.ReadFile(p.path("zoo.cfg"))
	p.must(err)
	if !strings.Contains(string(b), old) {
		p.t.Fatalf("%q is not in\n%s", old, b)
	}
	if old == "" {
		p.write("zoo.cfg", string(b)+text)
		return
	}
	p.write("zoo.cfg", strings.Replace(string(b), old, text, 1))
}

// moveTo gives all servers another host: doctor tells of a loopback address among others.
func (p *patient) moveTo(host string) {
	p.t.Helper()
	for i := range 3 {
		p.replace(fmt.Sprintf("server.%d=127.0.0.1:", i+1), fmt.Sprintf("server.%d=%s:", i+1, host))
	}
}

// serve has something answer each request at a port, until the test ends.
func (p *patient) serve(port int, answer func(word string) string) {
	p.t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	p.must(err)
	p.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(c, word); err == nil {
				io.WriteString(c, answer(string(word)))
			}
			c.Close()
		}
	}()
}

// serveAs has a server of a version answer at the client port of server i, with its clock ahead.
func (p *patient) serveAs(i int, version string, ahead time.Duration) {
	p.serve(p.ports[3*i+2], func(word string) string {
		if word == "srvr" {
			return "Zookeeper version: " + version + ", built on 2026-01-01\n"
		}
		return fmt.Sprintf("zk_clock_ms\t%d\n", time.Now().Add(ahead).UnixMilli())
	})
}

// run runs zooid doctor in the patient's folder.
func (p *patient) run(args string) (exit int, out string) {
	p.t.Helper()
	if !p.disk {
		args = "-no-disk " + args
	}
	cmd := exec.Command(os.Args[0])
	if p.limit > 0 {
		cmd = exec.Command("/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, p.limit), os.Args[0])
	}
	var text bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout = p.dir, append(os.Environ(), "ZOOID_TEST_ARGS=doctor "+args+" zoo.cfg"), &text
	err := cmd.Run()
	if bad := (*exec.ExitError)(nil); err != nil && !errors.As(err, &bad) {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), text.String()
}

// report runs zooid doctor -json.
func (p *patient) report() (exit int, r doctor.Report) {
	p.t.Helper()
	exit, out := p.run("-json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		p.t.Fatalf("exit code %d, it says %s: %v", exit, out, err)
	}
	return exit, r
}

// small mounts a file system of 16 MiB in memory as the patient's data directory; a test that may not mount is skipped.
func (p *patient) small() {
	p.t.Helper()
	data := p.path("data")
	myid, err := os.ReadFile(filepath.Join(data, "myid"))
	p.must(err)
	if err := unix.Mount("none", data, "tmpfs", 0, "size=16m,mode=0700"); err != nil {
		p.t.Skipf("mounting isn't allowed here: %v", err)
	}
	p.t.Cleanup(func() { unix.Unmount(data, unix.MNT_DETACH) })
	p.must(os.WriteFile(filepath.Join(data, "myid"), myid, 0o600))
}

// A plant is a fault that is really there, and what doctor is to say of it.
type plant struct {
	name         string
	secure       bool
	check, level string
	says         string
	plant        func(p *patient)
}

// plants are the faults of TestDoctor.
var plants = []plant{
	{"unknown key", false, "configuration", doctor.Warning,
		"clientProt", func(p *patient) { p.replace("", "clientProt=1\n") }},
	{"bad value", false, "configuration", doctor.Fault,
		"tickTime", func(p *patient) { p.replace("tickTime=2000", "tickTime=soon") }},
	{"wrong myid", false, "configuration", doctor.Fault, "id 9 has no server line",
		func(p *patient) { p.write("data/myid", "9\n") }},
	{"two voters", false, "configuration", doctor.Warning, "stops the ensemble", func(p *patient) {
		p.replace(fmt.Sprintf("server.3=127.0.0.1:%d:%d;%d\n", p.ports[6], p.ports[7], p.ports[8]), "")
	}},
	{"no ACLs", false, "keys", doctor.Fault, "skipACL=yes", func(p *patient) { p.replace("", "skipACL=yes\n") }},
	{"no purge", false, "keys", doctor.Warning,
		"purgeInterval=0", func(p *patient) { p.replace("purgeInterval=1", "purgeInterval=0") }},
	{"peers without certificates", true, "keys", doctor.Fault,
		"ssl.quorum.clientAuth=want", func(p *patient) { p.replace("", "ssl.quorum.clientAuth=want\n") }},
	{"one client address twice", false, "addresses", doctor.Fault, "same client address", func(p *patient) {
		p.replace(fmt.Sprintf(";%d\n", p.ports[5]), fmt.Sprintf(";%d\n", p.ports[8]))
	}},
	{"unresolvable name", false, "names", doctor.Fault, "the name zooid.invalid doesn't resolve", func(p *patient) {
		p.moveTo("zooid.invalid")
	}},
	{"another machine's line", false, "names", doctor.Fault, "isn't an address of this machine", func(p *patient) {
		p.moveTo("192.0.2.1") // of those for documentation
	}},
	{"quorum port taken", false, "ports", doctor.Fault, "is taken by another program",
		func(p *patient) { p.serve(p.ports[0], strings.ToUpper) }},
	{"admin port taken", false, "ports", doctor.Fault, "is taken by another program", func(p *patient) {
		p.replace("", fmt.Sprintf("admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=%d\n", p.ports[9]))
		p.serve(p.ports[9], strings.ToUpper)
	}},
	{"data directory 0777", false, "directories", doctor.Fault, "others may write to it (mode 0777)",
		func(p *patient) { p.must(os.Chmod(p.path("data"), 0o777)) }},
	{"data directory 0755", false, "directories", doctor.Warning, "everybody may look into it (mode 0755)",
		func(p *patient) { p.must(os.Chmod(p.path("data"), 0o755)) }},
	{"log directory is a file", false, "directories", doctor.Fault, "isn't a directory", func(p *patient) {
		p.write("log", "")
		p.replace("", "dataLogDir="+p.path("log")+"\n")
	}},
	{"Apache's version-2", false, "data", doctor.Fault, "contains the tree of an Apache", func(p *patient) {
		p.must(os.Mkdir(p.path("data/version-2"), 0o700))
		p.write("data/version-2/snapshot.0", "ZKSN")
	}},
	{"entry that panics", false, "data", doctor.Fault, "stopped at log entry 12", func(p *patient) {
		d, err := storage.Open(storage.Options{Dir: p.path("data"), ClusterID: 7})
		p.must(err)
		_, _, err = d.KeepReport(storage.Report{Index: 12, Term: 3, Data: []byte("entry"), Text: "stack"})
		p.must(errors.Join(err, d.Close()))
	}},
	{"recovery cut short", false, "data", doctor.Fault, "was cut short",
		func(p *patient) { p.must(os.Mkdir(p.path("data/recover-ready"), 0o700)) }},
	{"secret 0644", false, "secrets", doctor.Fault, "others may read it (mode 0644)",
		func(p *patient) { p.must(os.Chmod(p.path("secret"), 0o644)) }},
	{"short secret", false, "secrets", doctor.Fault, "has 5 characters",
		func(p *patient) { p.write("secret", "short\n") }},
	{"key store 0644", true, "secrets", doctor.Fault, "the key store",
		func(p *patient) { p.must(os.Chmod(p.path("server.pem"), 0o644)) }},
	{"passwords 0644", false, "secrets", doctor.Fault, "which holds passwords", func(p *patient) {
		p.replace("", "DigestAuthenticationProvider.superDigest=super:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
		p.must(os.Chmod(p.path("zoo.cfg"), 0o644))
	}},
	{"ended certificate", true, "certificates", doctor.Fault, "expired on",
		func(p *patient) { p.from(newPatient(p.t, true, time.Now().AddDate(-4, 0, 0))) }},
	{"certificate about to end", true, "certificates", doctor.Warning, "expires on",
		func(p *patient) { p.from(newPatient(p.t, true, time.Now().AddDate(0, 0, -815))) }},
	{"another issuer's certificate", true, "certificates", doctor.Fault,
		"won't trust the certificate", func(p *patient) {
			b, err := os.ReadFile(newPatient(p.t, true, time.Now()).path("server.pem"))
			p.must(err)
			p.write("server.pem", string(b))
		}},
	{"data in memory", false, "disk", doctor.Fault, "is on tmpfs", func(p *patient) {
		p.small()
		p.disk = true
	}},
	{"no space", false, "space", doctor.Fault, "the server refuses writes", func(p *patient) {
		p.small()
		p.write("data/filling", strings.Repeat("x", 15<<20))
	}},
	{"ulimit -n 256", false, "descriptors", doctor.Warning, "may open 256 files", func(p *patient) { p.limit = 256 }},
	{"limit above the machine's memory", false, "memory", doctor.Fault,
		"the kernel would kill the server", func(p *patient) {
			p.replace("", "memory.limit=1000000000000000\n")
		}},
	{"a server whose disk hangs", false, "hangs", doctor.Fault, "server 2: a write of its log has been under way for 5s",
		func(p *patient) {
			p.serve(p.ports[5], func(word string) string {
				if word == "srvr" {
					return "This ZooKeeper instance is not currently serving requests\n"
				}
				return "zk_fsync_in_flight_ms\t5000\nzk_last_turn_ms\t20\n"
			})
		}},
	{"a clock ahead", false, "clocks", doctor.Fault, "differ: server 2: +", func(p *patient) {
		p.serveAs(1, "3.9.5-x", time.Hour)
		p.serveAs(2, "3.9.5-x", 0)
	}},
	{"clock gone back", false, "clocks", doctor.Fault, "has gone back", func(p *patient) {
		later := time.Now().Add(time.Hour)
		p.must(os.Chtimes(p.path("data/myid"), later, later))
	}},
	{"two versions", false, "versions", doctor.Warning, "3.9.5-x on server 2; 3.9.4-x on server 3", func(p *patient) {
		p.serveAs(1, "3.9.5-x", 0)
		p.serveAs(2, "3.9.4-x", 0)
	}},
	{"something else answers", false, "versions", doctor.Fault, "something other than a server answers", func(p *patient) {
		p.serve(p.ports[5], func(string) string { return "220 mail" })
	}},
}

// from takes the stores of another patient.
func (p *patient) from(other *patient) {
	for _, name := range []string{"server.pem", "ca.pem"} {
		b, err := os.ReadFile(other.path(name))
		p.must(err)
		p.write(name, string(b))
	}
}

// TestDoctor plants one fault at a time on this machine and runs the command: it finds the fault, finds nothing else
// that it doesn't find without it, says what to do as text and as JSON, and ends with the code that its help promises.
func TestDoctor(t *testing.T) {
	t.Parallel()
	exits, without := map[bool]int{}, map[bool]doctor.Report{}
	for _, secure := range []bool{false, true} {
		p := newPatient(t, secure, time.Now())
		exits[secure], without[secure] = p.report()
		if len(without[secure].Checks) != 18 {
			t.Errorf("it did %q", without[secure].Checks)
		}
		for _, f := range without[secure].Findings {
			if !slices.Contains(ofTheMachine, f.Check) {
				t.Errorf("nothing is planted, TLS %t, and it finds %+v", secure, f)
			}
		}
	}
	for _, c := range plants {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, c.secure, time.Now())
			c.plant(p)
			exit, r := p.report()
			found := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool {
				return f.Check == c.check && f.Level == c.level && strings.Contains(f.What, c.says)
			})
			if found < 0 {
				t.Fatalf("not found; doctor says %+v", r.Findings)
			}
			for _, f := range r.Findings {
				ignored := f.Check == "configuration" && f.Level == doctor.Warning // what the server would warn of, too
				if f.Check != c.check && !ignored && !slices.Contains(ofTheMachine, f.Check) {
					t.Errorf("it was not planted: %+v", f)
				}
			}
			for _, f := range without[c.secure].Findings {
				if f.Check == c.check && strings.Contains(f.What, c.says) {
					t.Errorf("it is found without being planted: %+v", f)
				}
			}
			want := 1
			if c.level == doctor.Warning {
				want = exits[c.secure]
			}
			if exit != want || c.level == doctor.Fault && r.Faults == 0 {
				t.Errorf("exit code %d, want %d, with %d faults", exit, want, r.Faults)
			}
			exit, text := p.run("-strict")
			what := fmt.Sprintf("%s (%s): ", c.level, c.check)
			if !strings.Contains(text, what) || !strings.Contains(text, c.says) ||
				!strings.Contains(text, "    do: "+r.Findings[found].Do+"\n") || exit != 1 {
				t.Errorf("-strict: exit code %d,\n%s", exit, text)
			}
		})
	}
}
