package terminal

import "golang.org/x/sys/unix"

// KeepOutput keeps an interrupt from discarding output, until restore is called. By default Ctrl-C
// discards output that the terminal has not yet taken, and Linux then doesn't wake a process that
// waits to write more: a shell that catches the interrupt in the middle of a long listing would
// wait forever.
func KeepOutput(w any) (restore func()) {
	nothing := func() {}
	f := FileOf(w)
	if f == nil {
		return nothing
	}
	mode, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil || mode.Lflag&unix.NOFLSH != 0 {
		return nothing
	}
	before := *mode
	mode.Lflag |= unix.NOFLSH
	// Errors are ignored, here and in restore: they leave the terminal's mode as it was.
	_ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, mode)
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &before) }
}
