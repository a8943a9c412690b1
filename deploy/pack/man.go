package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A topic is one command in the program's list of commands.
type topic struct{ name, args, about string }

// writeManPages asks a program for its help and writes zooid.1 and a page for each command.
func writeManPages(program, date, dir string) error {
	list, err := helpOf(program, "help")
	if err != nil {
		return err
	}
	topics := topicsOf(list)
	if len(topics) == 0 {
		return fmt.Errorf("make man pages: %s help lists no commands:\n%s", program, list)
	}
	page := head("zooid", "coordination service that speaks Apache ZooKeeper's client protocol", date)
	page += ".SH SYNOPSIS\n.B zooid\nCOMMAND [ARGUMENT]...\n.SH COMMANDS\n"
	var also []string
	for _, t := range topics {
		page += fmt.Sprintf(".TP\n.B %s\n%s\n", escape(t.name+" "+t.args), escape(t.about))
		also = append(also, fmt.Sprintf(".BR zooid-%s (1)", escape(t.name)))
		text, err := helpOf(program, t.name, "-h")
		if err != nil {
			return err
		}
		own := head("zooid-"+t.name, t.about, date) + ".SH DESCRIPTION\n.nf\n" + escapeLines(text) +
			".fi\n.SH SEE ALSO\n.BR zooid (1)\n"
		if err := os.WriteFile(filepath.Join(dir, "zooid-"+t.name+".1"), []byte(own), 0o644); err != nil {
			return err
		}
	}
	page += ".SH SEE ALSO\n" + strings.Join(also, ",\n") + "\n"
	return os.WriteFile(filepath.Join(dir, "zooid.1"), []byte(page), 0o644)
}

// helpOf runs a program to get its help, from either output stream.
func helpOf(program string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	text := out.String() + errs.String()
	if err != nil && !strings.Contains(text, "usage:") {
		return "", fmt.Errorf("ask %s %s for its help: %w\n%s", program, strings.Join(args, " "), err, text)
	}
	return text, nil
}

// topicsOf parses the list: two spaces, the name, the arguments, at least two spaces, the description.
func topicsOf(list string) (all []topic) {
	for line := range strings.Lines(list) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "  ")
		if !ok || strings.HasPrefix(rest, " ") {
			continue
		}
		name, rest, ok := strings.Cut(rest, " ")
		if !ok {
			continue
		}
		args, about, ok := strings.Cut(strings.TrimSpace(rest), "  ")
		if !ok { // no arguments, or a single space before the description
			args, about = "", args
		}
		all = append(all, topic{name, strings.TrimSpace(args), strings.TrimSpace(about)})
	}
	return all
}

func head(name, about, date string) string {
	return fmt.Sprintf(".TH %s 1 %q Zooid \"Zooid's commands\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), date,
		escape(name), escape(about))
}

// escape escapes text so that roff prints it literally.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
}

func escapeLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = escape(strings.TrimRight(line, "\n"))
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
