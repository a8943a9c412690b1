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

// TestRedact: no way of writing a secret key into a zoo.cfg shows its value.
func TestRedact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"tickTime=500\nquorum.secret=hush\nclientPort=1\n":       "tickTime=500\nquorum.secret=***\nclientPort=1\n",
		"quorum.secret : hu\\\n  sh\nclientPort=1":               "quorum.secret=***\nclientPort=1",
		"ssl.keyStore.password hush":                             "ssl.keyStore.password=***\n",
		"ssl.key\\u0053tore.password=hush\r\nclientPort=1\r\n":   "ssl.keyStore.password=***\nclientPort=1\n",
		"#c\rquorum.secret=hush\rclientPort=1\r":                 "#c\nquorum.secret=***\nclientPort=1\n",
		"quorum.secret=hush\nquorum.secret=hush2\n":              "quorum.secret=***\nquorum.secret=***\n",
		"dataDir=/hush\n":                                        "dataDir=/hush\n",
		"ssl.keyStore.Passwort=shown\nssl.keystorePassword=hush": "ssl.keyStore.Passwort=shown\nssl.keystorePassword=***\n",
		"quorum.secretFile=/shown\n":                             "quorum.secretFile=/shown\n",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := Redact("a=\\u00"); strings.Contains(got, "a") {
		t.Errorf("a text that can't be read: %q", got)
	}
	if !IsSecret("zookeeper.DigestAuthenticationProvider.superDigest") || IsSecret("dataDir") ||
		!IsSecret("javax.net.ssl.keyStorePassword") || IsSecret("nosuch.key") {
		t.Error("a secret key is shown, or another is not")
	}
}
