//go:build unix

package main

import (
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
)

// memberFiles keeps the membership where Apache keeps it: in zoo.cfg.dynamic.VERSION, next to a zoo.cfg that points to
// it. Tools and the next start find the current membership there. A running server takes it only from the log. A server
// that is not a member keeps the files it has: it wouldn't start with a membership that doesn't name it.
type memberFiles struct {
	cfg *config.Config
	log *slog.Logger
}

// save writes the files for a membership. If it can't, for example in a directory that
// is mounted read-only, the server goes on without them.
func (f *memberFiles) save(text string, version int64) {
	members, err := config.ParseMembers(text)
	if err != nil {
		f.log.Error("the membership can't be read, so no dynamic configuration file is written", "err", err, "code", "ZD-3210")
		return
	}
	self, ok := members.Find(f.cfg.Quorum.MyID)
	if !ok {
		return
	}
	path := config.DynamicPath(f.cfg.File, version)
	if f.cfg.Quorum.DynamicFile != "" && sameFile(path, f.cfg.Quorum.DynamicFile) && holds(path, members) {
		return // the server was started from this file
	}
	if err := config.WriteDynamic(path, members, false); err != nil {
		f.log.Warn("the membership has changed, but its dynamic configuration file can't be written; the ensemble uses the new membership anyway",
			"err", err, "code", "ZD-3211")
		return
	}
	if err := config.WriteStatic(f.cfg.File, path, !self.Client.IsZero()); err != nil {
		f.log.Warn("the membership has changed, but zoo.cfg can't be changed to point to its dynamic configuration file; the ensemble uses the new membership anyway",
			"file", path, "err", err, "code", "ZD-3212")
		return
	}
	f.log.Info("the membership is kept in a dynamic configuration file", "file", path)
}

// holds reports whether a dynamic file names these members. A file of the same version may be one of a former ensemble,
// if the server has joined this one with an empty data directory: all ensembles begin with the same version.
func holds(path string, m config.Members) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	in, err := config.ParseMembers(string(text))
	return err == nil && sortedLines(withoutVersion(in)) == sortedLines(withoutVersion(m))
}

func sortedLines(text string) string {
	lines := strings.Fields(text)
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func sameFile(a, b string) bool {
	sa, err := os.Stat(a)
	if err != nil {
		return false
	}
	sb, err := os.Stat(b)
	return err == nil && os.SameFile(sa, sb)
}
