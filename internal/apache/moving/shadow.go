//go:build unix

package moving

import (
	"io"

	"github.com/zooid-project/zooid/internal/apache/shadow"
	"github.com/zooid-project/zooid/internal/tool/cli"
)

// Shadow runs zooid shadow, which plays the requests of Apache's clients to Zooid as well, and compares the replies.
func Shadow(args []string, stdout, stderr io.Writer) int {
	return shadow.Command(args, &cli.Access{}, stdout, stderr)
}
