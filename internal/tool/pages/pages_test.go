package pages

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPages: a page is what its file has, a section is what stands below its heading, a code is explained, and what
// doesn't exist is answered by what does.
func TestPages(t *testing.T) {
	t.Parallel()
	explain := func(args []string, stdout, _ io.Writer) int {
		fmt.Fprintln(stdout, "explained:", args)
		return 0
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Replace(string(page), "![zooid doctor of a running server](doctor.svg)\n", "", 1)
	for _, c := range []struct {
		args  []string
		code  int
		first string // line of what is printed
		has   string
		lacks string
	}{
		{nil, 0, "comparison: Zooid, Apache", "\n  Back up\n", ""},
		{[]string{"operations"}, 0, "# Operations", whole, ""},
		{[]string{"OPERATIONS.md"}, 0, "# Operations", whole, ""},
		{[]string{"operations", "back", "UP"}, 0, "## Back up", "/commands/snapshot", "## Limit clients"},
		{[]string{"configuration", "strict"}, 0, "### The strict profile", "ZD-1010", "### Schemes"},
		{[]string{"zd-2002"}, 0, "explained: [zd-2002]", "", ""},
		{[]string{"operations", "nonsense"}, 2, "zooid docs: no section of operations", "", "##"},
		{[]string{"operatons"}, 2, "zooid docs: there is no page", "did you mean operations?", "##"},
		{[]string{"../README"}, 2, "zooid docs: there is no page", "", "##"},
		{[]string{strings.Repeat("x", 1000)}, 2, "zooid docs: there is no page", "", strings.Repeat("x", 100)},
	} {
		var out, errs bytes.Buffer
		code := Main(c.args, &out, &errs, explain)
		text := out.String() + errs.String()
		if code != c.code || !strings.HasPrefix(text, c.first) || !strings.Contains(text, c.has) ||
			c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("docs %.40q: exit code %d, want %d; %.200q", c.args, code, c.code, text)
		}
		if (code == 0) != (errs.Len() == 0) || (code == 0) == (out.Len() == 0) {
			t.Errorf("docs %.40q: exit code %d with %d bytes and %d of errors", c.args, code, out.Len(), errs.Len())
		}
	}
}

// TestNoPictures: the pages that a terminal shows have no pictures, which stay in code.
func TestNoPictures(t *testing.T) {
	text := ""
	for _, s := range sectionsOf("# A\n\n![a](a.svg)\n\nb\n\n```\n![in code](c.svg)\n```\n") {
		text += s.text
	}
	if strings.Contains(text, "![a]") || !strings.Contains(text, "\nb\n") || !strings.Contains(text, "![in code]") {
		t.Errorf("%q", text)
	}
}
