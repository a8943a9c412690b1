// Package docs embeds the pages that users of a server need; zooid docs prints them. troubleshooting.md isn't embedded:
// it is made from package internal/runbook, which the program has anyway.
package docs

import "embed"

// Pages has the Markdown files, such as "install.md", without a folder.
//
//go:embed comparison.md configuration.md install.md limits.md migration.md monitoring.md operations.md protocol.md
var Pages embed.FS
