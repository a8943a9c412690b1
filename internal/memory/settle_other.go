//go:build !linux

package memory

// dropPages does nothing: elsewhere programPages finds nothing.
func dropPages(uintptr, uintptr) {}
