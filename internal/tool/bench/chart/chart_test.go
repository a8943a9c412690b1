package chart

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"
)

// TestSpeedChart holds docs/speed.svg against the table of docs/performance.md.
func TestSpeedChart(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Draw(&b, "../../../../docs/performance.md"); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("../../../../docs/speed.svg")
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("docs/speed.svg is not the table's chart: zooid bench page -chart docs/performance.md > docs/speed.svg (%v)",
			err)
	}
}

// TestRows: what is better is so in both directions, and worse is said, too.
func TestRows(t *testing.T) {
	t.Parallel()
	const table = `
| work | zooid | apache | floor | zooid / apache | zooid / floor | asked | met |
| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |
| get <1>: operations/s | 755 090 (1–2) | 65 202 (1–2) | – | 11.9 (10.3–13.5) | 0.68 | ≥ 8 × apache | yes |
| its CPU per operation | 1 µs | 2 µs | – | 0.5 | – | – | – |
| writes stop for | 50 ms | 500 ms | – | 0.1 | – | – | – |
| memory | 20 MB | 10 MB | – | 2 | – | ≤ 30 MB | yes |
| alone | 1 | – | – | – | – | – | – |
`
	rows, err := read(strings.NewReader(table))
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	for i, want := range []float64{11.9, 10, 0.5} {
		if rows[i].times != want {
			t.Errorf("%s is %v times as good, want %v", rows[i].work, rows[i].times, want)
		}
	}
	var b bytes.Buffer
	if err := draw(&b, strings.NewReader(table)); err != nil || !strings.Contains(b.String(), "get &lt;1&gt;") ||
		strings.Contains(b.String(), "<1>") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if err := draw(io.Discard, strings.NewReader("no table\n")); err == nil {
		t.Error("a page without a table has a chart")
	}
}
