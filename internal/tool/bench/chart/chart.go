// Package chart draws the table of docs/performance.md: by which factor one server is faster, or smaller, than the
// other.
package chart

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A row is a line of the table with a figure for both servers.
type row struct {
	work, ours, theirs string  // as in the table, without the spread
	times              float64 // how many times better ours is; below 1, ours is worse
}

// The table's columns.
const (
	columnWork = iota
	columnOurs
	columnTheirs
	_ // floor
	columnRatio
	_ // to the floor
	columnAsked
	columns
)

// lineMax bounds a line of the page.
const lineMax = 1 << 20

var number = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?`)

// read parses the rows of the page's table.
func read(r io.Reader) (rows []row, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		cells := strings.Split(strings.Trim(strings.TrimSpace(lines.Text()), "|"), "|")
		if len(cells) < columns {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		ratio, err := strconv.ParseFloat(number.FindString(cells[columnRatio]), 64)
		if err != nil || ratio <= 0 {
			continue // the header, or a row without one of the figures
		}
		if strings.HasPrefix(cells[columnWork], "its CPU") {
			continue // it repeats the row above
		}
		if !moreIsBetter(cells[columnWork], cells[columnAsked]) {
			ratio = 1 / ratio
		}
		rows = append(rows, row{cells[columnWork], median(cells[columnOurs]), median(cells[columnTheirs]), ratio})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("it has no table of 'zooid bench page' with figures of two servers")
	}
	return rows, nil
}

func moreIsBetter(work, asked string) bool {
	return strings.HasPrefix(asked, "≥") ||
		!strings.HasPrefix(asked, "≤") && (strings.Contains(work, "/s") || strings.Contains(work, "per second"))
}

// median returns a figure without its spread.
func median(cell string) string {
	cell, _, _ = strings.Cut(cell, " (")
	return cell
}

// The picture's dimensions, in its units.
const (
	width, top, step = 960, 64, 24
	barsAt, barsWide = 400, 360
)

// Draw reads a page and writes its chart as SVG.
func Draw(w io.Writer, page string) error {
	f, err := os.Open(page)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := draw(w, f); err != nil {
		return fmt.Errorf("draw the chart of %s: %w", page, err)
	}
	return nil
}

// draw reads the page from r. The scale is logarithmic; the line is where both servers are equal.
func draw(w io.Writer, r io.Reader) error {
	rows, err := read(r)
	if err != nil {
		return err
	}
	most := 1.0
	for _, x := range rows {
		most = max(most, x.times, 1/x.times)
	}
	least := 1.0
	for _, x := range rows {
		least = min(least, x.times)
	}
	place := func(times float64) float64 { // returns the end of a bar
		return barsAt + barsWide*(math.Log(times)-math.Log(least))/(math.Log(most)-math.Log(least)+1e-9)
	}
	height := top + step*len(rows) + 16
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		width, height)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintln(b, `<text x="16" y="26" font-size="17" font-weight="bold" fill="#222222">Zooid and Apache ZooKeeper on the same machine: times as good</text>`)
	fmt.Fprintln(b, `<text x="16" y="46" fill="#555555">medians of docs/performance.md; logarithmic; left of the line Apache is better; on the right: Zooid / Apache</text>`)
	for i, x := range rows {
		y := top + step*i
		from, to, colour := place(1), place(x.times), "#2b7a4b"
		if to < from {
			from, to, colour = to, from, "#b3473c"
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`+"\n", barsAt-12, y+15,
			html.EscapeString(short(x.work)))
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", from, y+3, max(to-from, 1), step-8,
			colour)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#222222">%s×</text>`+"\n", to+6, y+15, timesText(x.times))
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" font-size="11" fill="#555555">%s / %s</text>`+"\n", width-8,
			y+15, html.EscapeString(x.ours), html.EscapeString(x.theirs))
	}
	fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#222222"/>`+"\n", place(1), top-4, place(1),
		height-12)
	fmt.Fprintln(b, `</svg>`)
	return b.Flush()
}

// workMax bounds the characters of a row's name.
const workMax = 60

func short(work string) string {
	letters := []rune(work)
	if len(letters) <= workMax {
		return work
	}
	return string(letters[:workMax-1]) + "…"
}

func timesText(times float64) string {
	if times >= 10 {
		return strconv.FormatFloat(times, 'f', 0, 64)
	}
	return strconv.FormatFloat(times, 'f', 1, 64)
}
