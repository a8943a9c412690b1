// Command cover lists the lines that no test reaches, given coverage profiles as `go tool covdata textfmt` or go test
// -coverprofile write them:
//
//	cover [-most PERCENT] PROFILE...
//
// It prints the files with their lines, and a table of packages. With -most it fails if a larger share of all
// statements than that is missed.
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

func main() {
	most := flag.Float64("most", 100, "fail if more than this `percentage` of the statements is missed")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: cover [-most PERCENT] PROFILE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	all := blocks{}
	for _, name := range flag.Args() {
		if err := all.read(name); err != nil {
			fmt.Fprintln(os.Stderr, "cover:", err)
			os.Exit(1)
		}
	}
	missed := all.report(os.Stdout)
	if missed > *most {
		fmt.Fprintf(os.Stderr, "cover: %.1f %% of the statements are missed; at most %v %% may be\n", missed, *most)
		os.Exit(1)
	}
}

// A place is a piece of code without branches.
type place struct {
	file     string // with its import path
	from, to int    // lines
	begin    string // with columns: two places may share their lines
}

// blocks has the statements of each place, and whether anything reached it.
type blocks map[place]*block

type block struct {
	statements int
	reached    bool
}

// read adds a profile.
func (b blocks) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "mode: ") {
			continue
		}
		at, one, err := parse(lines.Text())
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if had := b[at]; had != nil {
			one.reached = one.reached || had.reached
		}
		b[at] = &one
	}
	return lines.Err()
}

// parse reads a line such as "PATH:10.2,12.3 2 0".
func parse(line string) (at place, one block, err error) {
	wrong := fmt.Errorf("not a line of a coverage profile: %q", line)
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return at, one, wrong
	}
	file, span, ok := strings.Cut(fields[0], ":")
	begin, end, ok2 := strings.Cut(span, ",")
	if !ok || !ok2 {
		return at, one, wrong
	}
	number := func(text string) int {
		n, e := strconv.Atoi(text)
		if e != nil || n < 0 {
			err = wrong
		}
		return n
	}
	line1, _, _ := strings.Cut(begin, ".")
	line2, _, _ := strings.Cut(end, ".")
	at = place{file: file, begin: begin, from: number(line1), to: number(line2)}
	one = block{statements: number(fields[1]), reached: number(fields[2]) > 0}
	return at, one, err
}

// report prints what nothing reached, and returns how much that is, in percent.
func (b blocks) report(w io.Writer) (percent float64) {
	type sum struct{ statements, missed int }
	packages := map[string]*sum{"all": {}}
	places := slices.SortedFunc(maps.Keys(b), func(x, y place) int {
		return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.from, y.from), cmp.Compare(x.begin, y.begin))
	})
	root := module(places)
	file := ""
	for _, at := range places {
		one, name := b[at], strings.TrimPrefix(at.file, root)
		dir := path.Dir(name)
		if packages[dir] == nil {
			packages[dir] = &sum{}
		}
		for _, s := range []*sum{packages[dir], packages["all"]} {
			if s.statements += one.statements; !one.reached {
				s.missed += one.statements
			}
		}
		if one.reached || one.statements == 0 {
			continue
		}
		if name != file {
			file = name
			fmt.Fprintln(w, file)
		}
		lines := fmt.Sprint(at.from)
		if at.to > at.from {
			lines += fmt.Sprint("-", at.to)
		}
		fmt.Fprintf(w, "\t%s\n", lines)
	}
	fmt.Fprintf(w, "\n%-24s %10s %7s %8s\n", "package", "statements", "missed", "percent")
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if s := packages[name]; name != "all" {
			fmt.Fprintf(w, "%-24s %10d %7d %8.1f\n", name, s.statements, s.missed, share(s.missed, s.statements))
		}
	}
	s := packages["all"]
	percent = share(s.missed, s.statements)
	fmt.Fprintf(w, "%-24s %10d %7d %8.1f\n", "all", s.statements, s.missed, percent)
	return percent
}

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}

// module returns what the paths of all places begin with: host, owner and name of the module.
func module(places []place) string {
	if len(places) == 0 {
		return ""
	}
	parts := strings.SplitAfterN(places[0].file, "/", 4)
	return strings.Join(parts[:len(parts)-1], "")
}
