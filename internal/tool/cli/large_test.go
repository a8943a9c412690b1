package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHundredThousand lists, finds, copies and removes 100,000 znodes with the
// progress shown.
func TestHundredThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	onServers(t, func(t *testing.T, address string) {
		const above, below = 100, 1000
		const all = 1 + above + above*below
		var text bytes.Buffer
		fmt.Fprintf(&text, `{"format":"zooid-export-1","root":"/big","znodes":[{"path":"/","data":"top"}`)
		for i := range above {
			fmt.Fprintf(&text, `,{"path":"/d%02d"}`, i)
			for j := range below {
				fmt.Fprintf(&text, `,{"path":"/d%02d/n%03d","data":"%d"}`, i, j, j)
			}
		}
		text.WriteString("]}")
		file := filepath.Join(t.TempDir(), "big.json")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		v := newSession(t, address)
		var results bytes.Buffer
		v.s.out.W = bufio.NewWriter(&results)
		v.s.out.ErrTerm, v.s.out.Period = true, 10*time.Millisecond
		for _, c := range []struct {
			line, progress, out string
			lines               int // of results
		}{
			{"import -unchecked " + file, "import: ", fmt.Sprintf("%d created, 0 changed, 0 the same\n", all), 1},
			{"ls -R /big", "walk /big: ", "/big/d99/n999\n", all},
			{"find -name n500 /big", "walk /big: ", "/big/d00/n500\n", above},
			{"mirror /big " + address + "/copy", "mirror /big ", fmt.Sprintf("%d created, 0 changed, 0 deleted\n", all), 1},
			{"export /big " + file + ".gz", "export /big: ", "exported 100101 znodes to ", 1},
			{"deleteall /copy", "delete: ", "", 0},
		} {
			v.out.Reset()
			results.Reset()
			v.s.line(t.Context(), c.line)
			if n := bytes.Count(results.Bytes(), []byte("\n")); v.s.exit != 0 || n != c.lines ||
				!strings.Contains(results.String(), c.out) {
				t.Errorf("%s: exit code %d; %d lines of results, want %d with %q", c.line, v.s.exit, n, c.lines, c.out)
			}
			if !strings.Contains(v.out.String(), "\r\x1b[K"+c.progress) {
				t.Errorf("%s: no progress was shown", c.line)
			}
		}
	})
}
