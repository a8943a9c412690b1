package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
)

const (
	historyShown = 11   // commands that history lists, as zkCli
	historyKept  = 1000 // commands that redo reaches; zkCli keeps all
)

// history holds the commands of this run by number, for history and redo. The
// line editor's own history lasts longer.
type history struct {
	lines []string // numbers count-len(lines)+1 to count, once the current command is added
	count int      // the current command's number
}

// add records the current command.
func (h *history) add(line string) {
	if len(h.lines) >= historyKept {
		h.lines = h.lines[1:]
	}
	h.lines = append(h.lines, line)
}

// next advances to the next number.
func (h *history) next() { h.count++ }

// at returns the command of a number.
func (h *history) at(n int) (string, bool) {
	i := n - (h.count - len(h.lines) + 1)
	if i < 0 || i >= len(h.lines) || n > h.count {
		return "", false
	}
	return h.lines[i], true
}

type historyJSON struct {
	Number  int    `json:"number"`
	Command string `json:"command"`
}

func runHistory(_ context.Context, s *shell, _ *args) error {
	for n := max(0, s.history.count-historyShown+1); n <= s.history.count; n++ {
		line, ok := s.history.at(n)
		if !ok {
			continue
		}
		s.out.Show(historyJSON{n, line}, func() { s.out.Printf("%d - %s\n", n, line) })
	}
	return nil
}

func runRedo(ctx context.Context, s *shell, a *args) error {
	n, err := strconv.Atoi(a.arg(0))
	if err != nil {
		return a.usagef("redo: %q isn't the number of a command; history lists them", a.arg(0))
	}
	line, ok := s.history.at(n)
	if !ok || n >= s.history.count {
		return advice.Errorf("history lists the commands with their numbers", "Command index out of range")
	}
	words, quoted, err := splitQuoted(line)
	if err != nil || len(words) == 0 {
		return advice.Errorf("", "redo %d: the command %q can't be run", n, line)
	}
	if words[0] == "redo" {
		return errors.New("No redoing redos")
	}
	s.history.lines[len(s.history.lines)-1] = line
	c, rest := find(words)
	return s.run(ctx, c, words[0], rest, quoted)
}

// keepable reports whether a line may be kept on disk: a line with credentials may not,
// nor, as in other shells, one that begins with a blank.
func keepable(line string) bool {
	return line != "" && strings.TrimLeftFunc(line, unicode.IsSpace) == line && !secret(line)
}

// secretWords are words that lines with credentials contain, or are likely to contain.
var secretWords = []string{"auth", "digest", "sasl", "passw", "passwd", "pwd", "secret", "token", "credential"}

// secret reports whether a line may contain a credential: it has one of secretWords, in
// whatever case, or its command looks like a misspelt addauth, or it can't be parsed.
// Losing a line from the history costs less than keeping a credential.
func secret(line string) bool {
	lower := strings.ToLower(line)
	if slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(lower, w) }) {
		return true
	}
	words, err := split(lower)
	if err != nil || len(words) == 0 {
		return true
	}
	if c, _ := find(words); c != nil {
		return false
	}
	c, _ := find(strings.Fields(line)) // for commands with capitals in their names
	return c == nil && strings.HasPrefix(words[0], "a")
}

// historyFile is where lines are kept between runs, "" for nowhere.
func historyFile() string {
	if file, ok := os.LookupEnv("ZOOID_HISTORY"); ok {
		return file
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".zooid_history")
}

// historyBytesMax is the size above which the file is cut to its last half: a few
// thousand lines, which is more than the line editor takes.
const historyBytesMax = 256 << 10

// readHistory returns the lines kept in a file. It cuts a file that has grown large.
func readHistory(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil || len(text) <= historyBytesMax {
		return text, err
	}
	text = text[len(text)-historyBytesMax/2:]
	text = text[bytes.IndexByte(text, '\n')+1:]
	return text, os.WriteFile(file, text, 0o600)
}

// keepHistory appends a line to a file at once: a signal may end the shell, and other
// shells may run at the same time.
func keepHistory(file, line string) error {
	if file == "" || !keepable(line) {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
