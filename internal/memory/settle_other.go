//go:build !linux

package memory

// dropPages does nothing: programPages finds nothing on these systems.
func dropPages(uintptr, uintptr) {}
