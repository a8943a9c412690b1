package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/chart"
	"github.com/zooid-project/zooid/internal/tool/bench/machine"
)

// heading is the first line of the output of compare -json. It describes the measurement of the results after it.
type heading struct {
	Machine  machine.Facts   `json:"machine"`
	Measured string          `json:"measured,omitempty"` // the day
	Rounds   int             `json:"rounds,omitempty"`
	Quick    bool            `json:"quick,omitempty"`
	Warms    []string        `json:"warms,omitempty"` // by server, if they replace the profile's
	Servers  []headingServer `json:"servers,omitempty"`
}

// headingServer is one of the servers compared.
type headingServer struct {
	Name    string `json:"name"`
	Command string `json:"command,omitempty"`
}

// describe returns the heading of this comparison.
func (c *comparison) describe(m machine.Facts) heading {
	h := heading{
		Machine: m, Measured: time.Now().UTC().Format(time.DateOnly), Rounds: c.rounds, Quick: c.quick, Warms: c.warms,
	}
	for _, s := range c.servers {
		hs := headingServer{Name: s.Name}
		if !s.Floor || s.Foreign {
			hs.Command = s.Command
		}
		h.Servers = append(h.Servers, hs)
	}
	return h
}

// page holds the combined results of several comparisons.
type page struct {
	names    []string // of the servers, in the order of their first appearance
	outcomes []outcome
	heads    []heading
	profiles [][]string // by heading: the profiles whose results belong to it
}

// mainPage runs `zooid bench page`.
func mainPage(_ context.Context, args []string, stdout, _ io.Writer) error {
	fs := flag.NewFlagSet("page", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	draw := fs.String("chart", "", "")
	files, err := parseInterleaved(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, helpPage)
		return nil
	}
	if err != nil {
		return err
	}
	if *draw != "" && len(files) == 0 {
		return chart.Draw(stdout, *draw)
	}
	if len(files) == 0 {
		return usagef("which files of compare -json?")
	}
	var p page
	for _, file := range files {
		if err := p.readFile(file); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	return p.write(stdout)
}

func (p *page) readFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.read(f)
}

// resultLineMax bounds one line of results.
const resultLineMax = 1 << 20

// read adds the output of one comparison. It replaces earlier results of the same profiles.
func (p *page) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, resultLineMax)
	if !lines.Scan() {
		return errors.Join(errors.New("it is empty"), lines.Err())
	}
	var h heading
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Rounds == 0 {
		return errors.Join(errors.New("its first line doesn't describe a comparison: is it what 'zooid bench compare -json' printed?"),
			err)
	}
	at := p.heading(h)
	for _, s := range h.Servers {
		p.server(s.Name)
	}
	for n := 2; lines.Scan(); n++ {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if r.Round < 1 || r.Round > roundsMax {
			return fmt.Errorf("line %d: round %d: must be from 1 to %d", n, r.Round, roundsMax)
		}
		p.add(at, r)
	}
	return lines.Err()
}

// heading returns the number of an equal heading, or adds h.
func (p *page) heading(h heading) int {
	for i := range p.heads {
		if reflect.DeepEqual(p.heads[i], h) {
			return i
		}
	}
	p.heads, p.profiles = append(p.heads, h), append(p.profiles, nil)
	return len(p.heads) - 1
}

// server returns the index of the server with that name. It adds the server if necessary.
func (p *page) server(name string) int {
	if i := slices.Index(p.names, name); i >= 0 {
		return i
	}
	p.names = append(p.names, name)
	return len(p.names) - 1
}

// add adds a result that belongs to heading at.
func (p *page) add(at int, r result) {
	i := slices.IndexFunc(p.outcomes, func(o outcome) bool { return o.profile.name == r.Profile })
	if i < 0 {
		i = len(p.outcomes)
		p.outcomes = append(p.outcomes, outcome{profile: profile{name: r.Profile, scenario: r.Scenario}})
	}
	o := &p.outcomes[i]
	if !slices.Contains(p.profiles[at], r.Profile) {
		for h := range p.profiles {
			p.profiles[h] = slices.DeleteFunc(p.profiles[h], func(name string) bool { return name == r.Profile })
		}
		p.profiles[at] = append(p.profiles[at], r.Profile)
		o.results = nil
	}
	s := p.server(r.Server)
	for len(o.results) <= s {
		o.results = append(o.results, nil)
	}
	for len(o.results[s]) < r.Round { // ratios are computed within a round, so each round has its place
		o.results[s] = append(o.results[s], result{Failed: leftOutMark + "not run"})
	}
	o.results[s][r.Round-1] = r
}

