//go:build !linux

package memory

// wantHugePages does nothing: other systems choose the page size themselves.
func wantHugePages([]byte, bool) {}
