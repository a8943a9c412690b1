package newensemble

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/storage"
)

// Refound replaces the files in a server's directories by those that write makes in directories of a new cluster. The
// former files are kept in the folder a.Aside of each directory. After a crash in between, FinishMoves continues.
func Refound(p Place, cluster uint64, a *Act, write func(*storage.Dir) error) error {
	a.NewCluster = fmt.Sprintf("%016x", cluster)
	e, err := beginExchange(p.DataDir, p.LogDir)
	if err != nil {
		return err
	}
	return e.refound(cluster, a, write)
}

func (e *exchange) refound(cluster uint64, a *Act, write func(*storage.Dir) error) error {
	dir, err := storage.Open(storage.Options{Dir: e.newData, LogDir: e.newLog, ClusterID: cluster})
	if err == nil {
		err = write(dir)
		err = errors.Join(err, dir.Close())
	}
	if err != nil {
		return fmt.Errorf("write the new ensemble's first snapshot: %w; nothing was changed", err)
	}
	if err := e.ready(a); err != nil {
		return err
	}
	_, err = e.finish()
	return err
}

// founding reports whether the unfinished exchange of a directory is one that Refound began. If only the log's folder
// has its new name, that of the data directory still has the old one.
func founding(dataDir string) bool {
	for _, folder := range []string{folderReady, folderMoving, folderBuild} {
		if a, err := readAct(filepath.Join(dataDir, folder, actName)); err == nil {
			return a.What == ActFounded
		}
	}
	return false
}

// finishFounding finishes a Refound that a crash has interrupted, if there is one.
func finishFounding(dataDir, logDir string) error {
	if !founding(dataDir) {
		return nil
	}
	_, err := Finish(dataDir, logDir)
	return err
}

// SetAsideLast reports whether the last act on a server's data was to set it aside, so that the server joins an
// ensemble.
func SetAsideLast(dataDir string) (bool, error) {
	path := filepath.Join(dataDir, RecordName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what recoveries there were: %w", err)
	}
	lines := bytes.Split(wholeLines(b), []byte("\n"))
	if len(lines) < 2 { // the last one is empty
		return false, nil
	}
	last := &Act{}
	if err := json.Unmarshal(lines[len(lines)-2], last); err != nil {
		return false, fmt.Errorf("read the last act in %s: %w; correct that line, or remove it if it can't be read", path, err)
	}
	return last.What == ActAside, nil
}

// NoteAside notes that a server is about to set its data aside by itself, in the folder aside, to join an ensemble:
// with an empty directory it founds none.
func NoteAside(dataDir string, server uint64, why, aside string, now time.Time) error {
	return (&Act{At: now.UTC(), What: ActAside, Server: server, Why: why, Aside: aside}).record(dataDir)
}

// orderName is the name of the file in a data directory by which an operator orders a server to found an ensemble.
const orderName = "found-ordered"

// OrderFounding orders the server of a data directory to found an ensemble with the servers that take part, as soon as
// it waits to find out how to begin. The order stays until the server begins. why is recorded.
func OrderFounding(dataDir, by, why string) error {
	if strings.TrimSpace(why) == "" || len(why) > WhyMax || len(by) > WhyMax {
		return fmt.Errorf("note why: the reason must have 1 to %d bytes, and the name at most as many", WhyMax)
	}
	b, err := json.Marshal(&Act{What: ActOrdered, By: by, Why: why})
	path := filepath.Join(dataDir, orderName)
	if err == nil {
		err = writeDurably(path+".new", b)
	}
	if err == nil { // the server may run as another user, and looks for the file all the time
		err = errors.Join(os.Chmod(path+".new", 0o644), os.Rename(path+".new", path), storage.OS{}.SyncDir(dataDir))
	}
	if err != nil {
		return fmt.Errorf("order a server to found an ensemble: %w", err)
	}
	return nil
}

// InEnsemble reports whether a server's directories hold what it has promised to an ensemble: an order to found would
// do nothing there, until one day the directories are empty.
func InEnsemble(dataDir, logDir string) (bool, error) {
	owned, err := peer.Owned(logDir)
	return owned && storage.InUse(dataDir) && storage.InUse(logDir), err
}

// FoundingOrdered reports whether there is an order to found an ensemble.
func FoundingOrdered(dataDir string) bool { return exists(filepath.Join(dataDir, orderName)) }

// EndFoundingOrder records that the server has carried out its order, if there is one, and removes it.
func EndFoundingOrder(dataDir string, server uint64, cluster string, now time.Time) error {
	path := filepath.Join(dataDir, orderName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	a := &Act{}
	if err == nil {
		err = json.Unmarshal(b, a)
	}
	if err != nil {
		return fmt.Errorf("read the order to found an ensemble: %w", err)
	}
	a.At, a.Server, a.NewCluster = now.UTC(), server, cluster
	if err := a.record(dataDir); err != nil {
		return err
	}
	return errors.Join(os.Remove(path), storage.OS{}.SyncDir(dataDir))
}

// DropFoundingOrder removes an order to found an ensemble, and reports whether there was one.
func DropFoundingOrder(dataDir string) (dropped bool, err error) {
	err = os.Remove(filepath.Join(dataDir, orderName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove an order to found an ensemble: %w", err)
	}
	return true, storage.OS{}.SyncDir(dataDir)
}
