//go:build !unix

package follow

import "os"

// lockFile opens the file: there are no locks.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
