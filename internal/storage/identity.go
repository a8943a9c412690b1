package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// identityName is the file that says that a directory is in use, and by which cluster. Each of the
// two directories has one, with the same text. If only the file is missing, it is written again.
// But a file without a log means that a log has been lost.
const identityName = "IDENTITY"

// holding says which parts of a server's data a directory has.
type holding struct {
	identity  bool
	segments  bool
	snapshots bool
}

func (h *holding) note(name string) {
	if name == identityName {
		h.identity = true
	}
	if _, ok := numbered(name, segmentSuffix); ok {
		h.segments = true
	}
	if _, ok := numbered(name, snapshotSuffix); ok {
		h.snapshots = true
	}
}

// ReadIdentity returns the id of the cluster to which a server's data belongs. dir holds the
// snapshots and logDir the log; an empty logDir means dir. If both are new or don't exist, the
// error satisfies errors.Is(err, fs.ErrNotExist). If only one is new, and the other can't be used
// without it, the error is a MissingError: such a server must not be mistaken for a new one.
func ReadIdentity(fsys FS, dir, logDir string) (cluster uint64, err error) {
	logDir = cmp.Or(logDir, dir)
	data, err := lookAt(fsys, dir)
	if err != nil {
		return 0, err
	}
	log, err := lookAt(fsys, logDir)
	if err != nil {
		return 0, err
	}
	if err := checkHoldings(dir, logDir, data, log); err != nil {
		return 0, err
	}
	switch {
	case log.identity:
		return readIdentity(fsys, logDir)
	case data.identity:
		return readIdentity(fsys, dir)
	case log.segments: // a crash during the first start
		return clusterOfLog(fsys, logDir)
	}
	return 0, fmt.Errorf("read which cluster %s belongs to: it is new: %w", logDir, fs.ErrNotExist)
}

func lookAt(fsys FS, dir string) (h holding, err error) {
	names, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("read directory: %w", err)
	}
	for _, name := range names {
		h.note(name)
	}
	return h, nil
}

// checkHoldings refuses directories if one of them was lost, emptied, not mounted or mixed up. A log without the other
// directory is complete if it begins at the first entry; recovery checks that.
func checkHoldings(dir, logDir string, data, log holding) error {
	one := dir == logDir
	switch {
	case one && !log.segments && (log.identity || log.snapshots):
		return damaged(dir, 0, "the directory was in use, but all log segments are missing; if the log was kept in a "+
			"directory of its own, name that again (dataLogDir)")
	case one:
		return nil
	case data.segments && log.segments:
		return &MissingError{Dir: logDir, Other: dir, Reason: "both hold log segments, and an old log must not be taken for the present one",
			Do: "Move away the segments (*.log) that are not in use any more"}
	case data.segments:
		return &MissingError{Dir: logDir, Other: dir, Reason: "the log lies in the data directory, not in the log directory",
			Do: "Move *.log, spare-* and reserve to the log directory, or configure the log directory of before (dataLogDir)"}
	case !log.segments && (log.identity || data.identity || data.snapshots):
		return &MissingError{Dir: logDir, Other: dir, Reason: "the log is missing, though the directories were in use: with it are " +
			"lost this server's votes and what it acknowledged", Do: doRestore}
	}
	return nil
}

func readIdentity(fsys FS, dir string) (cluster uint64, err error) {
	path := filepath.Join(dir, identityName)
	f, err := fsys.OpenRead(path)
	if err != nil {
		return 0, fmt.Errorf("open identity: %w", err)
	}
	defer f.Close()
	want := (&Log{}).identityText()
	b := make([]byte, len(want))
	if err := readFull(f, b, 0); err != nil {
		return 0, fmt.Errorf("read identity %s: %w", path, err)
	}
	var format int
	if _, err := fmt.Sscanf(string(b), "zooid data directory\nformat %d\ncluster %x\n", &format, &cluster); err != nil ||
		format != segmentFormat || cluster == 0 {
		if _, err := clusterOfLog(fsys, dir); errors.As(err, new(*FormatError)) { // its header has a checksum
			return 0, err
		}
		return 0, damaged(path, 0, "want the form %q, found %q", want, b)
	}
	return cluster, nil
}

// clusterOfLog returns the cluster named in the first segment in a directory.
func clusterOfLog(fsys FS, dir string) (uint64, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("read log directory: %w", err)
	}
	for _, name := range names {
		if _, ok := numbered(name, segmentSuffix); !ok {
			continue
		}
		path := filepath.Join(dir, name)
		f, err := fsys.OpenRead(path)
		if err != nil {
			return 0, fmt.Errorf("open log segment: %w", err)
		}
		defer f.Close()
		b := make([]byte, sectorSize)
		if err := readFull(f, b, 0); err != nil {
			return 0, fmt.Errorf("read log segment %s: %w", path, err)
		}
		h, err := parseSegmentHeader(path, b)
		return h.cluster, err
	}
	return 0, fmt.Errorf("read which cluster the log in %s belongs to: no segment is there any more: %w", dir,
		fs.ErrNotExist)
}

func (l *Log) identityText() string {
	return fmt.Sprintf("zooid data directory\nformat %d\ncluster %016x\n", segmentFormat, l.cluster)
}

// checkIdentity checks the IDENTITY of each directory that has one.
func (r *recovery) checkIdentity() error {
	for _, dir := range r.dir.dirs() {
		if !r.holdings[dir].identity {
			continue
		}
		if err := r.checkIdentityIn(dir); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) checkIdentityIn(dir string) error {
	path := filepath.Join(dir, identityName)
	f, err := r.fs.OpenRead(path)
	if err != nil {
		return fmt.Errorf("open identity: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("stat identity: %w", err)
	}
	want := r.identityText()
	b := make([]byte, min(size, int64(len(want))))
	if err := readFull(f, b, 0); err != nil {
		return fmt.Errorf("read identity: %w", err)
	}
	var other uint64
	if at := strings.Index(want, "cluster "); size == int64(len(want)) && string(b[:at]) == want[:at] {
		if _, err := fmt.Sscanf(string(b[at:]), "cluster %x\n", &other); err == nil && other != r.cluster && dir != r.path {
			return &ClusterError{File: path, Found: other, Wanted: r.cluster}
		}
	}
	for i := range want {
		if i >= len(b) || b[i] != want[i] || size != int64(len(want)) && i == len(want)-1 {
			return damaged(path, int64(i), "want %q; the log is of cluster %#x", want, r.cluster)
		}
	}
	return nil
}

// writeIdentities writes the missing IDENTITY files. The log's comes first: without it, the loss of
// the log before the first snapshot would go unnoticed.
func (r *recovery) writeIdentities() error {
	for _, dir := range []string{r.path, r.dir.path} {
		if r.holdings[dir].identity {
			continue
		}
		if err := replaceFile(r.fs, filepath.Join(dir, identityName), []byte(r.identityText())); err != nil {
			return err
		}
		r.holdings[dir].identity = true
	}
	return nil
}
