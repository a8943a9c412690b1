//go:build unix

package moving

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
)

// TestCompare: what zooid migrate compare says, and its exit codes.
func TestCompare(t *testing.T) {
	t.Parallel()
	write := func(data string) string {
		dir := t.TempDir()
		_, err := files.Write(dir, &files.Content{
			Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
				for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/a", "/b"} {
					if err := visit(path, []byte(data), jute.WorldACL(jute.PermAll), &files.Stat{}); err != nil {
						return err
					}
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	one, same, other := write("1"), write("1"), write("2")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, 2, "usage: zooid migrate"},
		{[]string{"help"}, 0, "usage: zooid migrate"},
		{[]string{"no"}, 2, `no command "no"`},
		{[]string{"compare", "-h"}, 0, "usage: zooid migrate compare"},
		{[]string{"compare", one}, 2, "name two trees"},
		{[]string{"compare", "-x", "1", one, same}, 2, "no flag -x"},
		{[]string{"compare", "-max"}, 2, "needs a value"},
		{[]string{"compare", "-max", "many", one, same}, 2, "-max many"},
		{[]string{"compare", "-ignore=zxid", one, same}, 2, "no field"},
		{[]string{"compare", one, same}, 0, "compared 5 znodes: 5 equal, 0 different, 0 changing, 0 unreadable"},
		{[]string{"compare", "-max", "1", one, other}, 1, `/: differs in data ("1", "2")` + "\ncompared 5 znodes: 0 equal, 5 different, 0 changing, 0 unreadable\nprinted 1 of 5"},
		{[]string{"compare", "-json", "-max=1", one, other}, 1, `{"path":"/","verdict":"differs","fields":[{"name":"data","a":"\"1\"","b":"\"2\""}]}`},
		{[]string{"compare", "-ignore", "data", one, other}, 0, "5 equal"},
		{[]string{"compare", one, filepath.Join(t.TempDir(), "missing")}, 2, "which isn't a directory"},
		{[]string{"compare", "-timeout", "50ms", one, freeport.Address(t)}, 2, "connect to 127.0.0.1"},
	} {
		var out bytes.Buffer
		if code := run(append([]string{"migrate"}, c.args...), &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("zooid migrate %q: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}
