package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// Where the project's rules and dashboard are.
const (
	rulesFile     = "../../deploy/prometheus/zooid.rules.yml"
	ruleTests     = "../../deploy/prometheus/zooid.rules_test.yml"
	dashboardFile = "../../deploy/grafana/zooid.json"
)

// TestRulesByPromtool: promtool finds no fault in the rules, and each alert fires on series made for it.
func TestRulesByPromtool(t *testing.T) {
	programs(t)
	for _, args := range [][]string{{"check", "rules", rulesFile}, {"test", "rules", ruleTests}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests, err := os.ReadFile(ruleTests)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts(t) {
		if !strings.Contains(string(tests), `alertname="`+r.Alert+`"`) {
			t.Errorf("%s has no test in %s", r.Alert, ruleTests)
		}
	}
}

// An alert is one rule.
type alert struct {
	Alert string `yaml:"alert"`
	Expr  string `yaml:"expr"`
}

// alerts reads the project's rules.
func alerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// soon changes the rules so that an alert fires within seconds of its fault, and after as little of it as a test makes.
func soon(rules string) string {
	rules = regexp.MustCompile(`(?m)for: \w+$`).ReplaceAllString(rules, "for: 0s")
	rules = regexp.MustCompile(`\[\d+m\]`).ReplaceAllString(rules, "[30s]")
	for from, to := range map[string]string{
		`changes(zooid_raft_term{job="zooid"}[30s]) > 3`: `changes(zooid_raft_term{job="zooid"}[30s]) > 0`,
		`peer_lag_entries{job="zooid"}) > 1000`:          `peer_lag_entries{job="zooid"}) > 20`,
		`auth_failed_count{job="zooid"}[30s]) > 20`:      `auth_failed_count{job="zooid"}[30s]) > 1`,
	} {
		if !strings.Contains(rules, from) {
			panic("the rules have no " + from)
		}
		rules = strings.Replace(rules, from, to, 1)
	}
	return rules
}

// A prometheus is a running Prometheus that scrapes servers.
type prometheus struct {
	t     *testing.T
	base  string
	fired []string
}

// startPrometheus runs Debian's Prometheus on the endpoints at these ports, and more jobs in YAML.
func startPrometheus(t *testing.T, ports []int, jobs string, flags ...string) *prometheus {
	t.Helper()
	dir, port := t.TempDir(), freeport.Take(t, 1)[0]
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, p := range ports {
		targets = append(targets, fmt.Sprintf("127.0.0.1:%d", p))
	}
	config := fmt.Sprintf("global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"+
		"scrape_configs:\n- {job_name: zooid, static_configs: [{targets: [%q]}]}\n%s", strings.Join(targets, `","`), jobs)
	config = strings.ReplaceAll(config, `\"`, `"`)
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(soon(string(rules))), 0o600),
		os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command("prometheus",
		append(flags, "--config.file="+filepath.Join(dir, "prometheus.yml"),
			"--storage.tsdb.path="+filepath.Join(dir, "data"),
			fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port), "--log.level=warn")...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatalf("%v; run test/compat/install.sh", err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", fileEnd(log.Name()))
		}
	})
	return &prometheus{t: t, base: fmt.Sprintf("http://127.0.0.1:%d", port)}
}

