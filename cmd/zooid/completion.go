package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/cli"
	"github.com/zooid-project/zooid/internal/runbook"
)

const completionHelp = `usage: zooid completion bash|zsh

Prints what makes a shell complete zooid's commands, and those of zooid cli with their
flags. In ~/.bashrc or ~/.zshrc:

  source <(zooid completion bash)
  source <(zooid completion zsh)
`

// completionScript is for bash, and for zsh with its emulation of bash's completion.
//
//go:embed completion.bash
var completionScript string

// runCompletion prints the script with what can be completed filled in.
func runCompletion(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, completionHelp)
		return 0
	}
	if len(args) != 1 || args[0] != "bash" && args[0] != "zsh" {
		fmt.Fprint(stderr, completionHelp)
		return 2
	}
	shell, err := shellWords()
	if err != nil {
		fmt.Fprintln(stderr, "zooid completion:", runbook.Text(err))
		return 1
	}
	var names, cases []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	words := slices.Sorted(maps.Keys(shell))
	for _, word := range words {
		cases = append(cases, fmt.Sprintf("\t\t%s) words='%s' ;;\n", word, strings.Join(shell[word], " ")))
	}
	switches, valued := cli.StartFlags()
	script := strings.NewReplacer(
		"@COMMANDS@", strings.Join(names, " "), "@FLAGS@", strings.Join(append(switches, valued...), " "),
		"@VALUED@", strings.Join(valued, "|"), "@WORDS@", strings.Join(words, " "), "\t\t@CASES@\n", strings.Join(cases, ""),
	).Replace(completionScript)
	if args[0] == "zsh" {
		script = "autoload -U +X bashcompinit && bashcompinit\n" + script
	}
	if _, err := io.WriteString(stdout, script); err != nil {
		fmt.Fprintln(stderr, "zooid completion:", runbook.Text(err))
		return 1
	}
	return 0
}

// shellWords returns the first words of the commands of zooid cli, each with the flags
// that may follow, as its help lists them.
func shellWords() (map[string][]string, error) {
	var out, errs bytes.Buffer
	if code := cli.Main([]string{"-o", "json", "help"}, cli.Streams{Out: &out, Err: &errs}, ""); code != 0 {
		return nil, fmt.Errorf("ask the shell for its commands: %s", errs.String())
	}
	words := map[string][]string{}
	for d := json.NewDecoder(&out); d.More(); {
		var c struct {
			Name  string
			Flags map[string]string
		}
		if err := d.Decode(&c); err != nil {
			return nil, err
		}
		first, _, _ := strings.Cut(c.Name, " ")
		flags := slices.Sorted(maps.Keys(c.Flags))
		words[first] = slices.Compact(slices.Sorted(slices.Values(append(append(words[first], flags...), "-o"))))
	}
	return words, nil
}