// write writes the page: the facts about the measurement, the table of goals, the figures of flat profiles by size, and
// the errors.
func (p *page) write(w io.Writer) error {
	for i, h := range p.heads {
		if i == 0 || h.Machine != p.heads[i-1].Machine {
			if err := h.Machine.Write(w); err != nil {
				return err
			}
		}
		if len(p.profiles[i]) > 0 {
			fmt.Fprintf(w, "- %s: %s%s\n", h.text(), strings.Join(p.profiles[i], ", "), p.disturbance(i))
		}
	}
	for _, line := range p.commands() {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	if err := p.goalTable().writeMarkdown(w); err != nil {
		return err
	}
	if lines := append(p.bySize(), p.troubles()...); len(lines) > 0 {
		fmt.Fprintf(w, "\n- %s\n", strings.Join(lines, "\n- "))
	}
	return nil
}

// text describes when and how the results were measured.
func (h *heading) text() string {
	text := fmt.Sprintf("%s, rounds: %d at most", h.Measured, h.Rounds)
	if h.Quick {
		text += ", **quick: short times and small sizes; it shows that all works, not how fast**"
	}
	return text
}

// disturbance returns how much of the machine other programs used while the profiles of heading i were measured.
func (p *page) disturbance(i int) string {
	var others []float64
	for _, o := range p.outcomes {
		if !slices.Contains(p.profiles[i], o.profile.name) {
			continue
		}
		for s := range o.results {
			others = append(others, o.values(s, "others_cpu_percent")...)
		}
	}
	if len(others) == 0 {
		return ""
	}
	s := newSpread(others)
	return fmt.Sprintf("; other programs took %.0f %% of the processors, at worst %.0f %%", s.median, s.max)
}

// bySize lists the first server's figures of each flat profile, size by size.
func (p *page) bySize() (lines []string) {
	if len(p.names) == 0 {
		return nil
	}
	for _, o := range p.outcomes {
		if len(o.results) == 0 {
			continue
		}
		sizes := map[string][]int{} // by figure
		for _, r := range o.results[0] {
			for name := range r.Extra {
				figure, at, _ := strings.Cut(name, sizeMark)
				if n, err := strconv.Atoi(at); err == nil && !slices.Contains(sizes[figure], n) {
					sizes[figure] = append(sizes[figure], n)
				}
			}
		}
		for _, figure := range slices.Sorted(maps.Keys(sizes)) {
			slices.Sort(sizes[figure])
			var parts []string
			for _, n := range sizes[figure] {
				s := newSpread(o.values(0, fmt.Sprintf("%s%s%d", figure, sizeMark, n)))
				parts = append(parts, fmt.Sprintf("%s at %s", number(s.median), grouped(float64(n))))
			}
			lines = append(lines, fmt.Sprintf("%s, %s: %s", o.profile.name, figure, strings.Join(parts, ", ")))
		}
	}
	return lines
}

// commands returns how the servers were started, with each command once.
func (p *page) commands() (lines []string) {
	for _, h := range p.heads {
		for i, s := range h.Servers {
			if s.Command == "" {
				continue
			}
			line := fmt.Sprintf("- %s: `%s`", s.Name, s.Command)
			if i < len(h.Warms) {
				line += ", warmed up for " + h.Warms[i]
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// troubles returns the trials that failed or had unexpected errors. Writers may lose connections when their leader
// stops, and trials that were left out don't count.
func (p *page) troubles() []string {
	var bad []outcome
	for _, o := range p.outcomes {
		kept := outcome{profile: o.profile}
		for _, rounds := range o.results {
			kept.results = append(kept.results, slices.DeleteFunc(slices.Clone(rounds), func(r result) bool {
				return r.leftOut() || r.Failed == "" && r.Scenario == "failover"
			}))
		}
		bad = append(bad, kept)
	}
	return troubles(bad)
}

// goalTable returns a table of the goals with the measured figures.
func (p *page) goalTable() *table {
	t := &table{header: []string{"work"}}
	t.header = append(t.header, p.names...)
	for _, name := range p.names[1:] {
		t.header = append(t.header, p.names[0]+" / "+name)
	}
	t.header = append(t.header, "asked", "met")
	t.left = map[int]bool{len(t.header) - 1: true, len(t.header) - 2: true}
	for _, g := range goals() {
		o := outcome{}
		for i := range p.outcomes {
			if p.outcomes[i].profile.name == g.profile {
				o = p.outcomes[i]
			}
		}
		o.results = append(slices.Clone(o.results), make([][]result, len(p.names))...) // space for every server
		row := plain(g.work)
		for s := range p.names {
			row = append(row, cell{text: g.spread(o.values(s, g.figure)).text(number, g.unitText())})
		}
		for s := range p.names[1:] {
			row = append(row, cell{text: newSpread(o.ratios(0, s+1, g.figure)).text(ratioNumber, "")})
		}
		t.add(append(row, plain(g.asked(), g.verdict(p.names, &o))...)...)
	}
	return t
}
