//go:build unix

package moving

import (
	"context"

	"github.com/zooid-project/zooid/internal/apache/shadow"
	"github.com/zooid-project/zooid/internal/tool/cli"
)

// shadowFlags are the flags and arguments of zooid shadow.
type shadowFlags struct {
	shadow.Settings
	access cli.Access
}

func (f *shadowFlags) register(flags *flags) {
	flags.access, flags.onlyTLS = &f.access, true
	f.DialShadow = f.access.Dial
	f.Register(flags.FlagSet)
}

func (f *shadowFlags) arguments(words []string) error { return f.Arguments(words) }

func (f *shadowFlags) run(ctx context.Context, s cli.Streams) (int, error) {
	return f.Run(ctx, s.Out, s.Err)
}
