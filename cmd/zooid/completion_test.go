package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCompletion has bash complete command lines.
func TestCompletion(t *testing.T) {
	t.Parallel()
	var script, errs bytes.Buffer
	if code := run([]string{"completion", "bash"}, &script, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if strings.Contains(script.String(), "@") {
		t.Errorf("something is not filled in: %s", script.String())
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for line, want := range map[string]string{
		"zooid stat":                         "status",
		"zooid c":                            "cert cli check completion",
		"zooid cli mir":                      "mirror",
		"zooid cli -waitf":                   "-waitforconnection",
		"zooid cli --tls-c":                  "",
		"zooid cli -tls-c":                   "-tls-ca -tls-cert",
		"zooid cli -server zk1 deletea":      "deleteall",
		"zooid cli -server zk1 : 2181 creat": "create",
		"zooid cli -r create -":              "-c -e -o -p -s -t",
		"zooid cli stat -":                   "-bytes -i -k -n -o -w",
		"zooid cli get /a":                   "",
		"zooid server zo":                    "",
		"zooid cli nosuch -":                 "",
	} {
		words := strings.Fields(line)
		program := script.String() + "\nCOMP_WORDS=(" + line + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_zooid\necho \"${COMPREPLY[@]}\""
		out, err := exec.Command(bash, "-c", program).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q (%d words): %q, %v; want %q", line, len(words), got, err, want)
		}
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		var out bytes.Buffer
		if code := run(args, &out, &out); code != 2 || !strings.Contains(out.String(), "usage: zooid completion") {
			t.Errorf("%q: exit code %d: %s", args, code, out.String())
		}
	}
	script.Reset()
	if code := run([]string{"completion", "zsh"}, &script, &errs); code != 0 ||
		!strings.HasPrefix(script.String(), "autoload") {
		t.Errorf("zsh: exit code %d: %s", code, script.String())
	}
}

// TestFishCompletion has fish complete command lines.
func TestFishCompletion(t *testing.T) {
	t.Parallel()
	var script, errs bytes.Buffer
	if code := run([]string{"completion", "fish"}, &script, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if strings.Contains(script.String(), "@") {
		t.Errorf("something is not filled in: %s", script.String())
	}
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("there is no fish")
	}
	for line, want := range map[string]string{
		"zooid stat":                     "status",
		"zooid c":                        "cert check cli completion",
		"zooid cli mir":                  "mirror",
		"zooid cli -waitf":               "-waitforconnection",
		"zooid cli -tls-c":               "-tls-ca -tls-cert",
		"zooid cli -server zk1 deletea":  "deleteall",
		"zooid cli -server zk1:1 creat":  "create",
		"zooid cli -r create -":          "-c -e -o -p -s -t",
		"zooid cli stat -":               "-i -n -o -w",
		"zooid cli get nosuch":           "",
		"zooid server zo":                "",
		"zooid cli nosuch -":             "",
		"zooid cli -server zk1 create -": "-c -e -o -p -s -t",
	} {
		program := script.String() + "\ncomplete -C '" + line + "'"
		c := exec.Command(fish, "--no-config", "-c", program)
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir()) // no files to offer, none of the user's
		out, err := c.CombinedOutput()
		got := slices.Sorted(strings.FieldsSeq(string(out)))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
}
