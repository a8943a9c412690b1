package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/zk"
)

const (
	// completionPatience is how long Tab may wait for a server.
	completionPatience = 2 * time.Second
	// completionsMax bounds the completions that Tab offers.
	completionsMax = 1000
)

// complete returns the completions at pos in a line: commands, a command's flags, or
// paths. head and tail are the parts of the line that stay.
func (s *shell) complete(ctx context.Context, line string, pos int) (head string, words []string, tail string) {
	runes := []rune(line) // the editor counts these
	before, tail := string(runes[:pos]), string(runes[pos:])
	done, start, quoted := lastWord(before)
	head, word := before[:start], before[start:]
	c, rest := find(done)
	switch {
	case strings.HasPrefix(word, "/"):
		words = s.completePath(ctx, word)
		if !quoted {
			return head, quoteOpen(words), tail
		}
	case c != nil && strings.HasPrefix(word, "-"):
		for _, f := range append(slices.Clone(c.flags), outputFlag) {
			words = append(words, "-"+f.name+" ")
		}
	case c == nil || len(rest) == 0:
		words = completeCommand(done)
	}
	other := func(w string) bool { return !strings.HasPrefix(w, word) }
	words = slices.DeleteFunc(words, other)
	if len(words) == 0 && len(done) == 0 && !quoted {
		words = slices.DeleteFunc(completeAlias(), other) // no command begins with word
	}
	return head, words, tail
}

// lastWord returns the words before the last one, the position where the last one
// begins, and whether it is within an open quote.
func lastWord(line string) (done []string, start int, quoted bool) {
	start = strings.LastIndexAny(line, " \t") + 1
	if done, err := split(line[:start]); err == nil {
		if start < len(line) && strings.ContainsAny(line[start:start+1], `"'`) {
			return done, start + 1, true
		}
		return done, start, false
	}
	// There is a blank within a quote: the word begins after the quote that is open.
	for at := start; at > 0; {
		at = strings.LastIndexAny(line[:at], `"'`)
		if done, err := split(line[:max(at, 0)]); err == nil {
			return done, at + 1, true
		}
	}
	return nil, start, false
}

// quoteOpen puts a quote before the paths that need one. The quote stays open, as the
// path may go on.
func quoteOpen(paths []string) []string {
	for i, path := range paths {
		if strings.ContainsFunc(path, unicode.IsSpace) {
			paths[i] = `"` + path
		}
	}
	return paths
}

// completeCommand returns the words that may follow done in a command's name.
func completeCommand(done []string) (words []string) {
	prefix := ""
	if len(done) > 0 {
		prefix = strings.Join(done, " ") + " "
	}
	if prefix == "help " {
		prefix = ""
		for _, g := range guides() {
			words = append(words, g.name+" ")
		}
	}
	for _, c := range commands() {
		if rest, ok := strings.CutPrefix(c.name, prefix); ok {
			first, _, _ := strings.Cut(rest, " ")
			words = append(words, first+" ")
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// completeAlias returns the aliases that a line may begin with.
func completeAlias() (words []string) {
	for name := range aliases {
		words = append(words, name+" ")
	}
	for _, w := range access.Words() {
		words = append(words, w.Name+" ")
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// completePath returns the paths that begin with word: the children of the last znode whose name
// is complete in word or, if word is the whole path of the only match, the children of that znode.
func (s *shell) completePath(ctx context.Context, word string) (paths []string) {
	s.turn.Lock()
	c := s.client
	s.turn.Unlock()
	if c == nil || c.State().State.Final() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	above := cmp.Or(word[:strings.LastIndexByte(word, '/')], "/")
	paths = childPaths(ctx, c, above, word)
	if len(paths) == 1 && paths[0] == word {
		if below := childPaths(ctx, c, word, word+"/"); below != nil {
			return below
		}
	}
	return paths
}

// childPaths returns the paths of a znode's children that begin with a prefix, or nil
// if they can't be read: the command itself will say why.
func childPaths(ctx context.Context, c *zk.Client, above, prefix string) (paths []string) {
	children, _, err := c.Children(ctx, above)
	if err != nil {
		return nil
	}
	slices.Sort(children)
	for _, name := range children {
		if strings.ContainsFunc(name, terminal.Steers) {
			continue // it would look like another name
		}
		if path := subtree.Join(above, name); strings.HasPrefix(path, prefix) && len(paths) < completionsMax {
			paths = append(paths, path)
		}
	}
	return paths
}
