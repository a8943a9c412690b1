// Package docs has the pages of this folder that a user of a server needs, for zooid docs. What its codes mean is
// internal/runbook's, of which troubleshooting.md is made.
package docs

import "embed"

// Pages are Markdown files, by name.
//
//go:embed comparison.md configuration.md install.md limits.md migration.md monitoring.md operations.md protocol.md
var Pages embed.FS