// series returns the results of a query: their labels.
func (p *prometheus) series(query string) ([]map[string]string, error) {
	answer, err := http.Get(p.base + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var result struct {
		Status, Error string
		Data          struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	if result.Status != "success" {
		return nil, fmt.Errorf("query %s: %s", query, result.Error)
	}
	var all []map[string]string
	for _, r := range result.Data.Result {
		all = append(all, r.Metric)
	}
	return all, nil
}

// prometheusPatience is how long what must come may take on a loaded machine.
const prometheusPatience = 3 * time.Minute

// until asks until there are series, and reports whether there were.
func (p *prometheus) until(query string) bool { return p.untilDoing(func() {}, query) }

// untilDoing does something before each time that it asks.
func (p *prometheus) untilDoing(again func(), query string) bool {
	for by := time.Now().Add(prometheusPatience); time.Now().Before(by); time.Sleep(300 * time.Millisecond) {
		again()
		if all, err := p.series(query); err == nil && len(all) > 0 {
			return true
		} else if err != nil && strings.HasPrefix(err.Error(), "query ") {
			p.t.Error(err)
			return false
		}
	}
	return false
}

// fires waits until alerts fire.
func (p *prometheus) fires(fault string, names ...string) {
	p.t.Helper()
	p.firesDoing(func() {}, fault, names...)
}

// firesDoing makes the fault again until alerts fire: an alert on an increase needs several in its window.
func (p *prometheus) firesDoing(again func(), fault string, names ...string) {
	p.t.Helper()
	for _, name := range names {
		if !p.untilDoing(again, `ALERTS{alertstate="firing",alertname="`+name+`"}`) {
			p.t.Errorf("%s: %s doesn't fire", fault, name)
		}
		p.fired = append(p.fired, name)
	}
}

// faultsPatience bounds all faults of a test.
const faultsPatience = 15 * time.Minute

// TestPrometheus has Debian's Prometheus scrape three servers under load: each query of the dashboard and each metric
// of the rules has series, and alerts fire when their faults are made.
func TestPrometheus(t *testing.T) {
	_, subject := programs(t)
	ports := freeport.Take(t, 3)
	secure := freeport.Take(t, 3)
	servers := StartEnsemble(t, subject, 3, Options{Each: func(i int) map[string]string {
		all := withEndpoint(ports[i])
		maps.Copy(all, map[string]string{"audit.enable": "true", "audit.file": "audit.log",
			"metricsProvider.httpsPort":               fmt.Sprint(secure[i]),
			"metricsProvider.ssl.keyStore.location":   storeFile(t, "server.pem"),
			"metricsProvider.ssl.trustStore.location": storeFile(t, "trust.pem")})
		return all
	}})
	p := startPrometheus(t, ports, fmt.Sprintf("- {job_name: secure, scheme: https, tls_config: {ca_file: %q, cert_file: %q, key_file: %q, server_name: localhost}, "+
		"static_configs: [{targets: [\"127.0.0.1:%d\"]}]}\n", storeFile(t, "trust.pem"), storeFile(t, "client.pem"),
		storeFile(t, "client.pem"), secure[0]))
	ctx, cancel := context.WithTimeout(t.Context(), faultsPatience)
	defer cancel()
	loadEnds := make(chan struct{})
	loading, stop := context.WithCancel(ctx)
	go func() {
		defer close(loadEnds)
		loadOn(loading, servers)
	}()
	defer func() {
		stop()
		<-loadEnds
	}()
	if !p.until("rate(op_count_set_data[10s]) > 0") {
		t.Fatal("Prometheus sees no load")
	}
	if !p.until(`up{job="secure"} == 1 and on (instance) zooid_serving{job="secure"} == 1`) {
		t.Error("Prometheus can't read the metrics over TLS")
	}
	p.everyQuery()
	native := startPrometheus(t, ports[:1], "", "--enable-feature=native-histograms")
	if !native.until(`histogram_quantile(0.99, rate(zooid_request_stage_seconds{stage="log"}[10s])) > 0`) {
		t.Error("a Prometheus that takes native histograms gets none")
	}
	leader, others := roles(t, servers)

	p.firesDoing(func() { p.wrongPassword(ctx, leader.Addr) }, "wrong passwords", "ZooidAuthenticationFails")
	p.firesDoing(func() { p.silentSessions(ctx, leader.Addr) }, "silent clients", "ZooidSessionsExpiring")

	if err := others[0].process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.fires("a stopped follower", "ZooidFollowerLagging", "ZooidQuorumAtItsLast", "ZooidDown")
	if err := others[0].process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	if !p.until(`zooid_raft_active_voters == 3`) {
		t.Fatal("the stopped follower doesn't come back")
	}

	leader.Kill()
	p.fires("a lost leader", "ZooidLeaderChanges")
	others[0].Kill()
	p.fires("a lost quorum", "ZooidNoLeader", "ZooidNotServing")
	if slices.Sort(p.fired); !slices.Equal(p.fired, ensembleAlerts) {
		t.Errorf("faults of %q were made, and ensembleAlerts has %q", p.fired, ensembleAlerts)
	}
}

// storeFile returns a key or trust store of nobody.
func storeFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../internal/keystore/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// roles returns the leader and the others.
func roles(t *testing.T, servers []*Server) (leader *Server, others []*Server) {
	t.Helper()
	for _, s := range servers {
		if modeOf(t, s) == "leader" {
			leader = s
		} else {
			others = append(others, s)
		}
	}
	if leader == nil {
		t.Fatal("no server leads")
	}
	return leader, others
}

var rateInterval = strings.NewReplacer("$__rate_interval", "10s", "$job", "zooid", "$instance", ".*")

// metricName finds the metrics in a query: names with a selector behind them.
var metricName = regexp.MustCompile(`[a-z_]+\{[^}]*\}`)

// everyQuery asks every query of the dashboard, and for every metric of the rules.
func (p *prometheus) everyQuery() {
	p.t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		p.t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		p.t.Fatal(err)
	}
	queries := map[string]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries[rateInterval.Replace(target.Expr)] = "panel " + panel.Title
		}
	}
	for _, r := range alerts(p.t) {
		for _, metric := range metricName.FindAllString(r.Expr, -1) {
			queries[metric] = "alert " + r.Alert
		}
	}
	if len(queries) < 60 {
		p.t.Errorf("only %d queries were found", len(queries))
	}
	for _, query := range slices.Sorted(maps.Keys(queries)) {
		if !p.until(query) {
			p.t.Errorf("%s: no series for %s", queries[query], query)
		}
	}
	fmt.Printf("\n%s: %d queries have series\n", p.t.Name(), len(queries))
}

