package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options say what to load.
type Options struct {
	// Dir is Apache's dataDir, LogDir its dataLogDir; LogDir is empty if they are the same. Either may also name the
	// folder version-2 within.
	Dir, LogDir string
	// Emulate353 reads TTLs as version 3.5.3 wrote them (emulate353TTLNodes).
	Emulate353 bool
	// Progress, if not nil, is called from time to time.
	Progress func(Progress)
}

// Progress says how far Load has come.
type Progress struct {
	File         string
	Read, Size   int64 // bytes of File
	Znodes       int   // read from a snapshot
	Transactions int   // replayed
}

// A Report says what Load has found in addition to the state.
type Report struct {
	Snapshot     string          // the file that was loaded
	SnapshotZxid int64           // in its name
	Damage       error           // of the compressed Snapshot, behind everything that counts; Apache may refuse the file
	Passed       []PassedOver    // newer snapshots that aren't complete
	Logs         int             // files read
	Transactions int             // that were replayed
	Torn         []Torn          // logs that end in the middle of a record
	Gaps         []Gap           // zxids that are in no log, nor in the snapshot
	LogsEnd      int64           // 0, or the zxid with which the logs end, if none reaches the snapshot
	Orphans      int             // ephemeral znodes of sessions that don't exist; they were deleted, as Apache does
	Compared     int             // Apache's digests that the tree was compared with
	Mismatch     *DigestMismatch // the first digest that differs, nil if none does
	Uncovered    int64           // 0, or the zxid up to which the snapshot has transactions that are in no log
	Epoch        int64           // the highest that the server had accepted
	Last         []byte          // the last transaction that was replayed, nil if none was
	BeforeLast   int64           // the zxid before it
}

// PassedOver is a snapshot that isn't complete.
type PassedOver struct {
	File string
	Why  error
}

// A Torn is a log that ends within a record, as after a crash.
type Torn struct {
	File   string
	Offset int64
}

// A Gap is a jump of zxids within an epoch, from the snapshot to the first log after it, or from one log to the next.
type Gap struct {
	After, Next int64
	File        string // the log that begins with Next
}

// A DigestMismatch says that the tree's digest differs from Apache's.
type DigestMismatch struct {
	Zxid         int64
	Apache, Tree uint64
	Where        string
}

// snapshotsTried is how many snapshots Apache tries.
const snapshotsTried = 100

// Load loads the state that an Apache server would load from a directory.
func Load(o Options) (*State, *Report, error) {
	l := loader{o: o, report: &Report{}}
	var err error
	if l.dir, err = version2(o.Dir); err != nil {
		return nil, nil, err
	}
	if l.logDir = l.dir; o.LogDir != "" {
		if l.logDir, err = version2(o.LogDir); err != nil {
			return nil, nil, err
		}
	}
	for _, step := range []func() error{l.epochs, l.snapshot, l.logs, l.finish} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	return l.state, l.report, nil
}

// Files returns the number of snapshots in Apache's dataDir, and the zxid in the name of the newest.
func Files(dir string) (count int, newest int64, err error) { return countFiles(dir, snapshotZxid) }

// LogFiles is Files for the logs of dataLogDir.
func LogFiles(dir string) (count int, newest int64, err error) { return countFiles(dir, logZxid) }

func countFiles(dir string, zxidIn func(string) (int64, bool)) (count int, newest int64, err error) {
	if dir, err = version2(dir); err != nil {
		return 0, 0, err
	}
	files, err := list(dir, zxidIn)
	if err != nil || len(files) == 0 {
		return 0, 0, err
	}
	return len(files), files[len(files)-1].zxid, nil
}

// ReadSnapshot reads a single snapshot, without the log. The result of a fuzzy snapshot is a state that never existed,
// and some of its znodes may have a nil ACL.
func ReadSnapshot(path string) (*State, error) {
	zxid, _ := snapshotZxid(filepath.Base(path))
	l := loader{report: &Report{}}
	f := numbered{path, zxid}
	if err := l.tryTail(f); err != nil {
		return nil, err
	}
	if err := l.try(f); err != nil {
		return nil, err
	}
	return l.state, nil
}

// Version2 is the directory with Apache's files in dataDir and dataLogDir.
const Version2 = "version-2"

// version2 returns the directory that holds Apache's files, given that directory or its parent.
func version2(dir string) (string, error) {
	for _, try := range []string{filepath.Join(dir, Version2), dir} {
		st, err := os.Stat(try)
		if err == nil && st.IsDir() && (try != dir || filepath.Base(dir) == Version2) {
			return try, nil
		}
	}
	return "", fmt.Errorf("read Apache's files in %s: it neither contains a directory %s nor is one. Give the dataDir from Apache's zoo.cfg (and the dataLogDir, if it is set there)",
		dir, Version2)
}

type loader struct {
	o           Options
	dir, logDir string
	report      *Report
	state       *State
	end         snapshotEnd // the end of the loaded snapshot

	logged   int64     // the highest zxid in a log
	replayed bool      // at least one transaction was replayed
	last     txnDigest // of the last transaction
	lastIn   string    // the log that contains it
}

