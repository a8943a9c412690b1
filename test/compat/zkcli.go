package compat

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// shellMain is the class of Apache's shell, zkCli.
const shellMain = "org.apache.zookeeper.ZooKeeperMain"

const (
	shellPatience = 5 * time.Minute         // for a whole script; it takes seconds
	awaitPrefix   = "await "                // a line of a script that waits for an event
	endOfOutput   = "ZooKeeper CLI version" // the start of what "version" prints, which is sent after each command
	eventPrefix   = "WatchedEvent "
)

// shell is a running zkCli.
type shell struct {
	in      io.Writer
	out     *bufio.Scanner
	events  []string
	awaited int // number of events awaited so far
}

// runShell makes Apache's shell execute script against the server at addr. A script has one command per line; lines
// with # are comments, and ADDRESS stands for addr. "await X" waits for a watch event that contains X, after those
// awaited before. The result is each command with its output, followed by the events: the shell prints events from
// another thread, so only their own order is certain.
func runShell(java, classPath, addr, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), shellPatience)
	defer cancel()
	process := exec.CommandContext(ctx, java, slices.Concat(jvmOptions, []string{
		"-Duser.timezone=UTC", "-Duser.language=en", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
		"-cp", classPath, shellMain, "-server", addr, "-waitforconnection"})...)
	in, err := process.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return "", err
	}
	process.Stderr = process.Stdout // one pipe, so that errors appear where they were printed
	if err := process.Start(); err != nil {
		return "", err
	}

	s := &shell{in: in, out: bufio.NewScanner(out)}
	transcript, err := s.carryOut(strings.ReplaceAll(script, "ADDRESS", addr))
	in.Close()
	if err != nil {
		process.Process.Kill()
	}
	for s.out.Scan() { // the output at the end of the session
	}
	if waitErr := process.Wait(); err == nil && waitErr != nil && ctx.Err() != nil {
		err = fmt.Errorf("the shell didn't end: %w", ctx.Err())
	}
	return transcript, err
}

func (s *shell) carryOut(script string) (string, error) {
	var transcript strings.Builder
	if _, err := s.command("version"); err != nil { // reads past the greeting
		return "", fmt.Errorf("waiting for the shell to connect: %w", err)
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&transcript, "> %s\n", line)
		if awaited, ok := strings.CutPrefix(line, awaitPrefix); ok {
			if err := s.await(awaited); err != nil {
				return transcript.String(), err
			}
			continue
		}
		output, err := s.command(line)
		if err != nil {
			return transcript.String(), fmt.Errorf("%s: %w", line, err)
		}
		for _, o := range inOrder(line, output) {
			transcript.WriteString(o + "\n")
		}
	}
	transcript.WriteString("events:\n")
	for _, event := range s.events {
		transcript.WriteString(event + "\n")
	}
	return transcript.String(), nil
}

// command sends one command and returns the lines that it printed. It sets events aside.
func (s *shell) command(line string) ([]string, error) {
	if _, err := fmt.Fprintf(s.in, "%s\nversion\n", line); err != nil {
		return nil, err
	}
	var output []string
	versions := 1
	if line == "version" {
		versions = 2
	}
	for {
		text, err := s.read()
		if err != nil {
			return output, err
		}
		if strings.HasPrefix(text, endOfOutput) {
			if versions--; versions == 0 {
				return output, nil
			}
			continue
		}
		if text != "" {
			output = append(output, text)
		}
	}
}

// read returns the next line. It returns "" if the line belonged to an event.
func (s *shell) read() (string, error) {
	if !s.out.Scan() {
		if err := s.out.Err(); err != nil {
			return "", err
		}
		return "", io.ErrUnexpectedEOF
	}
	text := strings.TrimSpace(s.out.Text())
	if text == "WATCHER::" {
		return "", nil
	}
	if strings.HasPrefix(text, eventPrefix) {
		if !strings.Contains(text, "type:None") { // not a session event (connected, closed)
			s.events = append(s.events, text)
		}
		return "", nil
	}
	return text, nil
}

// await reads until there is an event, after those awaited before, that contains text.
func (s *shell) await(text string) error {
	for {
		for ; s.awaited < len(s.events); s.awaited++ {
			if strings.Contains(s.events[s.awaited], text) {
				s.awaited++
				return nil
			}
		}
		if _, err := s.read(); err != nil {
			return fmt.Errorf("waiting for the event %q: %w; so far came %q", text, err, s.events)
		}
	}
}

// inOrder sorts the output for sets that a server sends in any order: identities and ephemerals.
func inOrder(command string, output []string) []string {
	switch {
	case command == "whoami" && len(output) > 1:
		slices.Sort(output[1:]) // after the heading
	case strings.HasPrefix(command, "getEphemerals") && len(output) == 1:
		paths := strings.Split(strings.Trim(output[0], "[]"), ", ")
		slices.Sort(paths)
		return []string{"[" + strings.Join(paths, ", ") + "]"}
	}
	return output
}
