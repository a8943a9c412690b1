// Package systemd reports the server's state to the service manager.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// The states that a service can report; Notify joins several by newlines.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
)

// Status returns a state with a line of text that systemctl status shows.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notify reports states to the service manager. It does nothing if none is listening (NOTIFY_SOCKET).
func Notify(states ...string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if name[0] != '/' && name[0] != '@' {
		return fmt.Errorf("tell the service manager: NOTIFY_SOCKET=%q is neither a path nor an abstract name", name)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(strings.Join(states, "\n"))); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}
