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

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/tool/cli"
)

const completionHelp = `usage: zooid completion bash|zsh|fish

Prints a script with which a shell completes zooid's commands, and those of zooid cli
with their flags. Load it in ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish:

  source <(zooid completion bash)
  source <(zooid completion zsh)
  zooid completion fish | source
`

// completionScript is for bash, and for zsh with its emulation of bash's completion.
//
//go:embed completion.bash
var completionScript string

//go:embed completion.fish
var fishScript string

// runCompletion prints the completion script of a shell.
func runCompletion(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, completionHelp)
		return 0
	}
	if len(args) != 1 || !slices.Contains([]string{"bash", "zsh", "fish"}, args[0]) {
		fmt.Fprint(stderr, completionHelp)
		return 2
	}
	shell, err := shellWords()
	if err != nil {
		fmt.Fprintln(stderr, "zooid completion:", runbook.Text(err))
		return 1
	}
	var script string
	switch args[0] {
	case "bash":
		script = filledIn(completionScript, "\t\t@CASES@\n", "\t\t%s) words='%s' ;;\n", shell)
	case "zsh":
		script = "autoload -U +X bashcompinit && bashcompinit\n" +
			filledIn(completionScript, "\t\t@CASES@\n", "\t\t%s) words='%s' ;;\n", shell)
	case "fish":
		script = filledIn(fishScript, "        @CASES@\n", "        case %s\n            string split ' ' -- '%s'\n", shell)
	}
	if _, err := io.WriteString(stdout, script); err != nil {
		fmt.Fprintln(stderr, "zooid completion:", runbook.Text(err))
		return 1
	}
	return 0
}

// filledIn returns a script with the names of commands and flags filled in. It replaces at by
// one copy of form for each command of the shell, filled in with the command's name and flags.
func filledIn(script, at, form string, shell map[string][]string) string {
	var names, cases []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	words := slices.Sorted(maps.Keys(shell))
	for _, word := range words {
		cases = append(cases, fmt.Sprintf(form, word, strings.Join(shell[word], " ")))
	}
	switches, valued := cli.StartFlags()
	return strings.NewReplacer(
		"@COMMANDS@", strings.Join(names, " "), "@FLAGS@", strings.Join(append(switches, valued...), " "),
		"@VALUED@", strings.Join(valued, "|"), "@WORDS@", strings.Join(words, " "), at, strings.Join(cases, ""),
	).Replace(script)
}

// shellWords returns the first words of the commands of zooid cli, each with its flags, as the shell's help lists them.
func shellWords() (map[string][]string, error) {
	var out, errs bytes.Buffer
	if code := cli.Main("cli", []string{"-o", "json", "help"}, cli.Streams{Out: &out, Err: &errs}, ""); code != 0 {
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
