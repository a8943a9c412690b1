//go:build unix

package socket

import (
	"net"
	"os"
	"syscall"
)

// CloseListener closes l so that its address can be listened on again at once. After l.Close alone, it may stay in use
// for a moment: a process that is being started meanwhile, from any goroutine, holds a copy of each open socket until
// its program begins. syscall.ForkLock doesn't help, because Linux lets the parent go on before it closes the copies.
// CloseListener returns the error of l.Close. It isn't for a listener that processes share on purpose: none of them
// could accept any more.
func CloseListener(l net.Listener) error {
	// The copy is shut down only after l is closed: Accept would return another error than net.ErrClosed.
	var f *os.File
	if tcp, ok := l.(*net.TCPListener); ok {
		f, _ = tcp.File() // without one, l is closed as usual
	}
	err := l.Close()
	if f == nil {
		return err
	}
	defer f.Close()
	if raw, err := f.SyscallConn(); err == nil {
		// It ends listening for all copies. Where the system doesn't have that, the call fails and changes nothing.
		raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RD) })
	}
	return err
}
