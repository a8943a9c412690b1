package sasl

import (
	"maps"
	"strings"
	"testing"
)

const kazooLogin = `
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="super_secret"
    user_jaasuser="jaas_password";
};`

func TestParseLogin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want map[string]string // users of Server; nil if there is no such section
	}{
		"empty": {"", nil},
		"blank": {" \n// a comment\n/* and\n another */", nil},
		"kazoo": {kazooLogin, map[string]string{"super": "super_secret", "jaasuser": "jaas_password"}},
		"others": {
			"Client { some.Module OPTIONAL; };\n" + kazooLogin + "QuorumServer { com.sun.security.auth.module.Krb5LoginModule required keyTab=\"/a/b\" debug=true; };",
			map[string]string{"super": "super_secret", "jaasuser": "jaas_password"},
		},
		"tight": {
			`Server{org.apache.zookeeper.server.auth.DigestLoginModule required user_a=b user_c = "d e" other=1;};`,
			map[string]string{"a": "b", "c": "d e"},
		},
		"quoted": {
			`"Server" { "org.apache.zookeeper.server.auth.DigestLoginModule" "required" "user_a@REALM"="b"; };`,
			map[string]string{"a@REALM": "b"},
		},
		"escapes": {
			`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a="\"\\\t\101\x/" user_b="\400" user_c="\351"; };`,
			map[string]string{"a": "\"\\\tAx/", "b": " 0", "c": "é"},
		},
		"comments": {
			"Server { // one\n org.apache.zookeeper.server.auth.DigestLoginModule /* two */ required user_a=\"//b\"; };",
			map[string]string{"a": "//b"},
		},
		"modules": {
			`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=1; org.apache.zookeeper.server.auth.DigestLoginModule optional user_b=2; };`,
			map[string]string{"a": "1", "b": "2"},
		},
		"none": {`Server { };`, map[string]string{}},
	} {
		sections, err := ParseLogin("jaas.conf", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got map[string]string
		for _, s := range sections {
			if s.Name == "Server" {
				if got, err = s.Users(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: users %q, want %q", name, got, c.want)
		}
	}
}

func TestParseLoginErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{":                                           "jaas.conf:1: expected the name of a section",
		"Server":                                      "jaas.conf:1: expected {, found the end",
		"Server {\n":                                  "jaas.conf:2: expected the class",
		"Server { a.B\nmaybe; };":                     "jaas.conf:2: expected required",
		"Server { a.B required\n\na; };":              "jaas.conf:3: expected =",
		"Server { a.B required a=; };":                "expected the value of option a",
		"Server { a.B required a=/b; };":              "put it in double quotes",
		"Server { a.B required a='secr'; }":           "put it in double quotes",
		"Server { a.B required a=\"secr\n\"; };":      "does not end on its line",
		"Server { a.B required a=\"secr":              "has no end",
		"Server { a.B required a=\"${secr}\"; };":     "Java property",
		"Server { a.B required; }":                    "expected ;, found the end",
		"Server { a.B required \"secr\" \"secr\"; };": "expected =, found a quoted text",
		"A { };\nA { };":                              "jaas.conf:2: section \"A\" is there twice",
		"/* \n":                                       "jaas.conf:1: the comment",
		"/* \n*/ }":                                   "jaas.conf:2: expected the name",
		strings.Repeat(" ", LoginBytesMax+1):          "at most",
	} {
		_, err := ParseLogin("jaas.conf", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secr\"") {
			t.Errorf("%q: the error shows a value: %v", text, err)
		}
	}
}

func TestUsersRefused(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]string{
		"com.example.Own": "jaas.conf:2: section \"Server\" names the login module",
		"Own":             "Java classes can't be loaded",
	} {
		sections, err := ParseLogin("jaas.conf", []byte("Server {\n"+class+" required principal=\"zookeeper/host\";\n};"))
		if err != nil {
			t.Fatal(err)
		}
		if users, err := sections[0].Users(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", class, users, err, want)
		}
	}
}

// TestKerberos: what a section says of Kerberos.
func TestKerberos(t *testing.T) {
	t.Parallel()
	sections, err := ParseLogin("jaas.conf", []byte(`Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="file:/etc/zk.keytab" storeKey=true principal="zookeeper/host@HOME"; };
Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="/tmp/cache"; };
Other { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="x"; };`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []*Kerberos{
		{Keytab: "/etc/zk.keytab", Principal: "zookeeper/host@HOME"}, {Cache: "/tmp/cache"}, nil,
	} {
		got := sections[i].Kerberos()
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v, want %+v", sections[i].Name, got, want)
		}
	}
	if users, err := sections[0].Users(); err != nil || len(users) != 0 {
		t.Errorf("%v, %v", users, err)
	}
}

func FuzzLogin(f *testing.F) {
	f.Add([]byte(kazooLogin))
	f.Add([]byte(`A{b c d="\777`))
	f.Add([]byte("/*"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sections, err := ParseLogin("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") && len(text) <= LoginBytesMax {
				t.Fatalf("%q: the error names no line: %v", text, err)
			}
			return
		}
		seen := map[string]bool{}
		for _, s := range sections {
			if seen[s.Name] {
				t.Fatalf("%q: section %q twice", text, s.Name)
			}
			seen[s.Name] = true
			s.Users()
		}
	})
}
