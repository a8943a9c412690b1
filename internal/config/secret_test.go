package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretsDoNotShow(t *testing.T) {
	t.Parallel()
	type holder struct{ Password Secret }
	s := Secret("hunter2")
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", holder{s})
		fmt.Fprintf(&out, verb+"\n", []Secret{s})
	}
	encoded, err := json.Marshal(holder{s})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "password", s)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "password", s, "in", holder{s})
	for _, trace := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2")} {
		if strings.Contains(out.String(), trace) {
			t.Errorf("%s shows in\n%s", trace, out.String())
		}
	}
	if s.Reveal() != "hunter2" || Secret("").String() != "" || !strings.Contains(out.String(), hidden) {
		t.Error("Reveal gives the value, an empty secret prints nothing, another ***")
	}
}
