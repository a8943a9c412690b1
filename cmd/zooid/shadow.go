//go:build unix

package main

import (
	"io"

	"github.com/zooid-project/zooid/internal/cli"
	"github.com/zooid-project/zooid/internal/migrate/shadow"
)

// runShadow plays the requests of Apache's clients to Zooid as well, and compares the replies.
func runShadow(args []string, stdout, stderr io.Writer) int {
	return shadow.Command(args, &cli.Access{}, stdout, stderr)
}
