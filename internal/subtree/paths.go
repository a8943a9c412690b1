package subtree

import (
	"fmt"
	"strings"
)

// Parent returns the path above path, "/" at the top.
func Parent(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}

// Join returns the path of a child.
func Join(path, name string) string {
	if path == "/" {
		return "/" + name
	}
	return path + "/" + name
}

// Count returns "1 znode", "2 znodes".
func Count(n int) string {
	if n == 1 {
		return "1 znode"
	}
	return fmt.Sprintf("%d znodes", n)
}
