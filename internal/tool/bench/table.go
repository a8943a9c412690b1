package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// The colours. There are few, only for what readers look for first.
const (
	colorBold  = "\x1b[1m"
	colorDim   = "\x1b[2m"
	colorRed   = "\x1b[31m"
	colorReset = "\x1b[0m"
)

// cell is one field of a table. The escape codes of its color don't count for the width.
type cell struct {
	text  string
	color string
}

// table is a grid of cells with a header. Column 0 and the columns in left are left-aligned, the others right-aligned.
type table struct {
	header []string
	rows   [][]cell
	left   map[int]bool
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// plain returns cells without colour.
func plain(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for i, s := range texts {
		cells[i].text = s
	}
	return cells
}

func (t *table) leftAligned(col int) bool { return col == 0 || t.left[col] }

// writeText writes aligned columns.
func (t *table) writeText(w io.Writer, colors bool) error {
	widths := make([]int, len(t.header))
	for i, h := range t.header {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	head := make([]cell, len(t.header))
	for i, h := range t.header {
		head[i] = cell{h, colorBold}
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		var b strings.Builder
		for i, c := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			blanks := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			text := c.text
			if colors && c.color != "" && text != "" {
				text = c.color + text + colorReset
			}
			if t.leftAligned(i) {
				b.WriteString(text + blanks)
			} else {
				b.WriteString(blanks + text)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// writeMarkdown writes a Markdown table.
func (t *table) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	line := func(texts []string) {
		b.WriteString("| " + strings.Join(texts, " | ") + " |\n")
	}
	line(t.header)
	marks := make([]string, len(t.header))
	for i := range marks {
		marks[i] = "---:"
		if t.leftAligned(i) {
			marks[i] = "---"
		}
	}
	line(marks)
	for _, row := range t.rows {
		texts := make([]string, len(row))
		for i, c := range row {
			texts[i] = strings.ReplaceAll(c.text, "|", `\|`)
		}
		line(texts)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// resultTable shows one row per trial.
func resultTable(results []result) *table {
	t := &table{header: []string{
		"scenario", "load", "ops/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "max ms", "server µs/op", "server MiB",
		"client µs/op", "errors",
	},
		left: map[int]bool{1: true}}
	for i := range results {
		r := &results[i]
		errs := cell{text: "0"}
		if n := r.errorCount(); n > 0 {
			errs = cell{fmt.Sprint(n), colorRed}
		}
		row := []cell{{text: r.Scenario}, {text: r.loadText()}}
		for _, name := range []string{
			"ops_per_s", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms", "server_cpu_us_per_op", "server_rss_mib",
			"client_cpu_us_per_op",
		} {
			row = append(row, cell{text: r.figureText(name)})
		}
		t.add(append(row, errs)...)
	}
	return t
}

// loadText describes the load of a trial: connections x unanswered requests, or connections at a rate.
func (r *result) loadText() string {
	switch {
	case r.Rate > 0:
		return fmt.Sprintf("%d at %s/s", r.Conns, grouped(r.Rate))
	case r.Depth > 0:
		return fmt.Sprintf("%dx%d", r.Conns, r.Depth)
	case r.Conns > 0:
		return fmt.Sprint(r.Conns)
	}
	return ""
}

// figureText formats a figure, or returns a dash if it wasn't measured.
func (r *result) figureText(name string) string {
	v, ok := r.figure(name)
	if !ok {
		return "–"
	}
	return number(v)
}

// writeDetails writes what has no place in a table: the scenario's own figures, and the errors by code.
func writeDetails(w io.Writer, results []result, colors bool) error {
	paint := func(color, text string) string {
		if colors {
			return color + text + colorReset
		}
		return text
	}
	for _, r := range results {
		var parts []string
		if r.PerSec == 0 && r.Seconds > 0 {
			parts = append(parts, fmt.Sprintf("seconds %s", number(r.Seconds)))
		}
		for _, k := range slices.Sorted(maps.Keys(r.Extra)) {
			parts = append(parts, k+" "+number(r.Extra[k]))
		}
		if len(parts) > 0 {
			if _, err := fmt.Fprintln(w, paint(colorDim, "  "+r.Scenario+": "+strings.Join(parts, ", "))); err != nil {
				return err
			}
		}
		for _, k := range slices.Sorted(maps.Keys(r.Errors)) {
			if _, err := fmt.Fprintln(w, paint(colorRed, fmt.Sprintf("  %s: %d x %s", r.Scenario, r.Errors[k], k))); err != nil {
				return err
			}
		}
	}
	return nil
}

// number formats a figure with three significant digits, or with all digits before the point.
func number(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1000:
		return grouped(v)
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// grouped formats a whole number with blanks between groups of three digits.
func grouped(v float64) string {
	s := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	if v < 0 {
		s = "-" + s
	}
	return s
}
