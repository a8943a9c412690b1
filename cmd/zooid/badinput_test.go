package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongConfigurations: what keeps a server from starting, said in words that
// name the file what to do and a code; nothing is written meanwhile.
func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	const three = "server.1=h1:1:2\nserver.2=h2:1:2\nserver.3=h3:1:2\n"
	for name, c := range map[string]struct {
		myid string // "" for none
		cfg  string
		code int
		says []string
	}{
		"no myid":             {"", three, 2, []string{"myid", "missing", "server.N line"}},
		"empty myid":          {"\n", three, 2, []string{"myid:1", "not a server id"}},
		"text in myid":        {"one\n", three, 2, []string{"myid:1", `"one" is not a server id`}},
		"two numbers in myid": {"1 2\n", three, 2, []string{"myid:1", "not a server id"}},
		"negative myid":       {"-1\n", three, 2, []string{"myid:1", "not a server id"}},
		"myid without a line": {"7\n", three, 2, []string{"id 7 has no server line", "server.1"}},
		"id 255 with TTL": {
			"255\n", "server.255=h0:1:2\n" + three, 2, []string{"255", "TTL", "extendedTypesEnabled=false"},
		},
		"id of 20 digits":     {"99999999999999999999\n", three, 2, []string{"not a server id"}},
		"no observers' group": {"1\n", "server.1=h1:1:2:observer\nserver.2=h2:1:2:observer\n", 2, []string{"no participant"}},
		"groups": {
			"1\n", three + "group.1=1:2:3\n", 2, []string{"group.1", "hierarchical quorums are not supported", "every voter counts as one. Remove the group and weight lines. Instead run as many voters"},
		},
		"weights": {
			"1\n", three + "weight.1=2\n", 2, []string{"weight.1", "hierarchical quorums are not supported"},
		},
		"oracle": {"1\n", three + "oraclePath=/oracle\n", 2, []string{"oraclePath", "refused", "three voters"}},
		"quorum SASL": {
			"1\n", three + "quorum.auth.enableSasl=true\n", 2, []string{"quorum.auth.enableSasl", "sslQuorum=true"},
		},
		"several addresses": {"1\n", "server.1=h1:1:2|h9:1:2\nserver.2=h2:1:2\nserver.3=h3:1:2\n", 2, []string{"multiAddress.enabled=true"}},
		"their ports differ": {
			"1\n", "multiAddress.enabled=true\nserver.1=h1:1:2|h9:3:4\nserver.2=h2:1:2\nserver.3=h3:1:2\n", 1, []string{"one quorum port"},
		},
		"one server twice": {"1\n", three + "server.02=h9:1:2\n", 2, []string{"server 2 is already given"}},
		"no initLimit":     {"1\n", three + "initLimit=0\n", 2, []string{"initLimit"}},
		"two memberships":  {"1\n", three + "dynamicConfigFile=/x\n", 2, []string{"dynamicConfigFile is given too"}},
		"no dynamic file": {
			"1\n", "dynamicConfigFile=/no/such/file\n", 2, []string{"/no/such/file", "can't read the membership"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			data, file := filepath.Join(dir, "data"), filepath.Join(dir, "zoo.cfg")
			text := "dataDir=" + data + "\nclientPort=0\ninitLimit=5\nsyncLimit=2\n" + c.cfg
			if err := errors.Join(os.Mkdir(data, 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			if c.myid != "" {
				if err := os.WriteFile(filepath.Join(data, "myid"), []byte(c.myid), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var errs strings.Builder
			if code := runServer([]string{file}, io.Discard, &errs); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, part := range append(c.says, "(ZD-1") {
				if !strings.Contains(errs.String(), part) {
					t.Errorf("it does not say %q:\n%s", part, errs.String())
				}
			}
			if list, err := os.ReadDir(data); err != nil || len(list) > 1 {
				t.Errorf("it left %v in the data directory, %v", list, err)
			}
		})
	}
}

// TestArgumentsOfStartScripts: options for Java cause a warning, and the commands of zkServer.sh a hint.
func TestArgumentsOfStartScripts(t *testing.T) {
	t.Parallel()
	options := []string{"-Xmx1g", "-javaagent:/opt/jmx.jar=7072:/etc/jmx.yml", "-agentlib:x", "-verbose:gc"}
	cfg, code := serverConfig(options, io.Discard, io.Discard)
	if cfg == nil || len(cfg.Warnings) != len(options) {
		t.Fatalf("exit code %d, %+v", code, cfg)
	}
	for i, w := range cfg.Warnings {
		if name, _, _ := strings.Cut(options[i], "="); w.Code != "ZD-1027" || !strings.Contains(w.String(), name) {
			t.Errorf("%s: %v", options[i], w)
		}
	}
	for args, hint := range map[string]bool{
		"start": true, "status zoo.cfg": true, "nosuch.cfg": false, "x y": false, "start-foreground nosuch.cfg": true,
	} {
		var text strings.Builder
		if cfg, code := serverConfig(strings.Fields(args), io.Discard, &text); cfg != nil || code != 2 ||
			strings.Contains(text.String(), "zooid status zoo.cfg") != hint {
			t.Errorf("%s: exit code %d, %s", args, code, text.String())
		}
	}
}
