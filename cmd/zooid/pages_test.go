package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/setup"
)

// elsewhere are the commands of the pages that TestPagesCommands doesn't run, and what runs them.
var elsewhere = map[string]string{
	"zooid cli":                  "a prompt: TestTerminal (internal/tool/cli)",
	"zooid server":               "it doesn't end: TestStartAndStop",
	"zooid server /etc/zoo.cfg":  "it doesn't end: TestStartAndStop",
	"zooid server new/1/zoo.cfg": "it doesn't end: TestInitServes",
	"zooid server zoo.cfg -D zookeeper.extendedTypesEnabled=false":                                                      "it doesn't end: TestStartAndStop",
	"curl -fsSLo /etc/apt/keyrings/zooid.asc https://ADDRESS/zooid.asc":                                                 "it needs a release: deploy/package/release_test.sh",
	"curl -fsSLO https://ADDRESS/zooid.gpg -O https://ADDRESS/SHA256SUMS -O https://ADDRESS/SHA256SUMS.asc":             "it needs a release: deploy/package/release_test.sh",
	"curl -fsSLO https://ADDRESS/zooid-VERSION-linux-amd64.tar.gz -O https://ADDRESS/zooid-VERSION-linux-amd64.oci.tar": "it needs a release: deploy/package/release_test.sh",
	"zooid migrate follow zk1:2181,zk2:2181 /var/lib/zooid-copy":                                                        "it needs Apache's servers: test/compat/moving",
	"zooid migrate compare zk1:2181,zk2:2181 /var/lib/zooid-copy":                                                       "it needs Apache's servers: TestCompareUnderLoad (test/compat/moving)",
	"zooid migrate switch … zk1:2181,zk2:2181 /var/lib/zooid-copy /etc/zooid/zoo.cfg":                                   "it needs Apache's servers: TestPage (test/compat/moving)",
	"zooid migrate back … /etc/zooid/zoo.cfg":                                                                           "it needs Apache's servers: TestPageBack (test/compat/moving)",
	"zooid migrate return … /etc/zooid/zoo.cfg":                                                                         "it needs Apache's servers: TestPageBack (test/compat/moving)",
	"zooid import /var/lib/zookeeper /var/lib/zooid":                                                                    "it needs Apache's files: test/compat/moving",
	"zooid export -to /var/lib/zookeeper /var/lib/zooid":                                                                "TestExport",
	"zooid recover zoo.cfg": "it needs a lost majority: TestRecover",
	`zooid recover -new-ensemble -why "fire in room 2" zoo.cfg`:                                          "it needs a lost majority: TestRecover",
	"zooid cli -server zk1 -Djava.security.auth.login.config=jaas.conf":                                  "it needs a login file: test/compat",
	"zooid cli -server zk1:2281 --tls-ca ca.pem --tls-cert me.pem --tls-key me.key":                      "a prompt; the flags: TestRecommendedDay",
	"zooid cli -server zk1:2281 -client-configuration client.properties":                                 "a prompt; the flag: TestAccess (internal/tool/cli)",
	"zooid cli -server zk1 --auth-file identities":                                                       "a prompt; the flag: TestAccess (internal/tool/cli)",
	"zooid cli -server zk1:2181 -auth digest:super:PASSWORD reconfig -add 'server.4=zk4:2888:3888;2181'": "it needs a fourth server: TestReconfig (test/compat)",
}

// prepared are commands that need files or znodes first, which sh makes, and those whose output says more than that
// they succeeded.
var prepared = map[string]struct{ before, want string }{
	"zooid cli -server zk1:2181,zk2:2181/app ls -R /":             {"zooid cli -server zk1 create /app x", "/\n"},
	"zooid cli -server zk1 -o json stat /app | jq .stat":          {"", "version"},
	"zooid cli -server zk1 < script.txt":                          {"echo 'get /app' >script.txt", "x\n"},
	"zooid cli -server zk1 set /app/config - < app.json":          {"zooid cli -server zk1 create /app/config && echo {} >app.json", ""},
	"zooid cli -server zk1,zk2,zk3 mntr":                          {"", "zk_server_state"},
	"zooid doctor zoo.cfg":                                        {"", "0 faults"},
	"zooid doctor /etc/zooid/zoo.cfg":                             {"", "0 faults"},
	"zooid init -tls -dir new zk1 zk2 zk3":                        {"rm -rf new", "wrote new/ca"},
	"zooid init -dir new":                                         {"rm -rf new", "start it: zooid server new/1/zoo.cfg"},
	"zooid cli -server zk1:2181 config | grep '^server' >members": {"", ""},
	"zooid policy check FILE": {
		"echo 'deny write below /payments except ip:10.0.0.0/8' >FILE", "1 deny rules",
	},
	"zooid policy -server zk1:2181 -auth digest:super:PASSWORD explain /payments/7 write sasl:bob@CORP": {"", "deny"},
	"zooid limits -server zk1:2181 list":                                          {"", "/app"},
	"zooid init -tls -at /etc/zooid -dir new zk1.example zk2.example zk3.example": {"rm -rf new", "wrote new/ca"},
}

var (
	// aPage's command is a line of code that begins with zooid, curl or $ zooid.
	pageCommand = regexp.MustCompile(`^(?:    |  +)?(?:\$ )?((?:(?:ZOOID_CONFIG=\S+ )?zooid|curl) .*)$`)
	aHost       = regexp.MustCompile(`\bzk([1-3])(?:\.example)?(?::(2181|2281))?`)
)

