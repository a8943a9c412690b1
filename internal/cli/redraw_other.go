//go:build !unix

package cli

// redrawPrompt does nothing where the line editor can't be told: its line comes
// back with the next key.
func redrawPrompt() {}
