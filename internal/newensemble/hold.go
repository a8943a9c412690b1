package newensemble

import (
	"errors"
	"io"
	"io/fs"

	"github.com/zooid-project/zooid/internal/storage"
)

// locks are the locks of a server's directories.
type locks []io.Closer

func (l locks) Close() error {
	var errs []error
	for _, lock := range l {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// Hold locks a stopped server's directories, as a running server does, until the returned value is closed. Whoever
// reads them, asks the operator and then moves their files must hold them all the time: a server that started in
// between would acknowledge writes that the move takes away from it.
func (p *Place) Hold() (io.Closer, error) {
	var held locks
	for _, dir := range dirsOf(p.DataDir, p.LogDir) {
		lock, err := storage.OS{}.Lock(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it holds nothing
		}
		if err != nil {
			return nil, errors.Join(err, held.Close())
		}
		held = append(held, lock)
	}
	p.held = true
	return held, nil
}

// FinishMoves finishes what a crash has interrupted: a storage.SetAside, and a Refound. It fails if another process has
// the directories, which might be about to do the same.
func FinishMoves(dataDir, logDir string) error {
	p := Place{DataDir: dataDir, LogDir: logDir}
	held, err := p.Hold()
	if err != nil {
		return err
	}
	defer held.Close()
	if err := storage.FinishSetAside(dataDir, logDir); err != nil {
		return err
	}
	return finishFounding(dataDir, logDir)
}

// heldFS is the file system for directories that this process has locked already.
type heldFS struct{ storage.OS }

func (heldFS) Lock(string) (io.Closer, error) { return locks(nil), nil }
