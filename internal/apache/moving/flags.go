package moving

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/cli"
)

// readFlags parses the arguments of a command that connects to servers. Flags about connecting go to reach, those in
// switches take no value, and all others are passed to set with their values. It returns the arguments that aren't
// flags. help is true if the help text is asked for.
func readFlags(reach *cli.Access, args []string, switches map[string]func(),
	set func(name, value string) error) (words []string, help bool, err error) {
	for len(args) > 0 {
		rest, ok, err := reach.Take(args)
		if err != nil {
			return nil, false, err
		}
		if ok {
			args = rest
			continue
		}
		if !strings.HasPrefix(args[0], "-") {
			words, args = append(words, args[0]), args[1:]
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		args = args[1:]
		if name == "h" || name == "help" {
			return nil, true, nil
		}
		if turn := switches[name]; turn != nil {
			turn()
			continue
		}
		if !given {
			if len(args) == 0 {
				return nil, false, fmt.Errorf("the flag -%s is unknown, or needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		if err := set(name, value); err != nil {
			return nil, false, err
		}
	}
	return words, false, reach.Check()
}
