package day

import (
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "draw the pictures of docs anew")

// A picture shows a command and its output as a terminal does.
type picture struct {
	file, typed string // typed is what the picture shows; do is what is run
	do          string
	compared    *regexp.Regexp // lines that are the same in each run but for numbers
}

// TestPictures: the pictures of docs show what the commands print, on three servers of zooid init -tls under some load.
func TestPictures(t *testing.T) {
	p := newPerson(t)
	p.env = append(p.env, "ZOOID_CONFIG="+filepath.Join(p.dir, "new/client/profile"))
	every, headings := regexp.MustCompile(`.`), regexp.MustCompile(`SERVER|REQ/S|\$ `)
	// What else a doctor finds depends on the machine.
	planted := regexp.MustCompile(`\$ |^its data is|/etc/zooid/data|^clocks|^what the|^    server`)
	p.types(
		step{do: "zooid init -tls -dir new 127.0.0.1:2888:3888 127.0.0.1:2889:3889 127.0.0.1:2890:3890"},
		step{do: "1& zooid server new/1/zoo.cfg"}, step{do: "2& zooid server new/2/zoo.cfg"},
		step{do: "3& zooid server new/3/zoo.cfg"},
		step{do: "zooid status new/1/zoo.cfg", until: true, says: []string{"ok: server", "3 of 3 voters serve"}},
		step{do: `{ echo 'create -p /app/config/db x auth::cdrwa'; echo 'create -p /app/leader x auth::cdrwa'
			for i in $(seq 400); do echo 'get /app/config/db'; echo 'set /app/leader x'; echo 'ls /app'; done; } >script
			zooid cli -server 127.0.0.1:2281 -profile ensemble <script >/dev/null`},
		step{do: "chmod 755 new/1/data"},
	)
	for _, shown := range []picture{
		{"init.svg", "zooid init -tls zk1 zk2 zk3", "zooid init -tls zk1 zk2 zk3", every},
		{"status.svg", "zooid status zoo.cfg", "zooid status new/1/zoo.cfg", every},
		{"top.svg", "zooid top zoo.cfg", "zooid top -k 3 new/1/zoo.cfg", headings},
		{"doctor.svg", "zooid doctor zoo.cfg", "cd new/1 && zooid doctor -no-disk zoo.cfg", planted},
	} {
		text, _ := p.run(shown.do)
		text = revision.ReplaceAllString(strings.ReplaceAll(text, p.dir+"/new/1", "/etc/zooid"), "$1")
		file := filepath.Join("..", "..", "docs", shown.file)
		if *rewrite {
			if err := os.WriteFile(file, []byte(drawn("$ "+shown.typed+"\n"+text)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		drawing, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, line := range folded("$ " + shown.typed + "\n" + text) {
			if shown.compared.MatchString(line) {
				want = append(want, withoutNumbers(line))
			}
		}
		for _, line := range textOf(t, drawing) {
			if shown.compared.MatchString(line) {
				got = append(got, withoutNumbers(line))
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("docs/%s shows something else than %s prints; go test ./test/day -run TestPictures -rewrite draws it:\n%s\nprinted:\n%s",
				shown.file, shown.typed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// revision matches a version with what follows it in builds between releases.
var revision = regexp.MustCompile(`(\d+\.\d+\.\d+-zooid-[0-9.]+)[^,\s]*`)

var numbers = regexp.MustCompile(`0x[0-9a-f]+|\b[0-9a-f]{16}\b|[-+]?[0-9]+(?:\.[0-9]+)?`)

// withoutNumbers returns a line with N for each number, and one space for several: columns are as wide as they need.
func withoutNumbers(line string) string {
	return strings.Join(strings.Fields(numbers.ReplaceAllString(line, "N")), " ")
}

// columns is the width of the terminal that is drawn.
const columns = 104

// folded returns the lines of a text as a terminal of so many columns shows them.
func folded(text string) (lines []string) {
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		for r := []rune(line); ; {
			if len(r) <= columns {
				lines = append(lines, string(r))
				break
			}
			at := columns
			for at > columns/2 && r[at] != ' ' {
				at--
			}
			lines, r = append(lines, string(r[:at])), append([]rune("    "), []rune(strings.TrimSpace(string(r[at:])))...)
		}
	}
	return lines
}

// drawn draws a text as a terminal. Its background is its own, so that it can be read on pages of any colour.
func drawn(text string) string {
	lines, width := folded(text), 0
	for _, line := range lines {
		width = max(width, len([]rune(line)))
	}
	var b strings.Builder
	w, h := 48+width*8, 52+20*len(lines)
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" `)
	fmt.Fprintf(&b, "viewBox=\"0 0 %d %d\">\n", w, h)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#1d1f21\"/>\n", w, h)
	for i, colour := range []string{"#e0605a", "#e2b63c", "#5fb85a"} {
		fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"18\" r=\"6\" fill=\"%s\"/>\n", 20+20*i, colour)
	}
	for i, line := range lines {
		colour, bold := "#d0d0d0", ""
		switch {
		case strings.HasPrefix(line, "$ "):
			colour = "#8fbcff"
		case strings.HasPrefix(line, "ok: "):
			colour = "#7ec77a"
		case strings.HasPrefix(line, "warning ("):
			colour = "#e2b63c"
		case strings.HasPrefix(line, "ID ") || strings.HasPrefix(line, "SERVER ") || strings.Contains(line, "REQ/S  "):
			bold = ` font-weight="bold"`
		}
		var escaped strings.Builder
		if err := xml.EscapeText(&escaped, []byte(line)); err != nil {
			panic(err) // a strings.Builder takes everything
		}
		fmt.Fprintf(&b, "<text x=\"24\" y=\"%d\" fill=\"%s\"%s xml:space=\"preserve\">%s</text>\n", 56+20*i, colour, bold,
			&escaped)
	}
	return b.String() + "</svg>\n"
}

// textOf returns the lines of a picture.
func textOf(t *testing.T, drawing []byte) []string {
	t.Helper()
	var svg struct {
		Text []string `xml:"text"`
	}
	if err := xml.Unmarshal(drawing, &svg); err != nil {
		t.Fatal(err)
	}
	return svg.Text
}
