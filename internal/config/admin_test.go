package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdminStaysOnThisHost: the admin server listens beyond this host with TLS alone, or if admin.plainRemote says so.
func TestAdminStaysOnThisHost(t *testing.T) {
	t.Parallel()
	for settings, refused := range map[string]string{
		"admin.enableServer=true":                                                        "",
		"admin.enableServer=true admin.serverAddress=localhost":                          "",
		"admin.enableServer=true admin.serverAddress=127.3.2.1":                          "",
		"admin.enableServer=true admin.serverAddress=[::1]":                              "",
		"admin.serverAddress=0.0.0.0":                                                    "",
		"admin.enableServer=true admin.serverAddress=0.0.0.0":                            "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=::":                                 "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=10.1.2.3":                           "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=host":                               "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=0.0.0.0 admin.portUnification=true": "admin.serverAddress",
		"admin.enableServer=true admin.serverAddress=0.0.0.0 admin.forceHttps=true":      "",
		"admin.enableServer=true admin.serverAddress=0.0.0.0 admin.plainRemote=true":     "",
		"admin.enableServer=true admin.serverAddress=a_b/c":                              "admin.serverAddress",
		"admin.enableServer=true admin.commandURL=commands":                              "admin.commandURL",
		"admin.commandURL=commands":                                                      "",
	} {
		_, err := Default(strings.Fields("zookeeper." + strings.Join(strings.Fields(settings), " zookeeper.")))
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", settings, err, refused)
		}
	}
}

// TestMetricsPorts: the endpoint for Prometheus has the port that is named, over TLS or not; TLS needs its stores.
func TestMetricsPorts(t *testing.T) {
	t.Parallel()
	const class, keys,
		trust = "className=" + PrometheusProvider, "ssl.keyStore.location=k.pem", "ssl.trustStore.location=t.pem"
	for _, c := range []struct {
		lines         []string
		plain, secure int
		refused       string
	}{
		{[]string{class}, 7000, -1, ""},
		{[]string{class, "httpPort=-1"}, 0, 0, "metricsProvider.httpPort"},
		{[]string{class, "httpsPort=7443", keys, trust}, -1, 7443, ""},
		{[]string{class, "httpsPort=7443", "httpPort=7000", keys, trust}, 7000, 7443, ""},
		{[]string{class, "httpsPort=7443", trust}, 0, 0, "metricsProvider.ssl.keyStore.location"},
		{[]string{class, "httpsPort=7443", keys}, 0, 0, "metricsProvider.ssl.trustStore.location"},
		{[]string{class, "httpsPort=7443", keys, "ssl.need.client.auth=false"}, 0, 0,
			"metricsProvider.ssl.trustStore.location"},
		{[]string{class, "httpsPort=7443", keys, "ssl.need.client.auth=false", "ssl.want.client.auth=false"}, -1, 7443, ""},
		{[]string{"httpsPort=7443"}, -1, 7443, ""}, // no endpoint, so nothing is wrong with it
	} {
		file := filepath.Join(t.TempDir(), "zoo.cfg")
		text := "dataDir=/d\nclientPort=2181\nmetricsProvider." + strings.Join(c.lines, "\nmetricsProvider.") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(file, nil)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%q: %v, want %q", c.lines, err, c.refused)
			}
		case err != nil || cfg.Metrics.Port != c.plain || cfg.Metrics.SecurePort != c.secure:
			t.Errorf("%q: ports %d and %d, %v", c.lines, cfg.Metrics.Port, cfg.Metrics.SecurePort, err)
		}
	}
}

// TestAdminReadsQuorumStores: a value of ssl.quorum.* that can't be read is an error where the admin server talks TLS,
// which reads these keys, although servers don't among themselves; where nobody reads it, it is a warning.
func TestAdminReadsQuorumStores(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]bool{
		"admin.enableServer=true\nadmin.forceHttps=true\n":      true,
		"admin.enableServer=true\nadmin.portUnification=true\n": true,
		"admin.enableServer=true\n":                             false,
		"admin.enableServer=false\nadmin.forceHttps=true\n":     false,
	} {
		file := filepath.Join(t.TempDir(), "zoo.cfg")
		text += "dataDir=/d\nclientPort=2181\nssl.quorum.protocol=TLSv9\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file, nil); (err != nil) != refused ||
			refused && !strings.Contains(err.Error(), "ssl.quorum.protocol") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
