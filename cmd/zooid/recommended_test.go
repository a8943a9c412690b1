package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/setup"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// TestInitRunsAnywhere: what zooid init writes is found beside zoo.cfg, wherever the server is started.
func TestInitRunsAnywhere(t *testing.T) {
	t.Parallel()
	dir, elsewhere, ports := t.TempDir(), t.TempDir(), freeport.Take(t, 3)
	if _, err := setup.Write(setup.Options{
		Dir: dir, Ports: []setup.Ports{{Client: ports[0], Admin: ports[1], Metrics: ports[2]}}, TLS: true, Now: time.Now(),
	}); err != nil {
		t.Fatal(err)
	}
	serveIn(t, elsewhere, filepath.Join(dir, "1", "zoo.cfg"))
	d := &day{t: t, dir: dir, at: elsewhere, client: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	d.wait(1)
	if _, err := os.Stat(filepath.Join(dir, "1", "data", "IDENTITY")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("in the working directory there are %v, %v", left, err)
	}
}

// A day is one with the servers that zooid init -tls has written into dir.
type day struct {
	t       *testing.T
	dir, at string // commands run in at
	client  string
	env     []string
}

// path returns the path of a file that init has written.
func (d *day) path(name string) string { return filepath.Join(d.dir, name) }

// run runs a command. In it, N/zoo.cfg and client/… are files of the day, and TLS the flags of the superuser.
func (d *day) run(command string) (text string, code int) {
	d.t.Helper()
	words := strings.Fields(command)
	for i, word := range words {
		switch folder, _, ok := strings.Cut(word, "/"); {
		case ok && (folder == "client" || len(folder) == 1):
			words[i] = d.path(word)
		case word == "TLS":
			words[i] = fmt.Sprintf("-server %s -tls-ca %s -tls-cert %s", d.client, d.path("client/ca.pem"),
				d.path("client/client.pem"))
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env = d.at, append(append(os.Environ(), d.env...), "ZOOID_TEST_ARGS="+strings.Join(words, " "))
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		d.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// wait returns once servers 1 to n say that they are ready.
func (d *day) wait(n int) {
	d.t.Helper()
	for i := 1; i <= n; i++ {
		command := fmt.Sprintf("health %d/zoo.cfg", i)
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			text, code := d.run(command)
			if code == 0 {
				break
			}
			if time.Now().After(end) {
				d.t.Fatalf("%s: exit code %d: %s", command, code, text)
			}
		}
	}
}

// TestRecommendedDay does an operator's work on three servers that zooid init -tls has written, with the files alone:
// nothing has to be configured first, and no message advises what the strict profile refuses.
func TestRecommendedDay(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 15)
	o := setup.Options{Dir: t.TempDir(), TLS: true, Now: time.Now()}
	for i := range 3 {
		p := ports[5*i:]
		o.Hosts = append(o.Hosts, fmt.Sprintf("127.0.0.1:%d:%d", p[0], p[1]))
		o.Ports = append(o.Ports, setup.Ports{Client: p[2], Admin: p[3], Metrics: p[4]})
	}
	if _, err := setup.Write(o); err != nil {
		t.Fatal(err)
	}
	d := &day{t: t, dir: o.Dir, at: t.TempDir(), client: fmt.Sprintf("127.0.0.1:%d", o.Ports[0].Client)}
	for i := 1; i <= 3; i++ {
		serveIn(t, d.at, d.path(fmt.Sprintf("%d/zoo.cfg", i)))
	}
	d.wait(3)
	for _, step := range []struct {
		command, want string
		code          int
	}{
		{"status 2/zoo.cfg", "3 of 3 voters serve", 0},
		{"doctor -no-disk 1/zoo.cfg", "0 faults", 0},
		{"cli TLS create /app x", "name who may use the znode, as in create /app DATA auth::cdrwa", 1},
		{"cli TLS create -p /app/jobs x auth::cdrwa", "Created /app/jobs", 0},
		{"cli TLS getAcl /app", "'x509,'CN=client", 0},
		{"cli TLS setAcl /app world:anyone:r", "name who may use the znode, as in setAcl /app auth::cdrwa", 1},
		{"cli TLS setquota -n 100 /app", "", 0},
		{"cli TLS setquota -B 100000 /app", "", 0},
		{"cli TLS listquota /app", "count=100,bytes=-1=;byteHardLimit=100000", 0},
		{"cli TLS getAcl /zookeeper/quota/app/zookeeper_limits", "'x509,'CN=client", 0},
		{"cli TLS delquota /app", "", 0},
		{"limits TLS set /app children=1000", "", 0},
		{"limits TLS set connection watches=5000", "", 0},
		{"limits TLS list", "/app children=1000", 0},
		{"cli TLS config", "server.3=127.0.0.1", 0},
		{"cli TLS reconfig -remove 3", "server.1=127.0.0.1", 0},
		{fmt.Sprintf("cli TLS reconfig -add server.3=127.0.0.1:%d:%d;;%d", ports[10], ports[11], ports[12]), "server.3", 0},
		{"top 1/zoo.cfg", "requests/s", 0},
		{"top -bytes -json 2/zoo.cfg", "by_bytes", 0},
		{fmt.Sprintf("top 127.0.0.1:%d", o.Ports[0].Admin), "HTTPS", 2},
		{fmt.Sprintf("top -tls-ca client/ca.pem -tls-cert client/client.pem -k 3 127.0.0.1:%d", o.Ports[0].Admin),
			"requests/s", 0},
		{"reload 1/zoo.cfg", "needs a restart: nothing", 0},
		{"drain 2/zoo.cfg", "drained: another server leads", 0},
		{"status 1/zoo.cfg", "it is drained", 1},
		{"drain -undo 2/zoo.cfg", "accepts clients", 0},
		{"status 3/zoo.cfg", "ok: server", 0},
	} {
		text, code := d.run(step.command)
		if code != step.code || !strings.Contains(strings.Join(strings.Fields(text), " "), step.want) {
			t.Errorf("zooid %s: exit code %d, want %d and %q:\n%s", step.command, code, step.code, step.want, text)
		}
		if strings.Contains(text, "whitelist") || strings.Contains(text, "admin.enableServer") {
			t.Errorf("zooid %s advises what is done already, or refused:\n%s", step.command, text)
		}
	}
	d.profiles(o.Ports[0].Admin)
	d.restore(o.Ports[0].Admin)
}

// profiles: every command that asks servers takes what it needs to reach them from a profile, or else from the
// environment, and what nobody says from the zoo.cfg; whoever a profile names is who asks.
func (d *day) profiles(admin int) {
	d.t.Helper()
	if text, code := d.run("cert issue -dir " + d.dir + " app shop"); code != 0 {
		d.t.Fatalf("cert issue: %d, %s", code, text)
	}
	file := filepath.Join(d.dir, "profiles")
	text := fmt.Sprintf("ops.server=%[1]s\nops.tls.ca=%[2]s/client/ca.pem\nops.tls.cert=%[2]s/client/client.pem\n"+
		"shop.tls.ca=%[2]s/client/ca.pem\nshop.tls.cert=%[2]s/apps/shop/app.pem\n"+
		"lost.tls.ca=%[2]s/nothing.pem\n", d.client, d.dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.env = []string{"ZOOID_CONFIG=" + file, "ZOOID_SERVER=", "ZOOID_TLS_CA=", "ZOOID_TLS_CERT="}
	step := func(command, want string, code int) {
		d.t.Helper()
		if text, got := d.run(command); got != code || !strings.Contains(text, want) {
			d.t.Errorf("zooid %s: exit code %d, want %d and %q:\n%s", command, got, code, want, text)
		}
	}
	for _, command := range []string{"health", "drain", "reload", "doctor -no-disk", "top", "status"} {
		step(command+" -profile none 1/zoo.cfg", "has no profile none", 2)
		step(command+" -profile lost 1/zoo.cfg", "nothing.pem", 2)
	}
	step("health -profile ops 2/zoo.cfg", "ready", 0)
	step("reload -profile ops 2/zoo.cfg", "in force: ", 0)
	step("reload -profile shop 2/zoo.cfg", "Not authorized", 1) // its own token would have been let in
	step("drain -undo -profile ops 2/zoo.cfg", "accepts clients", 0)
	step("drain -profile shop 2/zoo.cfg", "Not authorized", 1)
	step("doctor -no-disk -profile ops 1/zoo.cfg", "0 faults", 0)
	step("status -profile ops", d.client, 0)
	step("top -profile ops", d.client, 0)
	step("top -profile ops 1/zoo.cfg", "requests/s", 0)
	step(fmt.Sprintf("top -profile ops 127.0.0.1:%d", admin), "requests/s", 0)
	step(fmt.Sprintf("cli -profile ops top 127.0.0.1:%d", admin), "requests/s", 0)
	d.env = append(d.env, "ZOOID_SERVER="+d.client,
		"ZOOID_TLS_CA="+d.path("client/ca.pem"), "ZOOID_TLS_CERT="+d.path("apps/shop/app.pem"))
	step("top", d.client, 0)
	step("status", d.client, 0)
	step("health 2/zoo.cfg", "ready", 0)
	step("reload 2/zoo.cfg", "in force: ", 0) // by the server's token: the environment may be an application's
	d.env = nil
	own, err := os.ReadFile(d.path("2/zoo.cfg"))
	if err != nil {
		d.t.Fatal(err)
	}
	words := strings.Replace(string(own), "admin.enableServer=true", "admin.enableServer=false", 1)
	if err := os.WriteFile(d.path("2/words.cfg"), []byte(words), 0o600); err != nil || words == string(own) {
		d.t.Fatal("no file without an admin server", err)
	}
	step("health 2/words.cfg", "ready", 0) // by the client port, which takes TLS alone
	step("top 2/words.cfg", "set admin.enableServer=true", 0)
}

// restore takes a snapshot from the admin server and restores it, as the bearer of the superuser's certificate: what
// was made in between is gone.
func (d *day) restore(port int) {
	d.t.Helper()
	tls := clientTLS(d.t, d.path("client"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tls}}
	defer client.CloseIdleConnections()
	base := fmt.Sprintf("https://127.0.0.1:%d/commands/", port)
	snapshot, err := client.Get(base + "snapshot?streaming=true")
	if err != nil {
		d.t.Fatal(err)
	}
	defer snapshot.Body.Close()
	if snapshot.StatusCode != http.StatusOK {
		d.t.Fatalf("snapshot: %s", snapshot.Status)
	}
	d.expect("cli TLS create /later x auth::cdrwa", "Created /later")
	answer, err := client.Post(base+"restore", "application/octet-stream", snapshot.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		d.t.Fatalf("restore: %s", answer.Status)
	}
	d.expect("cli TLS ls /", "[app, zookeeper]")
	// The certificate alone is no proof that its bearer has asked, if a page of another site makes its browser wordclient.
	forged, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, base+"snapshot", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	forged.Header.Set("Sec-Fetch-Site", "cross-site")
	refused, err := client.Do(forged)
	if err != nil {
		d.t.Fatal(err)
	}
	defer refused.Body.Close()
	if refused.StatusCode != http.StatusUnauthorized {
		d.t.Errorf("a page of another site gets %s", refused.Status)
	}
}

// expect runs a command that succeeds and prints want.
func (d *day) expect(command, want string) {
	d.t.Helper()
	if text, code := d.run(command); code != 0 || !strings.Contains(text, want) {
		d.t.Errorf("zooid %s: exit code %d, no %q in:\n%s", command, code, want, text)
	}
}

// TestStatusOfApachesLines: three servers on one host, in Apache's usual form: clientPort in each server's own file,
// server lines without it, and nothing permitted. Whatever file is given, status asks all three, since they tell each
// other, and each keeps it in its data directory while it runs. Where mntr is permitted, the directory isn't needed.
func TestStatusOfApachesLines(t *testing.T) {
	t.Parallel()
	for _, permitted := range []string{"", "4lw.commands.whitelist=mntr,dirs\n"} {
		d := &day{t: t, dir: t.TempDir(), at: t.TempDir()}
		ports := freeport.Take(t, 9)
		lines := permitted
		for i := range 3 {
			lines += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, ports[3*i], ports[3*i+1])
		}
		for i := range 3 {
			data := d.path(fmt.Sprintf("%d/data", i+1))
			text := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%d\n%s", data, ports[3*i+2],
				lines)
			stale := []byte("zk_zooid_clients\t2=127.0.0.1:1") // of an earlier process
			if err := errors.Join(os.MkdirAll(data, 0o700),
				os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600),
				os.WriteFile(filepath.Join(data, wordclient.ClientsFile), stale, 0o600),
				os.WriteFile(d.path(fmt.Sprintf("%d/zoo.cfg", i+1)), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			serveIn(t, d.at, d.path(fmt.Sprintf("%d/zoo.cfg", i+1)))
		}
		d.wait(3)
		for i := 1; i <= 3; i++ {
			d.until(fmt.Sprintf("status %d/zoo.cfg", i), "3 of 3 ", 0)
		}
		if permitted != "" {
			continue
		}
		kept := d.path("1/data/" + wordclient.ClientsFile)
		if err := os.Remove(kept); err != nil {
			t.Error(err)
		}
		d.until("status 1/zoo.cfg", "run this as the server's user, or set 4lw.commands.whitelist=mntr,dirs", 2)
		// What the directory of a server says that doesn't answer isn't asked for: another process may have left it.
		if err := os.WriteFile(kept, fmt.Appendf(nil, "zk_zooid_clients\t1=127.0.0.1:%d,2=127.0.0.1:%d\n", ports[2],
			ports[5]), 0o600); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(d.path("1/zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		silent := strings.Replace(string(text), fmt.Sprintf("clientPort=%d", ports[2]), "clientPort=1", 1)
		if err := os.WriteFile(d.path("1/silent.cfg"), []byte(silent), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, _ := d.run("status 1/silent.cfg"); strings.Contains(text, fmt.Sprint(ports[5])) {
			t.Errorf("a server was asked by what an earlier process has left:\n%s", text)
		}
	}
}

// until runs a command until it says want and ends with code: what servers tell each other may be on its way.
func (d *day) until(command, want string, code int) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, got := d.run(command)
		if got == code && strings.Contains(text, want) {
			return
		}
		if time.Now().After(end) {
			d.t.Errorf("zooid %s: exit code %d, want %d and %q:\n%s", command, got, code, want, text)
			return
		}
	}
}