// numbered is a file with a zxid in its name.
type numbered struct {
	path string
	zxid int64
}

// snapshotZxid and logZxid return the zxid in a file's name.
func snapshotZxid(name string) (zxid int64, ok bool) {
	name = strings.TrimSuffix(strings.TrimSuffix(name, suffixGzip), suffixSnappy)
	return hexBehind(name, "snapshot.")
}

func logZxid(name string) (zxid int64, ok bool) { return hexBehind(name, "log.") }

func hexBehind(name, prefix string) (zxid int64, ok bool) {
	hex, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	zxid, err := strconv.ParseInt(hex, 16, 64)
	return zxid, err == nil && zxid >= 0
}

// list returns the files of a kind, by zxid.
func list(dir string, zxidIn func(name string) (int64, bool)) (files []numbered, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list Apache's files: %w", err)
	}
	for _, e := range entries {
		if zxid, ok := zxidIn(e.Name()); ok && !e.IsDir() {
			files = append(files, numbered{filepath.Join(dir, e.Name()), zxid})
		}
	}
	slices.SortFunc(files, func(a, b numbered) int { return int(min(max(a.zxid-b.zxid, -1), 1)) })
	return files, nil
}

// snapshot loads the newest complete snapshot.
func (l *loader) snapshot() error {
	files, err := list(l.dir, snapshotZxid)
	if err != nil {
		return err
	}
	tried := 0
	for _, f := range slices.Backward(files) {
		if tried == snapshotsTried {
			break
		}
		err := l.tryTail(f)
		if err == nil {
			tried++
			if err = l.try(f); err == nil {
				return nil
			}
		}
		if broken := (*DamageError)(nil); !errors.As(err, &broken) {
			return err
		}
		l.report.Passed = append(l.report.Passed, PassedOver{f.path, err})
	}
	if len(l.report.Passed) > 0 {
		return fmt.Errorf("none of %d snapshots in %s is intact; the newest: %w", len(files), l.dir, l.report.Passed[0].Why)
	}
	return fmt.Errorf("read Apache's files in %s: there is no snapshot. Apache writes one when it starts: start the server once, stop it, and try again",
		l.dir)
}

// tryTail checks whether a snapshot seems to be complete, as Apache does before it reads one.
func (l *loader) tryTail(f numbered) error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("open a snapshot: %w", err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	at, want := int64(0), ""
	switch filepath.Ext(f.path) {
	case suffixGzip:
		want = "\x1f\x8b"
	case suffixSnappy:
		want = string(snappyHeader[:snappyMagicLen])
	default:
		at, want = st.Size()-5, "\x00\x00\x00\x01/"
		if st.Size() < 10 {
			return &DamageError{
				f.path, st.Size(), fmt.Sprintf("it has only %d bytes, as after a crash while it was being written", st.Size()),
				doOtherServer,
			}
		}
	}
	b := make([]byte, len(want))
	if _, err := file.ReadAt(b, at); err != nil && err != io.EOF {
		return fmt.Errorf("read %s at offset %d: %w", f.path, at, err)
	}
	if string(b) != want {
		return &DamageError{
			f.path, at, fmt.Sprintf("want %q there, found %q; a crash while it is being written leaves such a file", want, b),
			doOtherServer,
		}
	}
	return nil
}

// try reads a snapshot.
func (l *loader) try(f numbered) error {
	counted, err := l.open(f.path, "a snapshot")
	if err != nil {
		return err
	}
	defer counted.file.Close()
	suffix := filepath.Ext(f.path)
	content, err := decompressed(counted, suffix)
	var offset int64
	if err == nil {
		l.state, l.end, offset, err = readSnapshot(content, func(znodes int) { l.tell(counted, znodes) })
	}
	if err != nil && counted.err != nil && !errors.Is(counted.err, io.EOF) {
		return fmt.Errorf("read %s: %w", f.path, counted.err)
	}
	if err != nil {
		do := doOtherServer
		if errors.Is(err, errLastZxid) {
			do = DoRestartOld
		}
		return &DamageError{f.path, offset, err.Error(), do}
	}
	l.report.Snapshot, l.report.SnapshotZxid, l.report.Damage = f.path, f.zxid, l.end.damage
	l.state.Zxid = f.zxid
	return nil
}

// A countedFile counts the bytes read, and distinguishes I/O errors from errors in the content.
type countedFile struct {
	file *os.File
	size int64
	read int64
	err  error
}

// open opens a file to read, which is what in an error.
func (l *loader) open(path, what string) (*countedFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", what, err)
	}
	st, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &countedFile{file: file, size: st.Size()}, nil
}

// Read reads the file.
func (c *countedFile) Read(p []byte) (n int, err error) {
	n, err = c.file.Read(p)
	c.read += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}

func (l *loader) tell(c *countedFile, znodes int) {
	if l.o.Progress != nil {
		l.o.Progress(Progress{c.file.Name(), c.read, c.size, znodes, l.report.Transactions})
	}
}

