package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// showsColours reports whether w is a terminal whose user wants colours.
func showsColours(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

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

// printTable prints a line per server, then the verdict and its reasons.
func (o *overview) printTable(w io.Writer, colours bool) error {
	lines := [][]string{{"ID", "ADDRESS", "ROLE", "EPOCH", "ZXID", "LAG", "CLIENTS", "SESSIONS", "DISK", "VERSION", "STATE"}}
	paint := []string{bold}
	for _, row := range o.Servers {
		lines = append(lines, row.cells())
		paint = append(paint, row.colour())
	}
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, line := range lines {
		text := ""
		for i, cell := range line {
			text += cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2)
		}
		painted(&b, colours, paint[n], strings.TrimRight(text, " "))
	}
	verdict := map[string]string{"ok": green, "degraded": yellow, "no quorum": red}[o.State]
	painted(&b, colours, verdict, "\n"+o.State)
	for _, why := range o.Why {
		b.WriteString("  " + why + "\n")
	}
	for _, hint := range o.Hints {
		b.WriteString("hint: " + hint + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func painted(b *strings.Builder, colours bool, colour, text string) {
	if colours {
		text = colour + text + plain
	}
	b.WriteString(text + "\n")
}

func (row *serverRow) colour() string {
	switch {
	case row.State == stateOK:
		return plain
	case row.State == stateReadOnly || row.State == stateLagging:
		return yellow
	}
	return red
}

// cells returns the row as text; a dash stands for what the server didn't tell.
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
	version, _, _ := strings.Cut(row.Version, ", built on")
	return []string{
		strconv.FormatInt(row.ID, 10), text(row.Address), text(row.Role), known(row.Epoch), text(row.Zxid), text(row.lagText),
		known(row.Clients), known(row.Sessions), disk, text(version), row.State,
	}
}

// bytesText writes a size in the largest unit of which there is one.
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
