//go:build !unix

package setup

import (
	"errors"
	"os"
)

// lock refuses: without locks two commands could lose each other's certificates.
func lock(*os.File) error { return errors.ErrUnsupported }
