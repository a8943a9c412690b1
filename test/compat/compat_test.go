package compat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// programs are the two sides of a comparison, by the environment: Apache 3.9 against Zooid unless told otherwise.
// The test is skipped unless it was asked for: it needs what install.sh installs, and minutes.
func programs(t *testing.T) (reference, subject Program) {
	t.Helper()
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs real clients and a real Apache ZooKeeper: make compat, or see README.md")
	}
	named := func(variable, otherwise string) Program {
		if name := os.Getenv(variable); name != "" {
			return Find(t, name)
		}
		return Find(t, otherwise)
	}
	return named("ZOOID_COMPAT_REFERENCE", Apache39), named("ZOOID_COMPAT_SUBJECT", Zooid)
}

// sizes are the numbers of servers that a comparison is made with.
var sizes = []struct {
	name    string
	servers int
}{{"standalone", 1}, {"ensemble", 3}}

func TestKazoo(t *testing.T) {
	reference, subject := programs(t)
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) {
			if testing.Short() && size.servers == 1 {
				t.Skip("three minutes; the suite runs on an ensemble in any case")
			}
			kazooSuite(t, size.servers).judge(t, reference, subject)
		})
	}
}

func TestGoZookeeper(t *testing.T) {
	reference, subject := programs(t)
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) { goZookeeperSuite(t, size.servers).judge(t, reference, subject) })
	}
}

// scripted are the options of the servers that scripts are compared on: what Apache keeps off by default is on.
var scripted = Options{
	Config: map[string]string{"enforceQuota": "true", "reconfigEnabled": "true"},
	Properties: map[string]string{
		"zookeeper.extendedTypesEnabled":  "true",
		"znode.container.checkIntervalMs": "100",
		// super:test
		"zookeeper.DigestAuthenticationProvider.superDigest": "super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
	},
}

func TestC(t *testing.T) {
	reference, subject := programs(t)
	client := filepath.Join(t.TempDir(), "client")
	compile := exec.Command("gcc", "-std=gnu11", "-DTHREADED", "-Wall", "-Wextra", "-o", client,
		filepath.Join("testdata", "client.c"), "-lzookeeper_mt", "-lpthread")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compiling the C client: %v; run test/compat/install.sh\n%s", err, out)
	}
	compareTranscripts(t, reference, subject, scripted, func(addr string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
		defer cancel()
		out, err := exec.CommandContext(ctx, client, addr).Output() // what it logs carries times
		return string(out), err
	})
}

func TestZkCli(t *testing.T) {
	reference, subject := programs(t)
	script, err := os.ReadFile(filepath.Join("testdata", "zkcli.txt"))
	if err != nil {
		t.Fatal(err)
	}
	shellFrom := Find(t, Apache39)
	compareTranscripts(t, reference, subject, scripted, func(addr string) (string, error) {
		return runShell(shellFrom.java, shellFrom.classPath, addr, string(script))
	})
}
