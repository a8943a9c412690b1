package apache

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// ExportOptions select the source and the target of an export.
type ExportOptions struct {
	// Dirs are a data directory, and the log's if it is separate. A server may be running on them. Exactly one of Dirs,
	// Snapshot and Fetch is the source.
	Dirs []string
	// Snapshot is a Zooid snapshot file, as the admin server streams it, possibly compressed with gzip.
	Snapshot string
	// Fetch writes such a file.
	Fetch func(to io.Writer) error
	// To becomes Apache's dataDir: a directory without version-2, or one that doesn't exist yet.
	To string
	// Reconfigure evaluates reconfig requests in the log as the server does.
	Reconfigure tree.Reconfigure
	// NoDigest leaves out Apache's digest, for servers with digest.enabled=false.
	NoDigest bool
	// Stage, if not nil, is called with the name of each stage that begins.
	Stage func(what string)
	// Interrupted, if not nil, is called often. If it returns an error, the export ends with it.
	Interrupted func() error
}

// An Exported describes the exported data.
type Exported struct {
	Zxid        int64
	Epoch       int64
	Digest      uint64 // Apache's
	Znodes      int
	Sessions    int
	Unconfirmed int // exported log entries that the log doesn't mark as committed
	NoForm
}

// UnfinishedExport is a directory within ExportOptions.To where files are written. They are moved to their places once
// they are complete and have been read back.
const UnfinishedExport = "export-unfinished"

// Export writes a directory on which Apache starts, reads it back and compares. It leaves nothing after an error.
func Export(o ExportOptions) (*Exported, error) {
	stage := func(what string) {
		if o.Stage != nil {
			o.Stage(what)
		}
	}
	final := filepath.Join(o.To, files.Version2)
	if _, err := os.Lstat(final); err == nil {
		return nil, fmt.Errorf("write Apache's files: %s already exists; give a new directory, or an empty one", final)
	}
	_, missing := os.Stat(o.To)
	unfinished := filepath.Join(o.To, UnfinishedExport)
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o700)); err != nil {
		return nil, fmt.Errorf("write Apache's files: %w", err)
	}
	defer func() {
		os.RemoveAll(unfinished) // leftovers there are useless
		if missing != nil {
			os.Remove(o.To) // fails unless it is empty
		}
	}()
	t, unconfirmed, err := o.tree(unfinished, stage)
	if err == nil && o.Interrupted != nil {
		err = o.Interrupted()
	}
	if err != nil {
		return nil, err
	}
	done := &Exported{Zxid: t.LastZxid(), Epoch: t.LastZxid() >> 32, Znodes: t.NodeCount(), Unconfirmed: unconfirmed}
	c := Content(t)
	c.NoDigest = o.NoDigest
	if o.Interrupted != nil {
		all := c.Znodes
		c.Znodes = func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			return all(func(path string, data []byte, acl []jute.ACL, st *files.Stat) error {
				if err := o.Interrupted(); err != nil {
					return err
				}
				return visit(path, data, acl, st)
			})
		}
	}
	done.Sessions, done.NoForm = len(c.Sessions), Survey(t)
	stage("writing Apache's files")
	if done.Digest, err = files.Write(unfinished, c); err != nil {
		return nil, err
	}
	stage("reading them again")
	if err := done.check(unfinished, c.Sessions, o.NoDigest); err != nil {
		return nil, err
	}
	if err := publish(filepath.Join(unfinished, files.Version2), final, storage.OS{}.SyncDir); err != nil {
		return nil, fmt.Errorf("write Apache's files: %w", err)
	}
	return done, nil
}

// publish moves a directory to its final place, and makes that durable. After an error there is nothing at that place.
func publish(made, final string, syncDir func(dir string) error) error {
	err := os.Rename(made, final)
	if err != nil {
		return err
	}
	if err = syncDir(filepath.Dir(final)); err != nil {
		err = errors.Join(err, os.RemoveAll(final))
	}
	return err
}

// Content converts a tree to Apache's content.
func Content(t *tree.Tree) *files.Content {
	c := &files.Content{Zxid: t.LastZxid(), Epoch: t.LastZxid() >> 32}
	t.Sessions().All(func(s tree.Session) bool {
		c.Sessions = append(c.Sessions, files.Session{ID: s.ID, Timeout: s.Timeout})
		return true
	})
	c.Znodes = func(visit func(string, []byte, []jute.ACL, *files.Stat) error) (err error) {
		t.Znodes(func(z *tree.Foreign) bool {
			st, data := ApacheStat(z), z.Data
			if z.Path == configPath {
				data, st = []byte{}, files.Stat{Aversion: z.Aversion} // Apache's servers put their own there
			}
			err = visit(z.Path, data, z.ACL, &st)
			return err == nil
		})
		return err
	}
	return c
}

// check reads the written files back, as Apache does.
func (e *Exported) check(dir string, sessions []files.Session, noDigest bool) error {
	state, report, err := files.Load(files.Options{Dir: dir})
	switch {
	case err != nil:
		return fmt.Errorf("read what was written: %w", err)
	case report.Mismatch != nil || state.Digest() != e.Digest || state.Len() != e.Znodes || state.Zxid != e.Zxid ||
		report.Compared == 0 && !noDigest && e.Zxid > 0,
		len(state.Sessions) != len(sessions) ||
			!slices.EqualFunc(slices.Sorted(maps.Keys(state.Sessions)), sessions,
				func(id int64, s files.Session) bool { return id == s.ID }):
		return fmt.Errorf("what was written to %s differs from the export: %d znodes with the digest %#x instead of %d with %#x. Nothing was exported; check memory and disk",
			dir, state.Len(), state.Digest(), e.Znodes, e.Digest)
	}
	return nil
}
