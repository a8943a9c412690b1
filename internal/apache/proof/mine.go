package proof

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// CopyMarkName is the name of the file that marks a directory as Zooid's, for a copy of an ensemble. Nothing else
// proves that: an Apache server's own dataDir has files of the same names.
const CopyMarkName = "ZOOIDCOPY"

// A CopyMark is the content of the file CopyMarkName.
type CopyMark struct {
	What     string    `json:"what"`
	Ensemble string    `json:"ensemble"` // as the operator named it
	Made     time.Time `json:"made"`
	// Adopted says that the copy was made by a version without marks, and was accepted because the operator confirmed it
	// (-adopt).
	Adopted bool `json:"adopted,omitempty"`
	// Servers are the quorum addresses of the followed ensemble's servers, as its leader described them last.
	Servers []string `json:"servers,omitempty"`
	// Files are the files that were written here. A name is in the list before its file exists.
	Files []string `json:"files"`
	// Installing is a file of the list that is complete under another name and is to replace all others; "" for none.
	Installing string `json:"installing,omitempty"`
}

// markWhat explains the file to its readers.
const markWhat = "a copy of a running Apache ZooKeeper ensemble. zooid migrate follow and switch write here, and remove what they have written. Let nothing else use this directory"

// markMax bounds the file CopyMarkName.
const markMax = 1 << 20

// A Copy is a locked directory for a copy. Until the Copy is closed, no other command that takes the same lock writes
// there. A file in the directory is Zooid's only if the directory is marked and the mark lists the file.
type Copy struct {
	dir  string
	look bool
	lock io.Closer // nil for a directory that doesn't exist
	mark *CopyMark // nil without a mark
}

