//go:build unix

package socket

import (
	"net"
	"os"
	"syscall"
)

// CloseListener closes l so that its address is free at once. After l.Close alone the address may stay in use for a
// moment: while another goroutine starts a process, that process has a copy of each open socket until its program
// begins. syscall.ForkLock doesn't help, since Linux resumes the parent before it closes the copies. CloseListener
// returns the error of l.Close. It must not be used for a listener that several processes share: afterwards none of
// them could accept.
func CloseListener(l net.Listener) error {
	// The copy is shut down only after l is closed. Otherwise Accept would return an error other than net.ErrClosed.
	var f *os.File
	if tcp, ok := l.(*net.TCPListener); ok {
		f, _ = tcp.File() // if it fails, l is closed as usual
	}
	err := l.Close()
	if f == nil {
		return err
	}
	defer f.Close()
	if raw, err := f.SyscallConn(); err == nil {
		// Shutdown stops listening for all copies. On systems without this, the call fails and changes nothing.
		raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RD) })
	}
	return err
}
