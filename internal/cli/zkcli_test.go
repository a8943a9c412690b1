package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// differs lists the commands of testdata/zkcli.commands whose output is not
// Apache's, each with the reason. Hints, the lines about flags below a usage, and
// the list of commands are left out of the comparison: zkCli has no such.
var differs = map[string]string{
	"create -x /t/q":                  "a Java exception's name",
	"create /t/":                      "the error says where the path is wrong",
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
	address := startApache(t)
	text, err := os.ReadFile("testdata/zkcli.commands")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(strings.ReplaceAll(line, "ADDRESS", address)); line != "" && line[0] != '#' {
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

// runZkCli returns what Apache's shell prints for each command.
func runZkCli(t *testing.T, address string, commands []string) []string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Duser.timezone=UTC", "-Duser.language=en", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", apacheClasspath(), "org.apache.zookeeper.ZooKeeperMain", "-server", address, "-waitforconnection")
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

// compared leaves out what can't or needn't be the same, and the events, which
// zkCli prints whenever they come.
func compared(text string) string {
	var kept []string
	for line := range strings.Lines(stable(text, "FOLDER")) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "", line == "WATCHER::", strings.HasPrefix(line, "WatchedEvent "), strings.HasPrefix(line, "(exit "),
			strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "  "), strings.HasPrefix(line, " -"),
			strings.HasPrefix(line, "ZooKeeper -server host:port"):
		default:
			kept = append(kept, line)
		}
	}
	slices.Sort(kept) // a server sends identities in any order
	return strings.Join(kept, "\n")
}