// HoldCopy locks a directory, then examines it. If look is set, nothing is written, now or later; otherwise the
// directory is created if it doesn't exist.
func HoldCopy(dir string, look bool) (*Copy, error) {
	c := &Copy{dir: dir, look: look}
	if !look {
		if err := (storage.OS{}).MkdirAll(dir); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	var err error
	if c.lock, err = (storage.OS{}).Lock(dir); err != nil {
		return nil, fmt.Errorf("another process holds it, such as zooid migrate follow or switch, an import, or a Zooid server: end that process first (%w)",
			withoutErrno(err))
	}
	if c.mark, err = readCopyMark(dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// withoutErrno replaces the system's error of a failed lock, which sounds like a temporary problem, with the path.
func withoutErrno(err error) error {
	if text, _, ok := strings.Cut(err.Error(), ": another process"); ok {
		return errors.New(text)
	}
	return err
}

// FindCopyMark returns the mark of a copy in a directory, nil if there is none.
func FindCopyMark(dir string) (*CopyMark, error) { return readCopyMark(dir) }

func readCopyMark(dir string) (*CopyMark, error) {
	f, err := os.Open(filepath.Join(dir, CopyMarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, markMax))
	if err != nil {
		return nil, err
	}
	var m CopyMark
	if err := json.Unmarshal(b, &m); err != nil || m.What == "" {
		return nil, fmt.Errorf("%s wasn't written by Zooid (%w). Give a new directory",
			f.Name(), err)
	}
	return &m, nil
}

// Close unlocks the directory.
func (c *Copy) Close() error {
	if c.lock == nil {
		return nil
	}
	err := c.lock.Close()
	c.lock = nil
	return err
}

// Looks reports whether nothing may be written.
func (c *Copy) Looks() bool { return c.look }

// Mark returns the directory's mark, or nil if it has none. It must not be changed.
func (c *Copy) Mark() *CopyMark { return c.mark }

// Empty reports whether the directory has nothing in it. lost+found, which a new file system has, doesn't count, nor
// does what is left of a mark that couldn't be written.
func (c *Copy) Empty() (bool, error) {
	names, err := c.names()
	return len(names) == 0, err
}

// names returns the names in the directory.
func (c *Copy) names() (names []string, err error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != "lost+found" && e.Name() != CopyMarkName+".tmp" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Foreign returns an error that says what an unmarked directory contains, and what to do.
func (c *Copy) Foreign() error {
	names, err := c.names()
	if err != nil {
		return err
	}
	shown := strings.Join(names[:min(len(names), foreignShown)], ", ")
	if len(names) > foreignShown {
		shown += ", …"
	}
	what := "it has files of another program: " + shown
	switch {
	case storage.InUse(c.dir):
		what = "it is the data directory of a Zooid server: " + shown
	case slices.ContainsFunc(names, apacheName):
		what = "it has files of an Apache ZooKeeper server: " + shown
		if slices.Contains(names, "follow.lock") && !slices.ContainsFunc(names, serverName) {
			what = "it has files of an Apache ZooKeeper server, or of a copy made by an earlier version of Zooid (then give -adopt): " +
				shown
		}
	}
	return fmt.Errorf("the directory isn't marked as Zooid's: it has no file %s, and %s. Nothing was changed. Give a new directory, or an empty one",
		CopyMarkName, what)
}

// foreignShown is how many names a message lists.
const foreignShown = 8

// apacheName reports whether a name is one that an Apache server has in its directories, serverName whether only a
// server has it.
func apacheName(name string) bool { return name == "version-2" || serverName(name) }

func serverName(name string) bool {
	return name == "myid" || name == "initialize" || name == "zookeeper_server.pid"
}

// Begin marks the directory. The caller knows that it is empty, or that the files in it are Zooid's.
func (c *Copy) Begin(ensemble string, adopted []string) error {
	c.mark = &CopyMark{
		What: markWhat, Ensemble: ensemble, Made: time.Now().UTC().Truncate(time.Second), Adopted: len(adopted) > 0,
		Files: adopted,
	}
	return c.write()
}

// write makes the mark durable.
func (c *Copy) write() error {
	if c.look {
		return nil
	}
	b, err := json.MarshalIndent(c.mark, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, CopyMarkName)
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	return errors.Join(err, storage.OS{}.SyncDir(c.dir))
}

// Owns reports whether a file, named relative to the directory, was written by Zooid.
func (c *Copy) Owns(name string) bool { return c.mark != nil && slices.Contains(c.mark.Files, name) }

// Own adds a file to those that Zooid has written, before it is created. It fails if another program has created it.
func (c *Copy) Own(name string) error {
	if c.Owns(name) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(c.dir, name)); err == nil {
		return fmt.Errorf("%s exists, but Zooid didn't write it: another program uses this directory. Give another one",
			filepath.Join(c.dir, name))
	}
	c.mark.Files = append(c.mark.Files, name)
	return c.write()
}

// Install records that a complete file is about to replace all others under its name; "" records that it has.
func (c *Copy) Install(name string) error {
	c.mark.Installing = name
	return c.write()
}

// Follows records the servers of the followed ensemble.
func (c *Copy) Follows(servers []string) error {
	if slices.Equal(servers, c.mark.Servers) {
		return nil
	}
	c.mark.Servers = slices.Clone(servers)
	return c.write()
}

// Check returns an error if a marked directory has files that Zooid hasn't written, in it or in its folder, and forgets
// files that are gone. fixed are names that need not be in the list.
func (c *Copy) Check(folder string, fixed ...string) error {
	var strange []string
	for _, dir := range []string{"", folder} {
		entries, err := os.ReadDir(filepath.Join(c.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			if !c.Owns(name) && !slices.Contains(fixed, name) &&
				!slices.Contains([]string{CopyMarkName, CopyMarkName + ".tmp", "lost+found", folder}, name) {
				strange = append(strange, name)
			}
		}
	}
	if len(strange) > 0 {
		return fmt.Errorf("it has files that Zooid didn't write: %s. Another program has used this directory, such as an Apache server started on the copy. Nothing was changed. Give a new directory",
			strings.Join(strange[:min(len(strange), foreignShown)], ", "))
	}
	c.mark.Files = slices.DeleteFunc(c.mark.Files, func(name string) bool {
		_, err := os.Lstat(filepath.Join(c.dir, name))
		return errors.Is(err, fs.ErrNotExist)
	})
	return nil
}
