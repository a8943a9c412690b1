//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/scram"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/zk"
)

// A plantation is a server all secrets of which contain "planted" or are storePassword, and
// what it and the tools have told.
type plantation struct {
	*process
	t       *testing.T
	client  string // address for clients
	metrics string // address for Prometheus
	dir     string
	told    map[string]string // by who tells it
	secrets []string
	ended   chan struct{} // closed once the log has ended
}

// storePassword is that of the stores in internal/keystore/testdata.
const storePassword = "apassword"

// TestPlantedSecrets: what is secret in a configuration, a login, or an ACL is neither in the log, at any level, nor in
// the audit log, nor in what four-letter words, the admin server, the metrics endpoint, and the tools say of a server.
func TestPlantedSecrets(t *testing.T) {
	t.Parallel()
	p := plantAll(t)
	p.login()
	p.offend()
	p.ask()
	p.useTools()
	p.reload()
	p.stop()
	for from, text := range p.told {
		if text == "" {
			t.Errorf("%s: it says nothing", from)
		}
		for line := range strings.Lines(text) {
			if i := slices.IndexFunc(p.secrets, func(s string) bool { return strings.Contains(line, s) }); i >= 0 {
				t.Errorf("%s shows %q: %s", from, p.secrets[i], line)
			}
		}
	}
	for _, expected := range []string{
		"code=ZD-4021", "identity=digest:bob", "of=digest:bob", "a rule of the policy denied",
		"operation=setAcl", "acl=digest:bob:x:",
	} {
		if !strings.Contains(p.told["the log"], expected) {
			t.Errorf("the log has no %s:\n%s", expected, p.told["the log"])
		}
	}
}

// secretKeys are the names of all keys in docs/configuration.md whose values are secret.
func secretKeys(t *testing.T) (names []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if config.IsSecret(row[1]) {
			names = append(names, row[1])
		}
	}
	return names
}

// plant starts the server.
func plantAll(t *testing.T) *plantation {
	t.Helper()
	stores, dir := filepath.Join("..", "..", "internal", "keystore", "testdata"), t.TempDir()
	p := &plantation{
		t: t, client: "127.0.0.1:" + port(t), metrics: "127.0.0.1:" + port(t), dir: dir, told: map[string]string{},
		ended:   make(chan struct{}),
		secrets: []string{"planted", storePassword},
	}
	_, bob, _ := strings.Cut(zk.DigestID("bob", "planted-bob").ID, ":")
	_, super, _ := strings.Cut(zk.DigestID("super", "planted-super").ID, ":")
	p.secrets = append(p.secrets, bob, super)
	verifier, err := scram.Verifier("ann", "planted-password", []byte("planted-salt"))
	if err != nil {
		t.Fatal(err)
	}
	p.secrets = append(p.secrets, verifier)
	p.write("jaas",
		`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_super="planted-jaas" user_bob="planted-bob" user_ann="`+
			verifier+`"; };`)
	p.write("policy", "deny write below /p except digest:bob:"+bob+"\ndeny write below /q except digest:super:"+super)
	store, trust := filepath.Join(stores, "server.jks"), filepath.Join(stores, "trust.jks")
	lines := []string{
		"clientPort=" + p.client[len("127.0.0.1:"):], "4lw.commands.whitelist=*", "log.level=debug",
		"admin.enableServer=true", "admin.serverAddress=127.0.0.1", "admin.serverPort=0",
		"metricsProvider.className=" + config.PrometheusProvider, "metricsProvider.httpHost=127.0.0.1",
		"metricsProvider.httpPort=" + p.metrics[len("127.0.0.1:"):], "metricsProvider.httpsPort=" + port(t),
		"client.portUnification=true", "ssl.clientAuth=none",
		"audit.enable=true", "audit.reads=true", "audit.logins=true", "audit.refusals=true", "audit.hashes=true",
		"limits.identity=connections=1", "authProvider.judge=exec:" + p.judge(), "nosuchkey.password=planted-unknown",
	}
	for _, key := range secretKeys(t) {
		value := "planted-" + strings.ToLower(key)
		switch {
		case strings.HasSuffix(key, "keyStore.password"):
			lines, value = append(lines, strings.TrimSuffix(key, "password")+"location="+store), storePassword
		case strings.HasSuffix(key, "trustStore.password"):
			lines, value = append(lines, strings.TrimSuffix(key, "password")+"location="+trust), storePassword
		case strings.HasSuffix(key, "superDigest"):
			value = "super:" + super
		case key == "quorum.secret":
			value = "planted-secret-of-the-ensemble"
		}
		lines = append(lines, key+"="+value)
	}
	args := []string{
		"-Djava.security.auth.login.config=" + filepath.Join(dir, "jaas"), "-Dzookeeper.nosuch.password=planted-property",
		"-Djavax.net.ssl.keyStorePassword=planted-java",
	}
	p.process = launchWith(t, args, lines...)
	p.await("msg=serving")
	go func() {
		defer close(p.ended)
		for p.lines.Scan() { // to its end: the server would wait for a log that nobody reads
		}
	}()
	return p
}

