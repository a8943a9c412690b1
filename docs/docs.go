// Package docs embeds the pages that users of a server need; zooid docs prints them. What codes mean isn't among them:
// troubleshooting.md is made from package internal/runbook.
package docs

import "embed"

// Pages are Markdown files, by name.
//
//go:embed comparison.md configuration.md install.md limits.md migration.md monitoring.md operations.md protocol.md
var Pages embed.FS
