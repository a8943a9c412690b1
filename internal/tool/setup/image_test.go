package setup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
)

// variables returns an environment of NAME=value words; + in a value stands for a blank.
func variables(text string) map[string]string {
	env := map[string]string{}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		env[name] = strings.ReplaceAll(value, "+", " ")
	}
	return env
}

// TestImageVariables: what the variables of both images come to, and that a server reads it.
func TestImageVariables(t *testing.T) {
	t.Parallel()
	const three = "ZOO_SERVERS=server.1=zoo1:2888:3888;2181+server.2=zoo2:2888:3888;2181+server.3=zoo3:2888:3888;2181"
	for _, c := range []struct {
		env, image, id string
		has            string // lines of the configuration, blanks between
		hasNot         string
		flags          string
	}{
		{"", "", "1", "dataDir=/data", "autopurge.purgeInterval", ""},
		{"ZOO_SERVICE_HOST=10.0.0.1 ZOO_PORT=tcp://10.0.0.1:2181", "", "1", "dataDir=/data", "tcp", ""}, // of Kubernetes
		{
			"ZOO_MY_ID=2 " + three, "the official image", "2",
			"tickTime=2000 initLimit=5 syncLimit=2 maxClientCnxns=60 standaloneEnabled=true admin.enableServer=true " +
				"server.1=zoo1:2888:3888;2181 server.3=zoo3:2888:3888;2181",
			"dataLogDir autopurge.purgeInterval clientPort", "",
		},
		{
			"ZOO_DATA_DIR=/d ZOO_DATA_LOG_DIR=/l ZOO_TICK_TIME=500 ZOO_AUTOPURGE_PURGEINTERVAL=0 ZOO_4LW_COMMANDS_WHITELIST=* " +
				"ZOO_CFG_EXTRA=reconfigEnabled=true+snapCount=7 JVMFLAGS=-Xmx1g+-Da=b SERVER_JVMFLAGS=-Dzookeeper.skipACL=yes",
			"the official image", "1",
			"dataDir=/d dataLogDir=/l tickTime=500 autopurge.purgeInterval=0 4lw.commands.whitelist=* reconfigEnabled=true " +
				"snapCount=7 server.1=localhost:2888:3888;2181",
			"Xmx", "-Dzookeeper.skipACL=yes -Da=b",
		},
		{
			"ALLOW_ANONYMOUS_LOGIN=yes", "Bitnami's image", "1",
			"dataDir=/bitnami/zookeeper/data clientPort=2181 tickTime=2000 initLimit=10 syncLimit=5 admin.enableServer=false " +
				"electionPortBindRetry=0 maxSessionTimeout=40000 reconfigEnabled=false",
			"server. secureClientPort", "",
		},
		{
			"ALLOW_EMPTY_PASSWORD=yes ZOO_SERVER_ID=3 ZOO_PORT_NUMBER=2191 ZOO_SERVERS=a:2888:3888,b:2888:3888,c:2888:3888:observer " +
				"ZOO_ENABLE_PROMETHEUS_METRICS=yes ZOO_CFG_snapSizeLimitInKb=5 ZOO_RECONFIG_ENABLED=YES",
			"Bitnami's image", "3",
			"server.1=a:2888:3888;2191 server.3=c:2888:3888:observer;2191 metricsProvider.httpPort=7000 snapSizeLimitInKb=5 " +
				"reconfigEnabled=true",
			"clientPort", "",
		},
		{
			"ALLOW_EMPTY_PASSWORD=yes ZOO_SERVERS=a:2888:3888::4+b:2888:3888::9 ZOO_SERVER_ID=9 ZOO_TLS_CLIENT_ENABLE=true " +
				"ZOO_TLS_CLIENT_KEYSTORE_FILE=/k.jks ZOO_TLS_CLIENT_KEYSTORE_PASSWORD_FILE=/run/secret ZOO_TLS_CLIENT_AUTH=none",
			"Bitnami's image", "9",
			"server.4=a:2888:3888;2181 server.9=b:2888:3888;2181 secureClientPort=3181 ssl.keyStore.location=/k.jks " +
				`ssl.keyStore.password=se\\cret ssl.clientAuth=none`,
			"clientPort=", "",
		},
	} {
		env := variables(c.env)
		before := maps.Clone(env)
		s, err := FromImage(env, func(string) (string, error) { return "se\\cret\n", nil })
		if err != nil {
			t.Errorf("%s: %v", c.env, err)
			continue
		}
		lines := strings.Split(s.Config, "\n")
		for _, want := range strings.Fields(c.has) {
			if !slices.Contains(lines, want) {
				t.Errorf("%s: no line %s in\n%s", c.env, want, s.Config)
			}
		}
		for _, bad := range strings.Fields(c.hasNot) {
			if strings.Contains("\n"+s.Config, "\n"+bad) {
				t.Errorf("%s: %s in\n%s", c.env, bad, s.Config)
			}
		}
		if s.Image != c.image || s.ID != c.id || strings.Join(s.Flags, " ") != c.flags || !maps.Equal(env, before) {
			t.Errorf("%s: image %q, id %s, flags %q", c.env, s.Image, s.ID, s.Flags)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		text := strings.Replace(s.Config, "dataDir="+s.DataDir, "dataDir="+dir, 1)
		for name, content := range map[string]string{file: text, filepath.Join(dir, "myid"): s.ID + "\n"} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := config.Load(file, s.Flags); err != nil {
			t.Errorf("%s: %v\n%s", c.env, err, text)
		}
	}
}

// TestImageVariablesRefused: nothing that an operator relies on is left out in silence.
func TestImageVariablesRefused(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"ZOO_SERVERS=zoo1:2888:3888":                           "ZOO_SERVERS",
		"ZOO_MY_ID=1 ZOO_SERVER_ID=1":                          "ZOO_MY_ID",
		"ZOO_MY_ID=1 ZOO_TLS_CLIENT_ENABLE=yes":                "ZOO_TLS_CLIENT_ENABLE",
		"ZOO_SERVER_ID=1":                                      "ALLOW_ANONYMOUS_LOGIN",
		"ZOO_ENABLE_AUTH=yes ZOO_SERVER_USERS=a":               "ZOO_ENABLE_AUTH",
		"ALLOW_EMPTY_PASSWORD=yes ZOO_ENABLE_QUORUM_AUTH=true": "ZOO_ENABLE_QUORUM_AUTH",
		"ALLOW_EMPTY_PASSWORD=yes ZOO_SERVERS=a,b":             "ZOO_SERVERS",
		"ALLOW_EMPTY_PASSWORD=yes ZOO_SERVERS=a:1:2::1,b:1:2":  "ZOO_SERVERS",
		"ALLOW_EMPTY_PASSWORD=yes ZOO_SERVER_ID_FILE=/none":    "ZOO_SERVER_ID_FILE",
		"ZOO_TICK_TIME=2000\nskipACL=yes":                      "ZOO_TICK_TIME",
	} {
		vars := variables(env)
		if name, value, ok := strings.Cut(env, "\n"); ok { // a line that would be another key
			vars = map[string]string{"ZOO_TICK_TIME": strings.TrimPrefix(name, "ZOO_TICK_TIME=") + "\n" + value}
		}
		_, err := FromImage(vars, func(string) (string, error) { return "", errors.New("no such file") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", env, err, want)
		}
	}
}

// TestEnvironmentFile reads what a file for a shell sets, and nothing that takes a shell.
func TestEnvironmentFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "-Dold",
		"# all\n\nexport JVMFLAGS=-Da=b\r\n": "-Da=b",
		`JVMFLAGS="-Da=b -Dc"`:               "-Da=b -Dc",
		`export JVMFLAGS="$JVMFLAGS -Da"`:    "-Dold -Da",
		`export JVMFLAGS="${JVMFLAGS}-Da"`:   "-Dold -Da",
		`export JVMFLAGS='-Da=$b'`:           "-Da=$b",
		`JVMFLAGS=`:                          "",
	} {
		env := map[string]string{"JVMFLAGS": "-Dold"}
		if err := EnvironmentFile(text, env); err != nil || env["JVMFLAGS"] != want {
			t.Errorf("%q: %q, %v; want %q", text, env["JVMFLAGS"], err, want)
		}
	}
	for _, text := range []string{
		"JVMFLAGS=$(cat /secret)", "JVMFLAGS=`id`", `JVMFLAGS="-D$HOME"`, "if [ -f x ]; then", "source /x", "JVMFLAGS=a b",
		"JVMFLAGS=a;reboot", `JVMFLAGS="$JVMFLAGSX -Da"`, `JVMFLAGS="a\"b"`, "JVMFLAGS='a''b'", "rm -rf / #=", "export A",
	} {
		env := map[string]string{"JVMFLAGS": "-Dold"}
		if err := EnvironmentFile("A=b\n"+text, env); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q is taken: %v, %v", text, env, err)
		}
	}
}