func (p *plantation) write(name, text string) string {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// judge writes a program for internal/external that refuses everybody, and repeats the question where it is logged.
func (p *plantation) judge() string {
	return p.write("judge", `#!/bin/sh
while read -r question; do
	echo "$question" >&2
	echo '{"request":'"$(echo "$question" | sed 's/.*"request":\([0-9]*\).*/\1/')"',"refused":"no"}'
done
`)
}

// login tries right and wrong credentials. What the clients are told is judged too.
func (p *plantation) login() {
	for i, o := range []zk.Options{
		{Auth: []zk.Auth{zk.DigestAuth("super", "planted-guess")}},
		{Auth: []zk.Auth{{Scheme: "nosuch", Auth: []byte("planted-credential")}}},
		{Auth: []zk.Auth{{Scheme: "judge", Auth: []byte("planted-question")}}},
		{SASL: zk.DigestMD5("bob", "planted-wrong")},
		{SASL: zk.DigestMD5("bob", "planted-bob")},
		{SASL: zk.DigestMD5("super", "planted-jaas")},
	} {
		c, err := zk.Open(p.t.Context(), p.client, o)
		if err == nil {
			c.Close()
		}
		p.told[fmt.Sprintf("client %d", i)] = fmt.Sprintf("error: %v; options: %v %+v", err, o, o)
	}
}

// offend has digest users exceed a limit, break a rule of the policy, and write their hashes into ACLs and data.
func (p *plantation) offend() {
	p.t.Helper()
	ctx := p.t.Context()
	open := func(auth zk.Auth) *zk.Client {
		c, err := zk.Open(ctx, p.client, zk.Options{Auth: []zk.Auth{auth}})
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { c.Close() })
		return c
	}
	super, bob := open(zk.DigestAuth("super", "planted-super")), open(zk.DigestAuth("bob", "planted-bob"))
	if _, _, err := bob.Get(ctx, "/"); err != nil { // its login has been judged then: the first of two wins
		p.t.Fatal(err)
	}
	_, _, err := open(zk.DigestAuth("bob", "planted-bob")).Get(ctx, "/")
	if err == nil {
		p.t.Error("bob may have a second connection")
	}
	p.told["the second connection"] = fmt.Sprint(err)
	rules, err := os.ReadFile(filepath.Join(p.dir, "policy"))
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = super.Create(ctx, policy.Path, rules, zk.ModePersistent, zk.CreatorACL())
	for _, path := range []string{"/p", "/q"} {
		if err == nil {
			_, err = bob.Create(ctx, path, []byte("x"), zk.ModePersistent, zk.WorldACL(zk.PermAll))
		}
	}
	if err == nil {
		_, err = bob.SetACL(ctx, "/p", append(zk.DigestACL(zk.PermAll, "bob", "planted-bob"), zk.WorldACL(zk.PermRead)...),
			-1)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = bob.Set(ctx, "/q", []byte("planted-data"), -1)
	if err == nil {
		p.t.Error("a rule of the policy doesn't hold")
	}
	p.told["the denied write"] = fmt.Sprint(err)
}

// ask asks all four-letter words, and all pages of the admin server and of the metrics endpoint, with and without
// credentials.
func (p *plantation) ask() {
	p.t.Helper()
	var a access.Access
	for _, w := range access.Words() {
		reply, err := a.Ask(p.t.Context(), p.client, w.Name)
		p.told["word "+w.Name] = fmt.Sprint(reply, err)
	}
	_, body := p.get("/commands/monitor")
	p.told["/commands/monitor"] = body
	_, links := p.get("/commands")
	pages := regexp.MustCompile(`/commands/[a-z_]+`).FindAllString(links, -1)
	if len(pages) < 30 {
		p.t.Errorf("the admin server has only %d commands: %s", len(pages), links)
	}
	for _, page := range append(pages, "/livez", "/readyz", "/") {
		if page == "/commands/drain" || page == "/commands/snapshot" || page == "/commands/restore" ||
			page == "/commands/shed_connections" {
			continue // they answer with data, or end connections
		}
		for _, auth := range []string{"", "digest super:planted-guess", "digest super:planted-super"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				p.told[method+" "+page+" "+strings.TrimPrefix(auth, "digest super:planted-")] = p.request(method,
					"http://"+p.admin+page, auth)
			}
		}
	}
	p.told["/metrics"] = p.request(http.MethodGet, "http://"+p.metrics+"/metrics", "")
}

