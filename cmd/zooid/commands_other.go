//go:build !unix

package main

import "github.com/zooid-project/zooid/internal/status"

// commands omits the server and the tools for its files, which run on Linux and macOS only.
func commands() []command {
	return []command{
		{"cli", "[-server HOST…] [COMMAND…]", "look at and change znodes", runCLI},
		{"status", "[-json] HOST…", "the ensemble at a glance", status.Main},
		{"digest", "USER:PASSWORD", "print the digest of a password, for ACLs and superDigest", runDigest},
		{"explain", "[CODE]…", "what an error's code means, and what to do", runExplain},
		{"docs", "[PAGE [WORD…]] | CODE", "show a page of this version's documentation", runDocs},
		{"completion", "bash|zsh|fish", "print what makes a shell complete zooid's commands", runCompletion},
		{"version", "", "print the version", runVersion},
	}
}
