//go:build flushcover

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"
)

// flushCoverage writes down each second what the program has reached, and removes what it wrote before. A program built
// with -cover does that when it ends, but servers under test are killed (test/cover.sh).
func flushCoverage() {
	dir := os.Getenv("GOCOVERDIR")
	if dir == "" {
		return
	}
	go func() {
		if err := coverage.WriteMetaDir(dir); err != nil {
			fmt.Fprintln(os.Stderr, "coverage:", err)
			return
		}
		mine := filepath.Join(dir, fmt.Sprintf("covcounters.*.%d.*", os.Getpid()))
		for ; ; time.Sleep(time.Second) {
			before, _ := filepath.Glob(mine)
			if err := coverage.WriteCountersDir(dir); err != nil {
				fmt.Fprintln(os.Stderr, "coverage:", err)
				return
			}
			for _, file := range before {
				os.Remove(file)
			}
		}
	}()
}