// request returns the status and the body of an answer.
func (p *plantation) request(method, url, auth string) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	status, body := p.do(req)
	return fmt.Sprint(status, " ", body)
}

// useTools runs what tells of a server and its configuration.
func (p *plantation) useTools() {
	for _, args := range [][]string{
		{"doctor", "-no-disk", p.file}, {"doctor", "-json", "-no-disk", p.file}, {"status", p.client},
		{"status", "-json", p.client},
		{"top", p.file}, {"top", "-json", "-n", "1", p.file}, {"health", p.file}, {"server", "-check", p.file},
		{"cli", "-server", p.client, "-auth", "digest:eve:planted-guess", "policy", "get"},
		{"cli", "-server", p.client, "-auth", "digest:eve:planted-guess", "getAcl", "/p"},
		{"cli", "-server", p.client, "-auth", "digest:eve:planted-guess", "acl", "explain", "/p"},
		{"cli", "-server", p.client, "-auth", "digest:eve:planted-guess", "whoami"},
	} {
		_, text := runZooid(args...)
		p.told[strings.Join(args[:min(2, len(args))], " ")+" … "+args[len(args)-1]] = text
	}
}

// reload has the server read other secrets.
func (p *plantation) reload() {
	p.t.Helper()
	text, err := os.ReadFile(p.file)
	if err == nil {
		err = os.WriteFile(p.file, append(text, "superUser=CN=x\nDigestAuthenticationProvider.superDigest=super:planted-digest\nSASLAuthenticationProvider.superPassword=planted-new\n"+
			"quorum.secret=planted-other-secret-of-the-ensemble\nssl.keyStore.password=planted-wrong\n"...), 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	answer := p.request(http.MethodPost, "http://"+p.admin+"/commands/reload", "digest super:planted-super")
	p.told["a reload"] = answer
	var done map[string]any
	if err := json.Unmarshal([]byte(answer[strings.IndexByte(answer, '{'):]), &done); err != nil || done["error"] != nil {
		p.t.Errorf("a reload: %v, %s", err, answer)
	}
}

// stop ends the server, and takes note of its log.
func (p *plantation) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	p.told["the log"] = p.log.String()
}
