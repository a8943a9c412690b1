//go:build !linux

package server

// wantHugePages does nothing: such systems choose the size of pages by themselves.
func wantHugePages([]byte) {}
