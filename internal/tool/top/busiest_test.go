package top

import (
	"bytes"
	"testing"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

// TestTable: the layout, with rates of all sizes.
func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o := screen.New(&out, &out)
	o.Colours = true
	(&busiest{Requests: 512_345, Bytes: 3 << 30, Every: 256, ByRequests: map[string][]busiestJSON{
		"paths": {{"/a", 499_999}, {"/b", 12_345}, {"/c", 12}, {"/d", 0.05}},
	}}).print(o, false, false)
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "512 k requests/s, 3 GB/s; one of 256 looked at\n\n\x1b[1m    REQ/S  PATHS\x1b[0m\n    500 k  /a\n   12.3 k  /b\n       12  /c\n      0.1  /d\n" +
		"\n\x1b[1m    REQ/S  SESSIONS\x1b[0m\n\n\x1b[1m    REQ/S  IDENTITIES\x1b[0m\n\n\x1b[1m    REQ/S  OPERATIONS\x1b[0m\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
}
