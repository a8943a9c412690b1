package apache

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

// tree returns the tree to export, using dir for temporary files. unconfirmed is as in txnlog.Newest; it is 0 for a
// snapshot, which holds only committed entries.
func (o *ExportOptions) tree(dir string, stage func(what string)) (t *tree.Tree, unconfirmed int, err error) {
	file := o.Snapshot
	switch {
	case o.Fetch != nil:
		stage("fetching a snapshot")
		file = filepath.Join(dir, "snapshot")
		if err := writeTo(file, o.Fetch); err != nil {
			return nil, 0, err
		}
	case file == "":
		stage("reading the data directory")
		return txnlog.Newest(txnlog.Options{Dirs: o.Dirs, Reconfigure: o.Reconfigure})
	}
	stage("reading the snapshot")
	shown := file
	if o.Fetch != nil {
		shown = "the server's snapshot"
	}
	t, err = readSnapshot(file, dir)
	if damage := (*storage.DamageError)(nil); errors.As(err, &damage) {
		damage.File = shown
		if errors.As(err, new(*storage.FormatError)) {
			return nil, 0, err
		}
		return nil, 0, fmt.Errorf("%w. The snapshot is truncated or corrupt. Take another one", damage)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", shown, err)
	}
	return t, 0, nil
}

// writeTo creates a file with the output of write.
func writeTo(file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep a snapshot: %w", err)
	}
	return errors.Join(write(f), f.Close())
}

// The first bytes of files, by kind.
const (
	snapshotMagic = "ZOOIDSNP"
	gzipMagic     = "\x1f\x8b"
)

// readSnapshot reads a Zooid snapshot file, decompressing it into dir first if it was compressed with gzip.
func readSnapshot(file, dir string) (*tree.Tree, error) {
	head, err := firstBytes(file)
	if err == nil && bytes.HasPrefix(head, []byte(gzipMagic)) {
		plain := filepath.Join(dir, "snapshot.plain")
		if err := writeTo(plain, func(to io.Writer) error { return decompress(to, file, math.MaxInt64) }); err != nil {
			return nil, err
		}
		file = plain
		head, err = firstBytes(file)
	}
	switch {
	case err != nil:
		return nil, err
	case bytes.HasPrefix(head, []byte(apacheMagic)):
		return nil, errors.New("this is an Apache snapshot, which may be incomplete without its logs: run zooid import on the dataDir it came from")
	case !bytes.HasPrefix(head, []byte(snapshotMagic)):
		return nil, errors.New("this isn't a Zooid snapshot, as the admin server's snapshot command returns")
	}
	t, _, err := ownTree(file)
	return t, err
}

// ownTree reads a Zooid snapshot file, whatever its name.
func ownTree(file string) (*tree.Tree, *storage.Meta, error) {
	snap, err := storage.PeekSnapshot(oneFile{path: file}, "")
	if err != nil {
		return nil, nil, err
	}
	defer snap.Close()
	if snap.Meta.BodyFormat != tree.BodyFormat {
		return nil, nil, &tree.NewerError{
			What: fmt.Sprintf("its body's format %d (this version reads %d)", snap.Meta.BodyFormat, tree.BodyFormat),
			This: tree.BodyFormat, Wants: int32(snap.Meta.BodyFormat),
		}
	}
	t, err := treeload.Tree(snap.Meta, snap, treeload.Options(snap.ClusterID, nil, tree.FeatureLevelMax))
	return t, &snap.Meta, err
}

// decompress writes the decompressed content of a gzip file, which must be at most so many bytes.
func decompress(to io.Writer, file string, most int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err == nil {
		var n int64
		if n, err = io.Copy(to, io.LimitReader(r, min(most, math.MaxInt64-1)+1)); err == nil && n > most {
			return fmt.Errorf("it decompresses to more than %d bytes", most)
		}
	}
	if err == nil || errors.As(err, new(*fs.PathError)) { // a disk error
		return err
	}
	at, _ := f.Seek(0, io.SeekCurrent)
	return &storage.DamageError{File: file, Offset: at, Reason: "decompression fails: " + err.Error()}
}

// oneFile is a directory with a single snapshot, whatever the file's name.
type oneFile struct {
	storage.OS
	path string
}

// ReadDir lists the file under a name that it could have in a data directory.
func (f oneFile) ReadDir(string) ([]string, error) { return []string{"0000000000000001.snap"}, nil }

// OpenRead opens the file.
func (f oneFile) OpenRead(string) (storage.File, error) { return f.OS.OpenRead(f.path) }
