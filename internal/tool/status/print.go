package status

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

func (o *overview) printJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(o)
}

// Colours of terminals.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// columnsMax is the width of the table. Text that doesn't fit is printed below it.
const columnsMax = 100

// printTable prints the verdict, a line per server, and what to do. It omits columns in which nothing is known, and the
// versions if all are the same.
func (o *overview) printTable(w io.Writer, colours bool) error {
	lines := [][]string{
		{"ID", "ADDRESS", "ROLE", "EPOCH", "ZXID", "LAG", "CLIENTS", "SESSIONS", "DISK", "VERSION", "STATE"},
	}
	paint := []string{bold}
	version := o.oneVersion()
	for _, row := range o.Servers {
		cells := row.cells()
		if version != "" {
			cells[len(cells)-2] = "-"
		}
		lines = append(lines, cells)
		paint = append(paint, row.colour())
	}
	lines = known(lines)
	notes := longStates(lines)
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	verdict := red
	switch o.State {
	case "ok":
		verdict = green
	case "degraded":
		verdict = yellow
	}
	b.WriteString(painted(colours, verdict, o.State) + ": " + o.Summary + "\n\n")
	for n, line := range lines {
		text := ""
		for i, cell := range line {
			text += cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(painted(colours, paint[n], strings.TrimRight(text, " ")) + "\n")
		for _, note := range notes[n] {
			b.WriteString("    " + painted(colours, paint[n], note) + "\n")
		}
	}
	var below []string
	if version != "" {
		below = append(below, "version "+version)
	}
	if o.Lineage != "" {
		below = append(below, "lineage "+o.Lineage)
	}
	if len(o.Voters) > 0 {
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Voters), " ", ", "), "[]")
		below = append(below, "the votes of "+list+" count")
	}
	if len(below) > 0 {
		b.WriteString("\n" + strings.Join(below, ", ") + "\n")
	}
	if len(o.Hints) > 0 {
		b.WriteString("\n")
	}
	for _, hint := range o.Hints {
		b.WriteString("hint: " + hint + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneVersion returns the version of all servers that have told one, or "" if they differ or are few.
func (o *overview) oneVersion() (version string) {
	for _, row := range o.Servers {
		switch own := row.version(); {
		case own == "":
		case version == "":
			version = own
		case own != version:
			return ""
		}
	}
	return version
}

// longStates removes the state, which is the last column, from lines that are too wide with it. It returns these states
// by line, folded.
func longStates(lines [][]string) map[int][]string {
	last := len(lines[0]) - 1
	left := 0
	for i := range last {
		wide := 0
		for _, line := range lines {
			wide = max(wide, utf8.RuneCountInString(line[i]))
		}
		left += wide + 2
	}
	notes := map[int][]string{}
	for n, line := range lines {
		if left+utf8.RuneCountInString(line[last]) > columnsMax {
			notes[n], line[last] = folded(line[last], columnsMax-4), "see below"
		}
	}
	return notes
}

// folded breaks a text at spaces into lines of at most width runes. A longer word gets a line of its own.
func folded(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// known drops the columns that hold only dashes.
func known(lines [][]string) [][]string {
	kept := make([][]string, len(lines))
	for column := range lines[0] {
		told := false
		for _, line := range lines[1:] {
			told = told || line[column] != "-"
		}
		for n, line := range lines {
			if told {
				kept[n] = append(kept[n], line[column])
			}
		}
	}
	return kept
}

func painted(colours bool, colour, text string) string {
	if !colours || colour == "" {
		return text
	}
	return colour + text + plain
}

func (row *serverRow) colour() string {
	switch {
	case row.State == stateOK && row.Trouble == "" && row.Vote == "":
		return ""
	case row.State == stateOK || row.State == stateReadOnly || row.State == stateLagging || row.State == stateLeaderless:
		return yellow
	}
	return red
}

// stateText returns the state, why a server has no vote, and its trouble; "ok" only if there is nothing else to say.
func (row *serverRow) stateText() string {
	var all []string
	for _, text := range []string{row.State, row.Vote, row.Trouble} {
		if text != "" && (text != stateOK || row.Vote == "" && row.Trouble == "") {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// cells returns the row as text; a dash stands for an unknown value.
func (row *serverRow) cells() []string {
	known := func(n int64) string {
		if n < 0 {
			return "-"
		}
		return strconv.FormatInt(n, 10)
	}
	text := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	disk := "-"
	if row.Disk >= 0 {
		disk = bytesText(row.Disk)
	}
	return []string{
		known(row.ID), text(row.Address), text(row.Role), known(row.Epoch), text(row.Zxid), text(row.lagText),
		known(row.Clients), known(row.Sessions), disk, text(row.version()), row.stateText(),
	}
}

// version returns the server's version without the date of its build, and without a revision that isn't known.
func (row *serverRow) version() string {
	version, _, _ := strings.Cut(row.Version, ", built on")
	return strings.TrimSuffix(version, "-unknown")
}

// bytesText formats a size in the largest unit in which it is at least 1.
func bytesText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
