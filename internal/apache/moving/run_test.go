//go:build unix

package moving

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/jute"
)

// program is one whose servers never serve, and whose logs have no changes of membership.
var program = Program{
	Reconfigure: func(string, *jute.ReconfigRequest, bool) (string, jute.Code) {
		panic("a log has a change of membership")
	},
	Ask: func(context.Context, *config.Config) (proof.Answer, error) {
		return proof.Answer{}, errors.New("nobody answers")
	},
}

// run runs a command as zooid does.
func run(args []string, stdout, stderr io.Writer) int {
	if args[0] == "migrate" {
		return program.Migrate(args[1:], stdout, stderr)
	}
	return program.Run(args[0], args[1:], stdout, stderr)
}

// TestUsageErrors: after wrong arguments, each command prints the error, how it is used, and where the rest of the help
// is, not a page of text.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		var out, errs strings.Builder
		code := run(append(strings.Fields(c.name), "-nosuch"), &out, &errs)
		lines := strings.Split(errs.String(), "\n")
		if code != exitUsage || out.Len() > 0 || len(lines) > 7 ||
			lines[0] != "zooid "+c.name+": there is no flag -nosuch" || !strings.HasPrefix(lines[1], "usage: zooid ") ||
			!strings.HasSuffix(errs.String(), "\n  hint: zooid "+c.name+" -h tells more\n") {
			t.Errorf("zooid %s -nosuch: exit %d, %q, %q", c.name, code, out.String(), errs.String())
		}
	}
	var errs strings.Builder
	if code := run([]string{"migrate", "nosuch"}, io.Discard, &errs); code != exitUsage ||
		errs.String() != "zooid migrate: there is no command \"nosuch\"\n  hint: zooid migrate -h lists the commands\n" {
		t.Errorf("zooid migrate nosuch: exit %d, %q", code, errs.String())
	}
}
