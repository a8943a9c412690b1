package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
)

// TestLargestMaxBuffer: the configuration takes what the server takes, and no more.
func TestLargestMaxBuffer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, "dataDir=%s\nclientPort=2181\n", dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for size, ok := range map[int]bool{server.MaxFrameMax: true, server.MaxFrameMax + 1: false} {
		cfg, err := config.Load(file, []string{fmt.Sprintf("jute.maxbuffer=%d", size)})
		if (err == nil) != ok || ok && cfg.Limits.JuteMaxBuffer != size {
			t.Errorf("jute.maxbuffer=%d: %v", size, err)
		}
	}
}
