package main

import (
	"bufio"
	"context"
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// test is one test of the package, unmutated.
type test struct {
	name   string
	took   time.Duration
	blocks []block // what it reaches
	failed bool
}

// block is a piece of code without branches, as go test -cover counts them.
type block struct {
	file     string
	from, to token.Position // only Line and Column
}

func (b block) holds(file string, line, col int) bool {
	return b.file == file &&
		(line > b.from.Line || line == b.from.Line && col >= b.from.Column) &&
		(line < b.to.Line || line == b.to.Line && col < b.to.Column)
}

// build compiles the tests of the package with mutants, and with coverage.
func (p *loaded) build(ctx context.Context, w *woven, dir string) (mutated, covered string, err error) {
	mutated, covered = filepath.Join(dir, "mutated.test"), filepath.Join(dir, "covered.test")
	with := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", w.overlay, "-o", mutated, p.path)
	if _, err = output(with); err == nil && false {
		_, err = output(exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-cover", "-o", covered, p.path))
	}
	return mutated, covered, err
}

// reached runs each test alone, with the mutants compiled in and none made, and returns the blocks that it reaches and
// how long it takes.
func (p *loaded) reached(ctx context.Context, mutated, covered, dir string, workers int) ([]*test, error) {
	list := exec.CommandContext(ctx, mutated, "-test.list", "^(Test|Example|Fuzz)")
	list.Dir = p.dir
	names, err := output(list)
	if err != nil {
		return nil, err
	}
	var all []*test
	for _, name := range strings.Fields(string(names)) {
		all = append(all, &test{name: name})
	}
	var wait sync.WaitGroup
	queue := make(chan *test)
	for range workers {
		wait.Go(func() {
			for t := range queue {
				began := time.Now()
				t.failed = p.run(ctx, mutated, dir, 0, baselineMax, baselineMax/spare, []*test{t}).over()
				t.took = time.Since(began)
				profile := filepath.Join(dir, t.name+".cover")
				if !t.failed {
					t.failed = p.run(ctx, covered, dir, 0, baselineMax, baselineMax/spare, []*test{t},
						"-test.coverprofile="+profile).over()
				}
				if !t.failed {
					t.blocks, t.failed = p.profile(profile)
				}
			}
		})
	}
	for _, t := range all {
		queue <- t
	}
	close(queue)
	wait.Wait()
	return all, nil
}

// profile reads the blocks that a test reached.
func (p *loaded) profile(file string) (reached []block, failed bool) {
	f, err := os.Open(file)
	if err != nil {
		return nil, true
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, counts, ok := strings.Cut(lines.Text(), ":")
		if !ok || name == "mode" || path.Dir(name) != p.path {
			continue
		}
		var b block
		var statements, times int
		_, err := fmt.Sscanf(counts, "%d.%d,%d.%d %d %d",
			&b.from.Line, &b.from.Column, &b.to.Line, &b.to.Column, &statements, &times)
		if err != nil {
			return nil, true
		}
		if b.file = path.Join(p.name(), path.Base(name)); times > 0 {
			reached = append(reached, b)
		}
	}
	return reached, false
}

// reach says which tests reach each mutant, the fastest first. What go test -cover has no block for, such as the
// expressions of a case, counts as reached with the statement that it is in.
func (p *loaded) reach(mutants []*mutant, tests []*test) map[*mutant][]*test {
	by := map[*mutant][]*test{}
	sorted := slices.Clone(tests)
	slices.SortStableFunc(sorted, func(a, b *test) int { return int(a.took - b.took) })
	files := map[string]*token.File{}
	for _, f := range p.files {
		files[f.name] = p.set.File(f.syntax.Pos())
	}
	for _, m := range mutants {
		statement := files[m.file].Position(files[m.file].Pos(m.statement))
		for _, t := range sorted {
			if t.failed {
				continue
			}
			for _, b := range t.blocks {
				if b.holds(m.file, m.line, m.col) || b.holds(m.file, statement.Line, statement.Column) {
					by[m] = append(by[m], t)
					break
				}
			}
		}
	}
	return by
}
