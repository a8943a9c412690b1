package access

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeProfiles writes a file of profiles, which ZOOID_CONFIG then names, and returns its directory.
func writeProfiles(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "profiles")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZOOID_CONFIG", file)
	return dir
}

// said returns what a is set to, with dir left out.
func said(a *Access, dir string) string {
	var auth []string
	for _, one := range a.auth {
		auth = append(auth, one.Scheme+":"+string(one.Auth))
	}
	return strings.ReplaceAll(fmt.Sprintf("%s tls=%t ca=%s cert=%s key=%s word=%s,%s auth=%s sasl=%s:%s by %s",
		a.Server, a.Secure,
		a.Trust.Location, a.Keys.Location, a.KeyFile, a.Keys.PasswordPath, a.Trust.PasswordPath, strings.Join(auth,
			","), a.login.user,
		a.login.password, a.login.mechanism), dir+"/", "")
}

// TestProfileOrder: a setting is taken from the command line, else the profile, else the environment.
func TestProfileOrder(t *testing.T) {
	dir := writeProfiles(t, 0o600, `# what one has
prod.server = zk1:2281,zk2:2281/app
prod.tls.ca = pki/ca.pem
prod.tls.cert=/pki/app.pem
prod.tls.key=~/app.key
prod.tls.password-file=word
prod.auth=digest:u:p\u003dq
prod.sasl=bob:secret
prod.sasl-mechanism=SCRAM-SHA-256
plain.server=zk9
plain.tls=false
secure.tls=true
few.tls.cert=own.pem
möglich.server=no
`)
	t.Setenv("HOME", "/home/me")
	if _, err := readProfile(filepath.Join(dir, "profiles"), "prod"); err == nil || !strings.Contains(err.Error(),
		"line 14") {
		t.Fatalf("a name that is none: %v", err)
	}
	file := filepath.Join(dir, "profiles")
	text, _ := os.ReadFile(file)
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "möglich.server=no", "umlaut.tls.ca=jörg.pem",
		1)), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("digest:env:word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{
		"ZOOID_SERVER": "env:1", "ZOOID_TLS_CA": "env.ca", "ZOOID_TLS_CERT": "env.cert", "ZOOID_TLS_KEY": "env.key",
		"ZOOID_AUTH_FILE": tokens,
		"ZOOID_SASL":      "env:word", "ZOOID_TLS": "",
		"ZOOID_TLS_PORT": "tcp://1.2.3.4:1", // as Kubernetes sets for a service zooid-tls
	}
	property := func(name, value string) func(*Access) error {
		return func(a *Access) error { return a.SetProperty(name, value) }
	}
	none := func(*Access) error { return nil }
	for what, c := range map[string]struct {
		profile string
		env     bool
		flags   func(a *Access) error
		want    string
	}{
		"nothing": {"", false, none, " tls=false ca= cert= key= word=, auth= sasl=: by "},
		"profile": {"prod", false, none,
			"zk1:2281,zk2:2281/app tls=true ca=pki/ca.pem cert=/pki/app.pem key=/home/me/app.key word=word,word auth=digest:u:p=q sasl=bob:secret by SCRAM-SHA-256"},
		"environment": {"", true, none,
			"env:1 tls=true ca=env.ca cert=env.cert key=env.key word=, auth=digest:env:word sasl=env:word by "},
		"both": {"prod", true, none,
			"zk1:2281,zk2:2281/app tls=true ca=pki/ca.pem cert=/pki/app.pem key=/home/me/app.key word=word,word auth=digest:u:p=q sasl=bob:secret by SCRAM-SHA-256"},
		"part of both": {"few", true, none,
			"env:1 tls=true ca=env.ca cert=own.pem key= word=, auth=digest:env:word sasl=env:word by "},
		"plain": {"plain", false, none, "zk9 tls=false ca= cert= key= word=, auth= sasl=: by "},
		"plain for all": {"plain", true, none,
			"zk9 tls=false ca=env.ca cert=env.cert key=env.key word=, auth=digest:env:word sasl=env:word by "},
		"secure alone": {"secure", false, none, " tls=true ca= cert= key= word=, auth= sasl=: by "},
		"umlaut":       {"umlaut", false, none, " tls=true ca=jörg.pem cert= key= word=, auth= sasl=: by "},
		"flag: no TLS": {"prod", true, property("zookeeper.client.secure", "false"),
			"zk1:2281,zk2:2281/app tls=false ca=pki/ca.pem cert=/pki/app.pem key=/home/me/app.key word=word,word auth=digest:u:p=q sasl=bob:secret by SCRAM-SHA-256"},
		"flag: identity": {"prod", true, func(a *Access) error { return a.AddAuth("digest:me:mine") },
			"zk1:2281,zk2:2281/app tls=true ca=pki/ca.pem cert=/pki/app.pem key=/home/me/app.key word=word,word auth=digest:me:mine sasl=bob:secret by SCRAM-SHA-256"},
		"flag: certificate": {"prod", true, func(a *Access) error {
			a.Keys.Location, a.Secure = "flag.pem",
				true
			return nil
		},
			"zk1:2281,zk2:2281/app tls=true ca=pki/ca.pem cert=flag.pem key= word=word,word auth=digest:u:p=q sasl=bob:secret by SCRAM-SHA-256"},
		"flag: login": {"prod", false, func(a *Access) error { return a.SetLogin("x:y") },
			"zk1:2281,zk2:2281/app tls=true ca=pki/ca.pem cert=/pki/app.pem key=/home/me/app.key word=word,word auth=digest:u:p=q sasl=x:y by "},
		"flag: server": {"prod", true, func(a *Access) error { return a.SetServer("here:1") },
			"here:1 tls=true ca=pki/ca.pem cert=/pki/app.pem key=/home/me/app.key word=word,word auth=digest:u:p=q sasl=bob:secret by SCRAM-SHA-256"},
	} {
		for name, value := range environment {
			if !c.env {
				value = ""
			}
			t.Setenv(name, value)
		}
		a := &Access{}
		err := c.flags(a)
		if err == nil && c.profile != "" {
			err = a.SetProfile(c.profile)
		}
		if err == nil {
			err = a.Settle()
		}
		if err == nil {
			err = a.Settle() // once more changes nothing
		}
		if got := said(a, dir); err != nil || got != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", what, err, got, c.want)
		}
	}
}

