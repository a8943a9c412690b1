//go:build unix

package main

import (
	"context"
	"io"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/moving"
)

var mover = moving.Program{
	Reconfigure: changeMembers,
	Ready: func(ctx context.Context, cfg *config.Config) (texts []string, err error) {
		reasons, err := readiness(ctx, cfg)
		for _, r := range reasons {
			texts = append(texts, r.Text)
		}
		return texts, err
	},
}

// runMigrate runs one of the commands below zooid migrate.
func runMigrate(args []string, stdout, stderr io.Writer) int {
	addProviders() // a zoo.cfg may name them
	return mover.Migrate(args, stdout, stderr)
}
