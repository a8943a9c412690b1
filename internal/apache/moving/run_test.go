//go:build unix

package moving

import (
	"context"
	"errors"
	"io"

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
