// Package systemd tells the service manager how the server is.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// What a service can tell; several are joined by new lines.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
)

// Status is a line for people: systemctl status shows it.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notify tells the service manager. Without one that listens (NOTIFY_SOCKET) it does nothing.
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
