package apache

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

// ImportOptions select the source and the target of an import.
type ImportOptions struct {
	Apache files.Options
	// Dir becomes the data directory, LogDir that of its log; empty for the same. They may be
	// Apache's own: its files stay unchanged next to the new ones.
	Dir, LogDir string
	// Voters are the voting servers that start with the same data directory; empty for a standalone server, which
	// others may join.
	Voters []uint64
	// Copy, if not nil, is called with the snapshot file of a complete data directory before it is moved into place or,
	// in a rehearsal, removed. digest is that of the tree. If Copy fails, the directory isn't moved.
	Copy func(snapshot string, digest uint64, stay bool) error
	// AcceptMismatch imports a tree whose digest differs from Apache's.
	AcceptMismatch bool
	// Stage, if not nil, is called with the name of each stage that begins.
	Stage func(what string)
}

// An Imported describes the imported data.
type Imported struct {
	*files.Report
	Zxid     int64  // the last zxid that clients may have seen
	Digest   uint64 // Apache's digest of the tree as it was read back
	Znodes   int
	Sessions int
}

// A MismatchError says that the tree's digest differs from Apache's.
type MismatchError struct{ files.DigestMismatch }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: at zxid %#x Apache's digest of the tree is %#x, but its files have the digest %#x. "+
		"Apache's servers differ, or the files were modified. Compare the servers' trees and take the directory of the correct one, "+
		"or import this one anyway with -accept-mismatch", e.Where, uint64(e.Zxid), e.Apache, e.Tree)
}

// Import makes a data directory from the data that an Apache server would load. It reads the written files back and
// compares them before moving them into place. Apache's files are only read.
func Import(o ImportOptions) (*Imported, error) {
	if err := o.Free(); err != nil {
		return nil, err
	}
	o.stage("reading Apache's files")
	state, report, err := files.Load(o.Apache)
	if err != nil {
		return nil, err
	}
	if report.Mismatch != nil && !o.AcceptMismatch {
		return nil, &MismatchError{*report.Mismatch}
	}
	made, err := o.Make(state, report.Epoch)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", o.Apache.Dir, err)
	}
	made.Report = report
	return &made.Imported, made.Write()
}

// Free returns an error if a directory to be written already holds Zooid data, other than the files of an import that
// was cut short.
func (o *ImportOptions) Free() error {
	if names, err := o.moving(); err != nil || len(names) > 0 {
		return err // write takes these files back, and then looks again
	}
	for _, dir := range o.dirs() {
		if !storage.InUse(dir) {
			continue
		}
		if left, err := os.ReadDir(filepath.Join(o.Dir, unfinishedName)); err == nil && len(left) == 0 {
			return fmt.Errorf("import into %s: an import was killed there when all its files were in their places: the data is complete. Start the server, or give a new directory to import again",
				dir)
		}
		return fmt.Errorf("import into %s: it is in use as a Zooid data directory; give a new directory, or an empty one",
			dir)
	}
	return nil
}

func (o *ImportOptions) dirs() []string {
	if o.LogDir != "" && filepath.Clean(o.LogDir) != filepath.Clean(o.Dir) {
		return []string{o.Dir, o.LogDir}
	}
	return []string{o.Dir}
}

// A Made is a tree that was converted from Apache's and isn't written yet.
type Made struct {
	Imported
	o       *ImportOptions
	cluster uint64
	tree    *tree.Tree // until it is written
}

// Make converts an Apache state to a tree. epoch is the highest that the Apache servers have accepted.
func (o *ImportOptions) Make(state *files.State, epoch int64) (*Made, error) {
	if state.Zxid>>32 >= files.EpochMax || state.Zxid < 0 {
		return nil, fmt.Errorf("its last zxid is %#x, which leaves too few epochs for the next elections",
			uint64(state.Zxid))
	}
	cluster, err := newCluster()
	if err != nil {
		return nil, err
	}
	o.stage("making the tree")
	t, err := build(state, epoch, o.Apache.Emulate353, treeload.Options(cluster, nil, tree.FeatureLevelMax))
	if err != nil {
		return nil, err
	}
	m := &Made{o: o, cluster: cluster, tree: t}
	m.Digest, m.Zxid, m.Znodes, m.Sessions = state.Digest(), t.LastZxid(), t.NodeCount(), t.Sessions().Count()
	return m, nil
}

