package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// A command is one row of the table of commands.
type command struct {
	name    string // one word, or two such as "acl explain"
	usage   string // the usage after the name, in zkCli's form
	about   string // one line
	flags   []flag
	max     int  // arguments besides flags; -1 for any number
	min     int  // arguments besides flags
	offline bool // needs no connection
	paths   pathUse
	data    int                 // the argument that is data, which may be in a file; 0 for none
	raw     bool                // flags stand before the arguments only
	check   func(a *args) error // checks what can be checked without a server, except paths; may be nil
	run     func(ctx context.Context, s *shell, a *args) error
}

// pathUse is which of a command's arguments are paths.
type pathUse int

const (
	noPath     pathUse = iota
	firstPath          // the first
	secondPath         // the second
	allPaths           // each
	prefixPath         // the first is a prefix of paths
	placePaths         // two, here or in another ensemble
)

// checkLocally refuses, before a server is asked, requests that no server would accept,
// with the reason and the place.
func (a *args) checkLocally() error {
	var paths []string
	switch c := a.cmd; {
	case c.paths == firstPath && len(a.words) > 0:
		paths = a.words[:1]
	case c.paths == secondPath && len(a.words) > 1:
		paths = a.words[1:2]
	case c.paths == allPaths:
		paths = a.words
	case c.paths == placePaths:
		for _, w := range a.words {
			if i := strings.IndexByte(w, '/'); i >= 0 {
				paths = append(paths, w[i:])
			}
		}
	}
	for _, path := range paths {
		checked := path
		if a.cmd.name == "create" && a.has("s") {
			checked += "0" // the server appends digits to it
		}
		if err := jute.CheckPath(checked); err != nil {
			return &zk.Error{Op: a.cmd.name, Path: path, Err: err}
		}
	}
	if a.cmd.check != nil {
		return a.cmd.check(a)
	}
	return nil
}

// A flag is one option of a command.
type flag struct {
	name  string
	value string // the name of its value; "" for a switch
	about string
}

// outputFlag is an option of every command.
var outputFlag = flag{"o", "text|json", "how to print the result"}

// args are a command's parsed arguments.
type args struct {
	cmd   *command
	words []string          // arguments that are not flags
	flags map[string]string // by name; "" for a switch

	// literal says for each word whether it was quoted or follows "--". Words that come from another shell have lost their
	// quotes.
	literal []bool
	data    []byte // the value of the argument that is data; see value
}

// isLiteral reports whether the argument at i stands for its text and nothing else.
func (a *args) isLiteral(i int) bool { return i < len(a.literal) && a.literal[i] }

// usageError says that a command was called wrongly; the command's usage is printed with it.
type usageError struct {
	cmd    *command
	reason string // "" if the usage says it all
	hint   string // "" to point to help
}

func (e *usageError) Error() string {
	if e.reason == "" {
		return e.cmd.name + " " + e.cmd.usage
	}
	return e.reason
}

func (a *args) usagef(format string, v ...any) error {
	return &usageError{cmd: a.cmd, reason: fmt.Sprintf(format, v...)}
}

// noFlagError says that a command doesn't have the flag in word.
func (a *args) noFlagError(word string) error {
	hint := cmp.Or(flagsElsewhere[a.cmd.name+" "+word], a.cmd.name+" has the flags "+a.cmd.flagNames())
	return &usageError{a.cmd, a.cmd.name + " has no flag " + word, hint + "; help " + a.cmd.name + " tells more"}
}

