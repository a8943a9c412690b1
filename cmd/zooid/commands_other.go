//go:build !unix

package main

import "github.com/zooid-project/zooid/internal/tool/status"

// commands omits the server and the tools for its files, which run on Linux and macOS only.
func commands() []command {
	return []command{
		{"cli", "[-server HOST…] [COMMAND…]", "read and change znodes", runCLI},
		{"status", "[-json] HOST…", "show the state of the ensemble", status.Main},
		{"digest", "USER:PASSWORD", "print the digest of a password for ACLs", runDigest},
		{"explain", "[CODE]…", "explain an error's code, and what to do about it", runExplain},
		{"docs", "[PAGE [WORD…]] | CODE", "show a page of this version's documentation", runDocs},
		{"completion", "bash|zsh|fish", "print a script with which a shell completes zooid's commands", runCompletion},
		{"version", "", "print the version", runVersion},
	}
}
