//go:build !linux

package terminal

// KeepOutput does nothing: only Linux needs it.
func KeepOutput(any) (restore func()) { return func() {} }