// TestProfilesRefused: a file that isn't right as a whole gives nothing, and the error says where, without passwords.
func TestProfilesRefused(t *testing.T) {
	for what, c := range map[string]struct {
		text, profile string
		mode          os.FileMode
		says          string
	}{
		"no such profile": {"prod.server=a\ntest.server=b\n", "staging", 0o644,
			"has no profile staging; it has prod, test"},
		"empty": {"", "prod", 0o600, "it has none"},
		"unknown key": {"prod.server=a\n\nprod.tls.cacert=b\n", "prod", 0o600,
			`line 3: there is no key "prod.tls.cacert"`},
		"of another":        {"prod.server=a\ntest.srever=b\n", "prod", 0o600, "line 2"},
		"no profile":        {"server=a\n", "prod", 0o600, "line 1"},
		"twice":             {"prod.server=a\nprod.server=b\n", "prod", 0o600, "line 2: prod.server is in line 1 already"},
		"no value":          {"prod.tls=\n", "prod", 0o600, "line 1: prod.tls has no value"},
		"neither":           {"prod.tls=yes\n", "prod", 0o600, "prod.tls: tls=yes: want true or false"},
		"a bad server":      {"prod.server=a:b\n", "prod", 0o600, "prod.server"},
		"a password, all":   {"prod.auth=digest:u:planted\n", "prod", 0o644, "chmod 600"},
		"a password, group": {"prod.sasl=u:planted\n", "prod", 0o640, "chmod 600"},
		"of another, all":   {"prod.server=a\ntest.sasl=u:planted\n", "prod", 0o604, "line 2: test.sasl may hold a password"},
		"a bad identity":    {"prod.auth=planted\n", "prod", 0o600, "want scheme:credentials"},
		"a bad escape":      {"prod.server=\\u00zz\n", "prod", 0o600, "profiles"},
		"large":             {"#" + strings.Repeat("x", smallFileMax), "prod", 0o600, "is it the right file"},
		"a missing file":    {"prod.auth-file=missing\n", "prod", 0o644, "missing"},
		"control":           {"prod.\x1b[2Jserver=a\n", "prod", 0o644, `\x1b[2J`},
	} {
		writeProfiles(t, c.mode, c.text)
		a := &Access{}
		if err := a.SetProfile(c.profile); err != nil {
			t.Fatal(err)
		}
		err := a.Check()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "planted") ||
			strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
	writeProfiles(t, 0o644, "prod.auth=bearer:@token\nprod.server=a#"+strings.Repeat("b", 50)+"\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(os.Getenv("ZOOID_CONFIG")), "token"), []byte("t"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if a := (&Access{Profile: "prod", Server: "a"}); a.Settle() != nil || string(a.auth[0].Auth) != "t" {
		t.Errorf("a token in a file beside: %+v", a.auth)
	}
	for _, name := range []string{"", ".", "a.b", "../x", "a b", strings.Repeat("a", 65), "-a", "a\n"} {
		if err := new(Access).SetProfile(name); err == nil {
			t.Errorf("%q is a profile's name", name)
		}
	}
	a := &Access{}
	if err := a.SetProfile(strings.Repeat("a", 64)); err != nil {
		t.Error(err)
	}
	if err := a.SetProfile("other"); err == nil {
		t.Error("two profiles are taken")
	}
	t.Setenv("ZOOID_CONFIG", t.TempDir())
	if err := (&Access{Profile: "prod"}).Settle(); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a directory: %v", err)
	}
	t.Setenv("ZOOID_CONFIG", "")
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := (&Access{Profile: "prod"}).Settle(); err == nil || !strings.Contains(err.Error(),
		home+"/.config/zooid/profiles") {
		t.Errorf("the usual file is missing: %v", err)
	}
	t.Setenv("ZOOID_TLS", "on")
	if err := new(Access).Check(); err == nil || !strings.Contains(err.Error(), "ZOOID_TLS: ") {
		t.Errorf("a wrong variable: %v", err)
	}
}