// loadOn writes, reads and watches until ctx ends, whatever happens to the servers.
func loadOn(ctx context.Context, servers []*Server) {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) { // a session may end on a busy machine
		if c, err := zk.Open(ctx, strings.Join(addrs, ","), zk.Options{}); err == nil {
			loadBy(ctx, c)
			c.Close()
		}
	}
}

// loadBy does that until c's session ends, too.
func loadBy(ctx context.Context, c *zk.Client) {
	world := zk.WorldACL(zk.PermAll)
	for n := 0; ctx.Err() == nil; n++ {
		// Errors are of servers that were stopped on purpose.
		turn, cancel := context.WithTimeout(ctx, 20*time.Second)
		path := fmt.Sprintf("/load/%d", n%50)
		c.Create(turn, "/load", nil, zk.ModePersistent, world)
		c.Create(turn, path, []byte("x"), zk.ModePersistent, world)
		c.Create(turn, "/load/e-", nil, zk.ModeEphemeralSequential, world)
		c.GetW(turn, path)
		c.Set(turn, path, []byte("y"), -1)
		_, _, ended := c.Exists(turn, path)
		c.Children(turn, "/load")
		c.Multi(turn, zk.SetOp(path, nil, -1))
		c.Sync(turn, path)
		c.Delete(turn, path, -1)
		cancel()
		if errors.Is(ended, zk.ErrSessionExpired) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// wrongPassword fails to authenticate, by a scheme that isn't enabled.
func (p *prometheus) wrongPassword(ctx context.Context, addr string) {
	p.t.Helper()
	c, err := zk.Open(ctx, addr, zk.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	if err := c.AddAuth(ctx, "none", []byte("x")); err == nil {
		p.t.Error("a scheme that isn't there was believed")
	}
}

// silentSessions leaves sessions behind whose connections are cut.
func (p *prometheus) silentSessions(ctx context.Context, addr string) {
	p.t.Helper()
	for range 25 {
		var conn net.Conn
		c, err := zk.Open(ctx,
			addr, zk.Options{SessionTimeout: time.Second,
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, address)
					conn = nc
					return nc, err
				}})
		if err != nil {
			p.t.Fatal(err)
		}
		c.Detach()
		conn.Close()
	}
}
