package authprovider

import (
	"regexp"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, entry string
		want      bool
	}{
		{"ann", "ann", true}, {"ann", "an", false}, {"ann", "", false}, {"", "", true}, {"", "*", true},
		{"team-red", "team-*", true}, {"team-", "team-*", true}, {"team", "team-*", false},
		{"a.example.com", "*.example.com", true},
		{"example.com", "*.example.com", false}, {"aXbXc", "a*b*c", true}, {"abc", "a*b*c", true}, {"ab", "a*b*c", false},
		{"aba", "ab*ba", false}, {"abba", "ab*ba", true}, {"aaa", "a*a*a", true}, {"aa", "a*a*a", false}, {"x", "**", true},
		{"a*", "a*", true}, {"a*", "ab", false}, {"é-1", "é*", true}, {"abab", "*ab", true}, {"abac", "*ab*", true},
		{"abcd", "*a*b*c*d", true}, {"abcd", "*a*b*c*d*", false}, // too many
	} {
		if got := glob(c.id, c.entry); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.id, c.entry, got)
		}
	}
}

// FuzzGlob compares glob with a regular expression.
func FuzzGlob(f *testing.F) {
	f.Add("team-red", "team-*")
	f.Add("abcabc", "*b*c")
	f.Fuzz(func(t *testing.T, id, entry string) {
		if len(id) > RuleIDBytesMax || len(entry) > RuleIDBytesMax || strings.Count(entry, "*") > GlobStarsMax {
			return
		}
		var parts []string
		for _, part := range strings.Split(entry, "*") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		r, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil {
			return // not UTF-8
		}
		if want := r.MatchString(id); glob(id, entry) != want {
			t.Errorf("glob(%q, %q) = %v", id, entry, !want)
		}
	})
}

func TestRegisterRule(t *testing.T) {
	t.Parallel()
	never := func(string, string) bool { return false }
	longest := strings.Repeat("r", RuleBytesMax)
	RegisterRule(longest, never)
	if FindRule(longest) == nil || FindRule(Glob) == nil || FindRule("test.other/1") != nil {
		t.Error("a rule isn't found, or one that isn't there is")
	}
	for _, name := range []string{"", longest, longest + "r", Glob, "a b", "a\n", "é", "/a", "a.", "a:b"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is registered", name)
				}
			}()
			RegisterRule(name, never)
		}()
	}
}