// parse splits words into flags and arguments. Flags may stand anywhere and begin with
// one dash or two; switches of one letter may share a dash; a value may follow directly
// or after "="; "--" ends the flags. A negative number is an argument. quoted says for
// each word whether it was quoted; it may be nil.
func (c *command) parse(words []string, quoted []bool) (*args, error) {
	a := &args{cmd: c, flags: map[string]string{}}
	ended := false // by "--"
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "--" && !ended {
			ended = true
			continue
		}
		if ended || c.raw && len(a.words) > 0 || len(w) < 2 || w[0] != '-' || isNumber(w) {
			a.words = append(a.words, w)
			a.literal = append(a.literal, ended && !c.raw || i < len(quoted) && quoted[i])
			continue
		}
		takes, err := a.flag(w)
		if err != nil {
			return nil, err
		}
		if takes == "" {
			continue
		}
		if i++; i >= len(words) {
			return nil, a.usagef("%s: the flag -%s needs a value", c.name, takes)
		}
		a.flags[takes] = words[i]
	}
	if len(a.words) < c.min {
		return nil, &usageError{cmd: c}
	}
	if c.max >= 0 && len(a.words) > c.max {
		return nil, a.usagef("%s takes at most %d arguments, and %q is one more", c.name, c.max, a.words[c.max])
	}
	return a, nil
}

// flag parses the flag or flags in word. takes is the name of the flag whose value is
// the next word, "" if there is none.
func (a *args) flag(word string) (takes string, err error) {
	text := strings.TrimPrefix(word[1:], "-")
	name, value, given := strings.Cut(text, "=")
	if f := a.cmd.findFlag(name); f != nil {
		switch {
		case f.value == "" && given:
			return "", a.usagef("%s: the flag -%s takes no value", a.cmd.name, name)
		case f.value == "" || given:
			a.flags[name] = value
			return "", nil
		}
		return name, nil
	}
	for i := range len(text) {
		f := a.cmd.findFlag(text[i : i+1])
		switch {
		case f == nil:
			return "", a.noFlagError(word)
		case f.value == "":
			a.flags[f.name] = ""
		case i+1 < len(text):
			a.flags[f.name] = text[i+1:]
			return "", nil
		default:
			return f.name, nil
		}
	}
	return "", nil
}

func (c *command) findFlag(name string) *flag {
	if name == outputFlag.name {
		return &outputFlag
	}
	for i := range c.flags {
		if c.flags[i].name == name {
			return &c.flags[i]
		}
	}
	return nil
}

func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}

// has reports whether the flag was given.
func (a *args) has(name string) bool {
	_, ok := a.flags[name]
	return ok
}

// arg returns the argument at i, "" if there are fewer.
func (a *args) arg(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

// argOr returns the argument at i, or otherwise if there are fewer.
func (a *args) argOr(i int, otherwise string) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return otherwise
}

// number returns a flag's value, or otherwise if it wasn't given.
func (a *args) number(name string, otherwise int64) (int64, error) {
	text, ok := a.flags[name]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, a.usagef("%s -%s: %q is not a whole number", a.cmd.name, name, text)
	}
	return n, nil
}

// version returns the value of -v, or of the old positional form, or -1.
func (a *args) version(position int) (int32, error) {
	text := a.argOr(position, "-1")
	if v, ok := a.flags["v"]; ok {
		text = v
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, a.usagef("%s: the version %q is not a whole number; stat shows a znode's versions", a.cmd.name, text)
	}
	return int32(n), nil
}

// duration returns a flag's value, or otherwise if it wasn't given.
func (a *args) duration(name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := a.flags[name]
	if !ok {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, a.usagef("%s -%s: %q is not a length of time such as 500ms, 2s, 36h", a.cmd.name, name, text)
	}
	return d, nil
}

// find returns the command whose name or alias the words begin with, and the remaining
// words.
func find(words []string) (*command, []string) {
	if c, rest := findNamed(words); c != nil {
		return c, rest
	}
	return findNamed(unalias(words))
}

func findNamed(words []string) (*command, []string) {
	table := commands()
	for n := min(2, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		for i := range table {
			if table[i].name == name {
				return &table[i], words[n:]
			}
		}
	}
	return nil, nil
}

// printUsage prints a command's usage and its flags.
func (c *command) printUsage(w io.Writer) {
	fmt.Fprintln(w, strings.TrimRight(c.name+" "+c.usage, " "))
	for _, f := range c.flags {
		fmt.Fprintf(w, "  -%-18s %s\n", strings.TrimRight(f.name+" "+f.value, " "), f.about)
	}
}