// commandsOf returns the commands in the code of a page, without comments.
func commandsOf(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		m := pageCommand.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || !fenced && !strings.HasPrefix(line, "    ") {
			continue
		}
		command, _, _ := strings.Cut(m[1], " #")
		all = append(all, strings.TrimSpace(command))
	}
	return all
}

// TestPagesCommands runs the commands that README.md, install.md, operations.md and monitoring.md show, by sh, on three
// servers of zooid init and three of zooid init -tls; zk1 to zk3 in them are these servers. A command that can't run
// here is in elsewhere.
func TestPagesCommands(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sh", "curl", "grep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("it needs sh, curl and grep")
		}
	}
	s := newPagesServers(t)
	seen := map[string]bool{}
	for _, file := range []string{"README.md", "docs/install.md", "docs/operations.md", "docs/monitoring.md"} {
		commands := commandsOf(t, file)
		if len(commands) == 0 && file != "docs/monitoring.md" {
			t.Errorf("%s has no commands", file)
		}
		for _, command := range commands {
			if seen[command] {
				continue
			}
			seen[command] = true
			if elsewhere[command] == "" {
				s.run(file, command)
			}
		}
	}
	for command := range elsewhere {
		if !seen[command] {
			t.Errorf("no page has %s", command)
		}
	}
	for command := range prepared {
		if !seen[command] {
			t.Errorf("no page has %s", command)
		}
	}
}

// pagesServers are the servers that the pages' commands reach.
type pagesServers struct {
	t              *testing.T
	dir            string // where the commands run
	plain, tls     []setup.Ports
	plainAt, tlsAt string // the folders of zooid init
}

func newPagesServers(t *testing.T) *pagesServers {
	s := &pagesServers{t: t, dir: t.TempDir(), plainAt: t.TempDir(), tlsAt: t.TempDir()}
	digest, err := auth.Digest("SHA1", "super:PASSWORD")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		at    string
		tls   bool
		ports *[]setup.Ports
	}{{s.plainAt, false, &s.plain}, {s.tlsAt, true, &s.tls}} {
		o := setup.Options{Dir: k.at, TLS: k.tls, Now: time.Now()}
		ports := freeport.Take(t, 15)
		for i := range 3 {
			p := ports[5*i:]
			o.Hosts = append(o.Hosts, fmt.Sprintf("127.0.0.1:%d:%d", p[0], p[1]))
			o.Ports = append(o.Ports, setup.Ports{Client: p[2], Admin: p[3], Metrics: p[4]})
		}
		*k.ports = o.Ports
		if _, err := setup.Write(o); err != nil {
			t.Fatal(err)
		}
		d := &day{t: t, dir: k.at, at: s.dir}
		for i := 1; i <= 3; i++ {
			file := d.path(fmt.Sprintf("%d/zoo.cfg", i))
			if !k.tls {
				text, err := os.ReadFile(file)
				text = fmt.Appendf(text, "DigestAuthenticationProvider.superDigest=%s\n", digest)
				if err := errors.Join(err, os.WriteFile(file, text, 0o600), os.Chmod(file, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			serveIn(t, s.dir, file)
		}
		d.wait(3)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nZOOID_TEST_WORDS=1 exec %s \"$@\"\n", os.Args[0])
	if err := os.WriteFile(filepath.Join(s.dir, "zooid"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.pem", "client.pem"} {
		text, err := os.ReadFile(filepath.Join(s.tlsAt, "client", name))
		if err := errors.Join(err, os.WriteFile(filepath.Join(s.dir, name), text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs a command of a page.
func (s *pagesServers) run(file, command string) {
	s.t.Helper()
	k := prepared[command]
	script := command
	if _, err := exec.LookPath("jq"); err != nil {
		script = strings.Replace(script, "| jq .stat", "| grep stat", 1)
	}
	if k.before != "" {
		script = "{ " + k.before + "; } >/dev/null 2>&1; " + script
	}
	if !strings.HasPrefix(command, "zooid init") && !strings.HasPrefix(command, "zooid cert") {
		script = aHost.ReplaceAllStringFunc(script, func(host string) string {
			m := aHost.FindStringSubmatch(host)
			of, i := s.plain, m[1][0]-'1'
			if m[2] == "2281" {
				of = s.tls
			}
			return fmt.Sprintf("127.0.0.1:%d", of[i].Client)
		})
	}
	script = strings.NewReplacer(
		"http://127.0.0.1:8080/", fmt.Sprintf("http://127.0.0.1:%d/", s.plain[0].Admin),
		"https://127.0.0.1:8080/", fmt.Sprintf("https://127.0.0.1:%d/", s.tls[0].Admin),
		"ZOOID_CONFIG=new/", "ZOOID_CONFIG="+s.tlsAt+"/",
		"digest admin:password", "digest super:PASSWORD", "/etc/zooid/zoo.cfg", filepath.Join(s.tlsAt, "2", "zoo.cfg"),
		"doctor zoo.cfg", "doctor -no-disk "+filepath.Join(s.plainAt, "1", "zoo.cfg"),
	).Replace(script)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), k.want) {
		s.t.Errorf("%s: %s: %v, want %q:\n%s%s", file, command, err, k.want, out.String(), errs.String())
	}
}
