//go:build !linux

package memory

// wantHugePages does nothing: such systems choose the size of pages by themselves.
func wantHugePages([]byte, bool) {}
