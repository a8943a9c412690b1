package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
)

// An edit puts a text into a file. No edit of one mutant removes text that another one edits, so all mutants of a
// package are compiled at once, and the environment says which one is made: a compilation for each would take hours.
type edit struct {
	at, cut int    // where, and how many bytes are left out
	text    string // without a line feed: lines stay where they are
	place   int
	other   int // where the edit's counterpart is
	seq     int // the order in which edits of the same place were added; the first one is outermost
}

// What comes first of edits at the same place.
const (
	closes = iota
	replaces
	opens
)

// apply returns a text with edits.
func apply(text []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int {
		order := cmp.Or(a.at-b.at, a.place-b.place, b.other-a.other, a.seq-b.seq)
		if a.at == b.at && a.place == b.place && a.other == b.other && a.place == closes {
			return -order
		}
		return order
	})
	var out bytes.Buffer
	done := 0
	for _, e := range edits {
		out.Write(text[done:e.at])
		out.WriteString(e.text)
		done = e.at + e.cut
	}
	out.Write(text[done:])
	return out.Bytes()
}

// variable is the environment variable with the number of the mutant that is made.
const variable = "ZOOID_MUTANT"

// support is the code that the mutants of a package call.
const support = `package %s

import (
	"cmp"
	"os"
	"strconv"
)

var mutantActive, _ = strconv.Atoi(os.Getenv("` + variable + `"))

func mutantOn(id int) bool { return mutantActive == id }

func mutantError(id int, err error) error {
	if mutantActive == id {
		return nil
	}
	return err
}

func mutantPlusOne[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](id int, v T) T {
	if mutantActive == id {
		return v + 1
	}
	return v
}

func mutantLess[T cmp.Ordered](id int, x, y T) bool         { return x < y || mutantActive == id && x == y }
func mutantGreater[T cmp.Ordered](id int, x, y T) bool      { return x > y || mutantActive == id && x == y }
func mutantLessEqual[T cmp.Ordered](id int, x, y T) bool    { return x < y || mutantActive != id && x == y }
func mutantGreaterEqual[T cmp.Ordered](id int, x, y T) bool { return x > y || mutantActive != id && x == y }
`

// woven is the package with its mutants, in files that go test -overlay takes.
type woven struct {
	mutants []*mutant
	out     int // mutants that the compiler refuses
	overlay string
}

// weave writes the package with all mutants into the folder dir. It leaves out those that don't compile.
func (p *loaded) weave(mutants []*mutant, dir string) (*woven, error) {
	w := &woven{mutants: mutants}
	for {
		texts := p.with(w.mutants)
		refused, err := p.compile(texts)
		if err != nil {
			return nil, err
		}
		if len(refused) == 0 {
			w.overlay, err = p.write(texts, dir)
			return w, err
		}
		kept := slices.DeleteFunc(slices.Clone(w.mutants), func(m *mutant) bool { return refused[place{m.file, m.line}] })
		if len(kept) == len(w.mutants) {
			return nil, fmt.Errorf("%s doesn't compile with mutants: %v", p.path, refused)
		}
		w.out += len(w.mutants) - len(kept)
		w.mutants = kept
	}
}

// place is a line of a file.
type place struct {
	file string
	line int
}

// supportName is the name of the file with support.
const supportName = "zz_mutants.go"

// with returns the texts of the package's files with mutants, by their paths.
func (p *loaded) with(mutants []*mutant) map[string][]byte {
	edits := map[string][]edit{}
	for _, m := range mutants {
		edits[m.file] = append(edits[m.file], m.edits...)
	}
	texts := map[string][]byte{filepath.Join(p.dir, supportName): fmt.Appendf(nil, support, p.types.Name())}
	for _, f := range p.files {
		texts[f.path] = apply(f.text, edits[f.name])
	}
	return texts
}

// compile returns the lines in which a type is wrong.
func (p *loaded) compile(texts map[string][]byte) (map[place]bool, error) {
	refused := map[place]bool{}
	set := token.NewFileSet()
	var all []*ast.File
	for _, path := range sortedKeys(texts) {
		f, err := parser.ParseFile(set, path, texts[path], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	conf := types.Config{Importer: p.importer, Error: func(err error) {
		if wrong, ok := errors.AsType[types.Error](err); ok {
			at := set.Position(wrong.Pos)
			name, _ := filepath.Rel(p.root, at.Filename)
			refused[place{filepath.ToSlash(name), at.Line}] = true
		}
	}}
	_, _ = conf.Check(p.path, set, all, nil)
	return refused, nil
}

// write writes texts and the overlay that puts them in place of the package's files.
func (p *loaded) write(texts map[string][]byte, dir string) (string, error) {
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}
