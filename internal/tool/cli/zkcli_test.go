package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// differs lists the commands of testdata/zkcli.commands whose output is not
// Apache's, each with the reason. Hints, the lines about flags below a usage, and
// the list of commands are left out of the comparison: zkCli has no such.
var differs = map[string]string{
	"create":                          "-p in the usage",
	"create -x /t/q":                  "a Java exception's name",
	"rmr /t/b":                        "another name of deleteall, as in releases before 3.5",
	"create /t/":                      "the error says where the path is wrong",
	"deleteall /t/a -b x":             "all numbers are refused in the same words",
	"delquota -n -b /t":               "a Java exception's name",
	"printwatches maybe":              "refused; zkCli takes it as off",
	"reconfig -file /none":            "one error; zkCli's names the file twice",
	"reconfig -v x -remove 1":         "the error tells what the version is",
	"removewatches /t/a -x":           "a Java exception's name",
	"setquota -n x /t":                "all numbers are refused in the same words",
	"create /t/a one two":             "one error instead of three; nothing is sent",
	"create /t/c hello foo:bar:cdrwa": "one error instead of two",
	"create /t/c hello world:anyone":  "one error instead of three; nothing is sent",
	"create relative x":               "the error says where the path is wrong",
	"deleteall /":                     "refused before anything is deleted",
	"get -q /t/a":                     "a Java exception's name",
	"getEphemerals a b":               "an argument too many is an error",
	"help":                            "no command of zkCli's",
	"ls s":                            "the error says where the path is wrong",
	"redo":                            "a usage; zkCli says nothing",
	"removewatches":                   "flags of newer releases in the usage",
	"set /t/a three 3":                "zkCli 3.9 takes it as ever, without the note of its other old forms",
	"setAcl -R /t world:anyone:cdrwa": "the error says how far it came",
	"setAcl /t/a foo":                 "one error instead of two; nothing is sent",
	"setAcl /t/a world:anyone:zx":     "an unknown permission is an error; zkCli goes on without it",
	"setquota -N 50 -B 500 /t":        "a Java exception's name",
	"setquota -n 5 -b 7 /t":           "a Java exception's name",
	"setquota /t":                     "a Java exception's name",
	"stat /t -x":                      "a Java exception's name",
}

// TestAgainstZkCli runs the same commands through Apache's shell and through this
// one, on the same server, and compares what they print.
func TestAgainstZkCli(t *testing.T) {
	t.Parallel()
	compareCommands(t, startApache(t), "testdata/zkcli.commands")
}

// TestReconfigAgainstZkCli does the same on an ensemble, of one server.
func TestReconfigAgainstZkCli(t *testing.T) {
	t.Parallel()
	address := startApacheWith(t, func(address string) string {
		peer := freeport.Take(t, 2)
		return fmt.Sprintf("initLimit=10\nsyncLimit=5\nstandaloneEnabled=false\nreconfigEnabled=true\nserver.1=127.0.0.1:%d:%d:participant;%s\n",
			peer[0], peer[1], address)
	})
	compareCommands(t, address, "testdata/reconfig.commands")
}

// compareCommands runs a file's commands through both shells.
func compareCommands(t *testing.T, address, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	members := []byte("server.1=127.0.0.1:1:2:participant;3\n")
	if err := os.WriteFile(filepath.Join(folder, "members"), members, 0o600); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(strings.NewReplacer("ADDRESS", address, "FOLDER", folder).Replace(line)); line != "" &&
			line[0] != '#' {
			commands = append(commands, line)
		}
	}
	want := runZkCli(t, address, commands)
	v := newSession(t, address)
	for i, command := range commands {
		got := compared(strings.ReplaceAll("\n"+v.run(t, command), "\n! ", "\n"))
		wanted := compared(want[i])
		reason, known := differs[command]
		switch {
		case wanted != got && reason == "":
			t.Errorf("%s\n--- zkCli prints\n%s\n--- this shell\n%s", command, wanted, got)
		case wanted == got && known && reason != "":
			t.Errorf("%s prints the same as zkCli's, so it is no difference (%s)", command, reason)
		}
	}
}

