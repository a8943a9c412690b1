//go:build !linux

package floor

import "os"

// syncData makes a file durable.
func syncData(f *os.File) error { return f.Sync() }

// makeRoom makes a file n bytes long.
func makeRoom(f *os.File, n int64) error { return f.Truncate(n) }
