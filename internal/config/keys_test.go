package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// families are the keys with a free part, each with one that must be recognised.
var families = map[string]string{
	"server.N": "server.1", "group.N": "group.1", "weight.N": "weight.1",
	"authProvider.N": "authProvider.1", "superUser": "superUser", "superUser.<suffix>": "superUser.x",
}

// The file lists every key of Apache's administrator's guide.
func TestEveryKeyOfApacheIsKnown(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/apache_keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(list))
	if len(names) < 250 {
		t.Fatalf("only %d keys in the list", len(names))
	}
	keys := table()
	for _, name := range names {
		if _, ok := keys[name]; ok || name == "metricsProvider.*" {
			continue
		}
		example, ok := families[name]
		if !ok {
			t.Errorf("%s has no row", name)
		} else if !isServerLine(example) && !newLoader("").family(example, setting{value: "x"}) {
			t.Errorf("%s is not recognised", example)
		}
	}
}

func TestEveryRowSaysWhatBecomesOfItsKey(t *testing.T) {
	t.Parallel()
	fields := map[any]string{}
	c := &Config{}
	for _, k := range rows() {
		ways := 0
		for _, is := range []bool{k.field != nil, k.unused != "", k.refused != ""} {
			if is {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%s: %d of field, unused, refused are given", k.name, ways)
		}
		if k.value != "" {
			if _, err := k.assign(&Config{}, k.value); err != nil {
				t.Errorf("%s: default %s: %v", k.name, k.value, err)
			}
		}
		if k.apache != "" && k.apache == k.value {
			t.Errorf("%s: Apache's default is the same", k.name)
		}
		if k.field == nil {
			continue
		}
		to := k.field(c)
		if other, dup := fields[to]; dup {
			t.Errorf("%s and %s share a field", k.name, other)
		}
		fields[to] = k.name
		if !fits(k.kind, to) {
			t.Errorf("%s: a value of kind %d doesn't go into %T", k.name, k.kind, to)
		}
	}
}

// fits reports whether assign knows how to store the kind in such a field.
func fits(k kind, to any) bool {
	want := map[kind][]string{
		text: {"*string"}, path: {"*string"}, secret: {"*config.Secret"}, list: {"*[]string"},
		boolean: {"*bool"}, yesNo: {"*bool"}, decimal: {"*float64"},
		integer: {"*int"}, javaInt: {"*int"}, long: {"*int64"},
		millis: {"*time.Duration"}, seconds: {"*time.Duration"}, interval: {"*time.Duration"},
	}[k]
	return slices.Contains(want, reflect.TypeOf(to).String())
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := newLoader("").names
	for unknown, want := range map[string]string{
		"ticktime": "tickTime", "TickTime": "tickTime", "clinetPort": "clientPort", "snapcout": "snapCount",
		"4lw.command.whitelist": "4lw.commands.whitelist", "autopurge.snapRetainCounts": "autopurge.snapRetainCount",
		"x": "", "": "", "nothing.like.it.at.all": "", strings.Repeat("tickTime", 100): "",
	} {
		if got := nearest(unknown, known); got != want {
			t.Errorf("%s: got %q, want %q", unknown, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"abcd", "acbd", 1}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