// TestRunsAsZkCli starts Apache's shell and this one with the same arguments and the
// same input, and compares what they print and their exit codes.
func TestRunsAsZkCli(t *testing.T) {
	t.Parallel()
	address := startApache(t)
	properties := textFile(t,
		"zookeeper.client.secure=false", "zookeeper.sasl.client=false", "zookeeper.request.timeout=20000")
	for _, c := range []struct {
		arguments []string
		input     string
	}{
		{[]string{"ls", "/"}, ""},
		{[]string{"-r", "-waitforconnection", "-timeout", "9000", "stat", "/zookeeper"}, ""},
		{[]string{"-client-configuration", properties, "whoami"}, ""},
		{[]string{"get", "/none"}, ""},
		{[]string{"create", "/zookeeper", "x"}, ""},
		{[]string{"nosuch"}, ""},
		{nil, "ls /\nclose\nls /\nconnect " + address + "\ngetAcl /\n\nquit\nls /\n"},
		{nil, "ls /none\nwhoami\nhistory\nredo 1\nhistory\n"},
	} {
		arguments := append([]string{"-server", address}, c.arguments...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		process := zkCli(ctx, arguments...)
		process.Stdin = strings.NewReader(c.input)
		want, err := process.CombinedOutput()
		cancel()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		wanted, code := compared(string(want)), process.ProcessState.ExitCode()
		if c.input != "" {
			// A script here stops at a failure unless told to go on, and tells it by its
			// exit code; zkCli's is that of the last command.
			arguments, code = append([]string{"-k"}, arguments...), exitFailed
		}
		out, errs, got := once(c.input, arguments...)
		if printed := compared(out + errs); got != code || printed != wanted {
			t.Errorf("%q with %q: code %d, want %d\n--- zkCli prints\n%s\n--- this shell\n%s", c.arguments, c.input, got, code,
				wanted, printed)
		}
	}
}

// zkCli is Apache's shell.
func zkCli(ctx context.Context, arguments ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Duser.timezone=UTC", "-Duser.language=en", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", apacheClasspath(), "org.apache.zookeeper.ZooKeeperMain"}, arguments...)...)
}

// runZkCli returns what Apache's shell prints for each command.
func runZkCli(t *testing.T, address string, commands []string) []string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := zkCli(ctx, "-server", address, "-waitforconnection")
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process.Stderr = process.Stdout
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	printed := make([]string, len(commands))
	for i, command := range append([]string{"version"}, commands...) {
		// The version that is asked for after each command ends its output.
		if i > 0 {
			fmt.Fprintln(in, command)
		}
		fmt.Fprintln(in, "version")
		var text strings.Builder
		for ended := false; !ended; {
			if !lines.Scan() {
				t.Fatalf("zkCli ended at %q: %v; it had printed %s", command, lines.Err(), text.String())
			}
			var line string // some messages end without a new line
			line, _, ended = strings.Cut(lines.Text(), "ZooKeeper CLI version")
			text.WriteString(line + "\n")
		}
		if i > 0 {
			printed[i-1] = text.String()
		}
	}
	in.Close()
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := process.Wait(); err != nil && ctx.Err() != nil {
		t.Error(err)
	}
	return printed
}

// configVersion is that of a membership in the first epoch.
var configVersion = regexp.MustCompile(`\b1000000[0-9a-f]{2}\b`)

// compared leaves out what can't or needn't be the same, and the events, which
// zkCli prints whenever they come.
func compared(text string) string {
	var kept []string
	text = configVersion.ReplaceAllString(stable(text, "FOLDER"), "VERSION")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "", line == "WATCHER::", strings.HasPrefix(line, "WatchedEvent "), strings.HasPrefix(line, "(exit "),
			strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "  "), strings.HasPrefix(line, " -"),
			strings.HasPrefix(line, "ZooKeeper -server host:port"), strings.HasPrefix(line, "Connecting to "),
			line == "Welcome to ZooKeeper!", line == "JLine support is disabled":
		default:
			kept = append(kept, line)
		}
	}
	slices.Sort(kept) // a server sends identities in any order
	return strings.Join(kept, "\n")
}