// logs replays the logs, starting after the snapshot's zxid.
func (l *loader) logs() error {
	files, err := list(l.logDir, logZxid)
	if err != nil {
		return err
	}
	from := l.report.SnapshotZxid + 1
	first := 0
	for i, f := range files {
		if f.zxid < from {
			first = i // the last log that begins before the zxid may extend beyond it
		}
	}
	for i, f := range files[first:] {
		if err := l.log(f, first+i == len(files)-1); err != nil {
			return err
		}
	}
	return nil
}

// log replays one log.
func (l *loader) log(f numbered, newest bool) error {
	counted, err := l.open(f.path, "a log")
	if err != nil {
		return err
	}
	defer counted.file.Close()
	before := l.state.Zxid
	begun := false
	end, err := readLog(counted, func(record []byte) error {
		t, err := parseTxn(record)
		if err != nil {
			return err
		}
		l.logged = max(l.logged, t.zxid)
		if t.zxid <= l.report.SnapshotZxid && !l.replayed {
			return nil
		}
		if !begun && t.zxid>>32 == before>>32 && t.zxid > before+1 {
			l.report.Gaps = append(l.report.Gaps, Gap{before, t.zxid, f.path})
		}
		begun = true
		previous := l.state.Zxid
		if err := l.replay(&t, f.path); err != nil {
			return err
		}
		l.report.Last, l.report.BeforeLast = append(l.report.Last[:0], record...), previous
		if l.report.Transactions%progressStep == 0 {
			l.tell(counted, 0)
		}
		return nil
	})
	l.report.Logs++
	switch {
	case errors.Is(err, errEmptyLog) && newest:
		return nil // a crash came before its first byte was written
	case counted.err != nil && !errors.Is(counted.err, io.EOF):
		return fmt.Errorf("read %s: %w", f.path, counted.err)
	case err != nil:
		reason := err.Error()
		if errors.Is(err, errCut) {
			reason = "it is shorter than a log's header"
		}
		return &DamageError{f.path, end.offset, reason, doOtherServer}
	case end.torn:
		l.report.Torn = append(l.report.Torn, Torn{f.path, end.offset})
	}
	return nil
}

// replay replays a transaction.
func (l *loader) replay(t *txn, file string) error {
	digest, err := l.state.apply(t)
	if err != nil {
		return err
	}
	l.replayed = true
	l.report.Transactions++
	l.last, l.lastIn = digest, file
	if l.end.there && t.zxid > l.end.zxid {
		l.compare(digest, t.zxid, file)
	}
	return nil
}

// compare compares the tree with Apache's digest.
//
// A snapshot's digest is taken at the last transaction applied when the snapshot was finished. The next transaction may
// have been in progress, so that the snapshot has a part of it. So the tree is known not to be fuzzy only after that
// transaction is replayed too, or if there is none.
func (l *loader) compare(d txnDigest, zxid int64, where string) {
	if !d.there || d.version != DigestVersion {
		return
	}
	l.report.Compared++
	if d.digest != l.state.Digest() && l.report.Mismatch == nil {
		l.report.Mismatch = &DigestMismatch{zxid, d.digest, l.state.Digest(), where}
	}
}

// finish does what Apache does before it serves: it deletes the ephemeral znodes of sessions that don't exist.
func (l *loader) finish() error {
	s := l.state
	if l.logged < l.report.SnapshotZxid {
		l.report.LogsEnd = l.logged
	}
	switch {
	case !l.end.there && l.replayed: // it is unknown how far the snapshot is fuzzy; after the last transaction it isn't
		l.compare(l.last, s.Zxid, l.lastIn)
	case l.end.there && s.Zxid == l.end.zxid && s.Zxid > 0: // Apache writes 0 before the first transaction
		l.compare(txnDigest{l.end.version, l.end.digest, true}, s.Zxid, l.report.Snapshot)
	case l.end.there && s.Zxid < l.end.zxid:
		l.report.Uncovered = l.end.zxid
	}
	for owner := range s.owned { // any order: owners have different znodes, and set a parent's pzxid to the same value
		o := s.Owner(&Znode{Stat: Stat{Owner: owner}}, l.o.Emulate353)
		if _, ok := s.Sessions[o.Session]; !ok && o.Session != 0 {
			l.report.Orphans += s.deleteOwned(owner, s.Zxid)
		}
	}
	s.addOwn()
	err := s.Znodes(func(z *Znode) error {
		switch {
		case z.Path != "" && (z.parent == nil || z.parent.gone || s.nodes[z.parent.Path] != z.parent):
			return fmt.Errorf("the znode %q has no parent", z.Path)
		case z.ACL == nil:
			return fmt.Errorf("the znode %q refers to an ACL that the snapshot lacks", z.Path)
		}
		if z.Stat.Mzxid <= s.Zxid && !l.replayed {
			s.Time = max(s.Time, z.Stat.Mtime)
		}
		return nil
	})
	if err != nil {
		return &DamageError{l.report.Snapshot, 0, err.Error(), doOtherServer}
	}
	s.fixQuotas()
	return nil
}