// Write writes the data directory, reads it back and compares. A Made is written or rehearsed once.
func (m *Made) Write() error { return m.o.write(m.cluster, m.take(), m.Digest, true) }

// Rehearse is like Write, but leaves nothing behind.
func (m *Made) Rehearse() error { return m.o.write(m.cluster, m.take(), m.Digest, false) }

// take returns the tree and forgets it: it needs no memory any more while it is read back from the disk.
func (m *Made) take() *tree.Tree {
	t := m.tree
	m.tree = nil
	return t
}

func (o *ImportOptions) stage(what string) {
	if o.Stage != nil {
		o.Stage(what)
	}
}

func newCluster() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("choose the id of a new cluster: %w", err)
	}
	return max(binary.BigEndian.Uint64(b[:]), 1), nil
}

// unfinishedName is a directory within the new ones where their files are written. Until they are complete and read
// back, a server finds nothing, and Import starts over.
const unfinishedName = "import-unfinished"

// write writes the files in directories next to their places, reads them back, and moves them there if stay is set.
func (o *ImportOptions) write(cluster uint64, t *tree.Tree, digest uint64, stay bool) error {
	dirs := o.dirs()
	made := slices.Clone(dirs)
	if err := o.takeBack(); err != nil {
		return err
	}
	if err := o.Free(); err != nil {
		return err
	}
	for i, dir := range dirs {
		made[i] = filepath.Join(dir, unfinishedName)
		if err := os.RemoveAll(made[i]); err != nil {
			return fmt.Errorf("remove what an import left unfinished: %w", err)
		}
	}
	defer func() {
		if names, err := o.moving(); len(names) > 0 || err != nil {
			return // files are left in their places, and their names are needed
		}
		for _, dir := range made {
			os.RemoveAll(dir) // leftovers there are useless
		}
	}()
	so := storage.Options{Dir: made[0], LogDir: made[len(made)-1], ClusterID: cluster}
	own, index := t.Digest(), t.LastIndex() // of t, which isn't needed any more once it is written; see Made.take
	o.stage("writing the data directory")
	if err := writeTree(so, t, o.Voters...); err != nil {
		return err
	}
	o.stage("reading it again")
	if err := check(so, digest, own); err != nil {
		return err
	}
	if o.Copy != nil {
		if err := o.Copy(filepath.Join(made[0], fmt.Sprintf("%016x.snap", index)), own, stay); err != nil {
			return err
		}
	}
	if !stay {
		return nil
	}
	if err := o.Free(); err != nil { // so that everything that is removed after an error is of this import
		return err
	}
	return o.place(made, os.Rename)
}

// writeTree writes a data directory whose log begins with a snapshot of t: for a standalone server, or for these
// voters.
func writeTree(so storage.Options, t *tree.Tree, voters ...uint64) error {
	dir, err := storage.Open(so)
	if err != nil {
		return err
	}
	if len(voters) > 0 {
		return errors.Join(newensemble.Begin(dir, t, voters...), dir.Close())
	}
	img := &image{t.BeginSnapshot(), storage.Meta{
		Index: t.LastIndex(), Term: t.LastTerm(), Zxid: t.LastZxid(), Digest: t.Digest(),
		FeatureLevel: uint32(t.Settings().FeatureLevel), BodyFormat: tree.BodyFormat,
	}}
	defer img.Close()
	err = quorum.Restart(dir, img, standaloneID)
	return errors.Join(err, dir.Close())
}

// standaloneID is the id of a standalone server in its log. The server gets another id when it joins an ensemble.
const standaloneID = 1

// image is a tree's image in the form that package quorum takes.
type image struct {
	*tree.Image
	meta storage.Meta
}

// Describe returns the content of the snapshot's header.
func (i *image) Describe() storage.Meta { return i.meta }

// check opens a data directory as a server does and compares its digests.
func check(so storage.Options, apache, own uint64) error {
	dir, err := storage.Open(so)
	if err != nil {
		return err
	}
	t, err := treeload.Newest(dir, treeload.Options(so.ClusterID, nil, tree.FeatureLevelMax), nil)
	if err == nil && (ApacheDigest(t) != apache || t.Digest() != own) {
		err = fmt.Errorf("what was written to %s differs from what was read: its digest is %#x, but that of Apache's files is %#x. Nothing was imported; check memory and disk",
			so.Dir, ApacheDigest(t), apache)
	}
	runtime.KeepAlive(t)
	return errors.Join(err, dir.Close())
}
