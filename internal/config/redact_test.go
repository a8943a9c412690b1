package config

import (
	"strings"
	"testing"
)

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
