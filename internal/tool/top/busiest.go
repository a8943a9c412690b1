package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// busiest is the answer to the admin command top.
type busiest struct {
	Error      *string
	Requests   float64                  `json:"requests_per_second"`
	Bytes      float64                  `json:"bytes_per_second"`
	Every      int                      `json:"sampled_every"`
	ByRequests map[string][]busiestJSON `json:"by_requests"`
	ByBytes    map[string][]busiestJSON `json:"by_bytes"`

	text json.RawMessage // the answer itself
}

type busiestJSON struct {
	Key       string
	PerSecond float64 `json:"per_second"`
}

// askBusiest asks an admin server for the busiest keys.
func askBusiest(ctx context.Context, admin Admin, keys int64) (*busiest, error) {
	status, body, err := admin(ctx, "/top?n="+strconv.FormatInt(keys, 10))
	if err != nil {
		return nil, fmt.Errorf("not reachable: %w", err)
	}
	var b busiest
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("this isn't zooid's admin server: status %d, %.60q", status, body)
	}
	if b.Error != nil {
		return nil, fmt.Errorf("%w: %s", ErrRefused, terminal.OneLine(*b.Error))
	}
	b.text = body
	return &b, nil
}

// print prints an answer, by requests or by bytes. below says that other output is above it.
func (b *busiest) print(out *screen.Output, byBytes, below bool) {
	if out.JSON {
		out.Value(b.text)
		return
	}
	if below {
		out.Printf("\n")
	}
	looked := ""
	if b.Every > 1 {
		looked = fmt.Sprintf("; one of %d looked at", b.Every)
	}
	out.Row("%s requests/s, %s/s%s", quantity(b.Requests, 1000, ""), quantity(b.Bytes, 1024, "B"), looked)
	lists, unit, base := b.ByRequests, "REQ/S", 1000.0
	if byBytes {
		lists, unit, base = b.ByBytes, "B/S", 1024
	}
	for _, kind := range []string{"paths", "sessions", "identities", "operations"} {
		out.Printf("\n%s\n", out.Paint(screen.Bold, fmt.Sprintf("%9s  %s", unit, strings.ToUpper(kind))))
		for _, e := range lists[kind] {
			out.Row("%9s  %s", quantity(e.PerSecond, base, ""), terminal.OneLine(e.Key))
		}
	}
}

// quantity formats a number with three or four digits and a unit.
func quantity(n, base float64, unit string) string {
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if n < base {
			break
		}
		n, prefix = n/base, p
	}
	text := strconv.FormatFloat(n, 'f', 0, 64)
	if n < 100 {
		text = strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	if prefix+unit != "" {
		text += " " + prefix + unit
	}
	return text
}

// AnswerTo returns the status and the body of the answer to a request, at most answerBytesMax bytes.
func AnswerTo(req *http.Request, by http.RoundTripper) (int, []byte, error) {
	res, err := (&http.Client{Transport: by}).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	return res.StatusCode, body, err
}
