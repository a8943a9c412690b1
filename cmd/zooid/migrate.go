//go:build unix

package main

import (
	"io"

	"github.com/zooid-project/zooid/internal/apache/moving"
)

var mover = moving.Program{
	Reconfigure: changeMembers,
	Ask:         whoServes,
}

// runMigrate runs one of the commands below zooid migrate.
func runMigrate(args []string, stdout, stderr io.Writer) int {
	addProviders() // a zoo.cfg may name them
	return mover.Migrate(args, stdout, stderr)
}

// migration returns a command of package moving.
func migration(name string) func(args []string, stdout, stderr io.Writer) int {
	return func(args []string, stdout, stderr io.Writer) int { return mover.Run(name, args, stdout, stderr) }
}
