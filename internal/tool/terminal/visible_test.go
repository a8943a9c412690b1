package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

// evil steers a terminal, and deceives its reader.
const evil = "\x1b[31mEVIL\x1b[2J\x1b]0;title\x07\u009b2Jx\r\b\x7f\u202egnp\u2066\u200f\u2028\ufeff\U000e0041"

// TestVisible leaves honest text as it is, and none of the other.
func TestVisible(t *testing.T) {
	t.Parallel()
	const honest = "ä 漢字 🐘\u200d\ttab\nline"
	if got := Visible(honest); got != honest {
		t.Errorf("%q became %q", honest, got)
	}
	if got := OneLine("a\tb\nc"); got != "a\ufffdb\ufffdc" {
		t.Errorf("on one line: %q", got)
	}
	if got := Visible(evil); strings.ContainsFunc(got, Steers) || !strings.Contains(got, "EVIL") {
		t.Errorf("got %q", got)
	}
}

// TestVisibleJSON changes the spelling, and nothing else.
func TestVisibleJSON(t *testing.T) {
	t.Parallel()
	want := evil + "ä 漢字🐘\u200d"
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	shown := VisibleJSON(text)
	if strings.ContainsFunc(string(shown), Steers) {
		t.Errorf("got %q", shown)
	}
	var got string
	if err := json.Unmarshal(shown, &got); err != nil || got != want {
		t.Errorf("%s reads as %q, %v; want %q", shown, got, err, want)
	}
}

// TestNoTerminal shows no colours where nobody would see them.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	for _, w := range []any{nil, new(strings.Builder)} {
		if Is(w) || Colours(w) || Columns(w) != -1 {
			t.Errorf("%T is a terminal", w)
		}
	}
}
