package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// A Report describes a log entry that caused a panic when it was applied. It is stored in the log's directory in two
// files: entry-N.report, a text for humans whose first lines identify the entry, and entry-N.raw, the entry's bytes.
//
//	zooid entry report
//	format 1
//	cluster 0123456789abcdef
//	entry 1234
//	term 5
//	sha256 64 hexadecimal digits
//
//	what happened
type Report struct {
	Cluster     uint64
	Index, Term uint64
	Hash        Hash   // of Data
	Data        []byte // the entry; nil in a Report from ParseReport
	Text        string
}

// A Hash is the SHA-256 of an entry's bytes.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// HashEntry returns the hash of an entry's bytes.
func HashEntry(data []byte) Hash { return sha256.Sum256(data) }

const (
	entryPrefix  = "entry-"
	reportSuffix = ".report"
	rawSuffix    = ".raw"
	reportHead   = "zooid entry report\nformat 1\n"

	// reportsMax bounds the reports in the log's directory: each takes the size of an entry, and more wouldn't be read.
	reportsMax = 16
	// reportSizeMax bounds a report's file. A stack, or a description of an entry with thousands of
	// requests, is cut to fit.
	reportSizeMax = 256 << 10
)

func (r *Report) append(b []byte) []byte {
	return fmt.Appendf(b, "%scluster %016x\nentry %d\nterm %d\nsha256 %v\n\n%s", reportHead, r.Cluster, r.Index, r.Term,
		r.Hash, r.Text)
}

// ParseReport parses the content of a report's file.
func ParseReport(b []byte) (Report, error) {
	var r Report
	if len(b) > reportSizeMax {
		return r, fmt.Errorf("read an entry's report: it has more than %d bytes", reportSizeMax)
	}
	rest, ok := bytes.CutPrefix(b, []byte(reportHead))
	head, text, whole := bytes.Cut(rest, []byte("\n\n"))
	var sum string
	if ok && whole {
		_, err := fmt.Sscanf(string(head), "cluster %x\nentry %d\nterm %d\nsha256 %64s", &r.Cluster, &r.Index, &r.Term, &sum)
		ok = err == nil && r.Hash.parse(sum)
	}
	r.Text = string(text)
	if !ok || !whole || !bytes.Equal(r.append(nil), b) {
		return Report{}, errors.New("read an entry's report: it does not begin as this version writes one")
	}
	return r, nil
}

func (h *Hash) parse(text string) bool {
	n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))]))
	return err == nil && n == len(h)
}

// KeepReport stores a report and its entry in the log's directory, and returns the report's path. If there is a report
// on the same entry from an earlier start, it stays unchanged, and kept is false.
func (d *Dir) KeepReport(r Report) (path string, kept bool, err error) {
	err = d.small(func() error {
		path, kept, err = d.keepReport(r)
		return err
	})
	return path, kept, err
}

func (d *Dir) keepReport(r Report) (path string, kept bool, err error) {
	r.Cluster, r.Hash = d.log.cluster, HashEntry(r.Data)
	path = filepath.Join(d.log.path, fmt.Sprintf("%s%d%s", entryPrefix, r.Index, reportSuffix))
	names, err := d.fs.ReadDir(d.log.path)
	if err != nil {
		return "", false, fmt.Errorf("list the reports in %s: %w", d.log.path, err)
	}
	others := 0
	for _, name := range names {
		if strings.HasPrefix(name, entryPrefix) && strings.HasSuffix(name, reportSuffix) &&
			filepath.Join(d.log.path, name) != path {
			others++
		}
	}
	b, err := readBounded(d.fs, path, reportSizeMax)
	if err == nil {
		if was, err := ParseReport(b); err == nil && was.Index == r.Index && was.Term == r.Term && was.Hash == r.Hash {
			return path, false, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	if others >= reportsMax {
		return "", false, fmt.Errorf("keep a report in %s: there are %d already; move them elsewhere", d.log.path, others)
	}
	raw := strings.TrimSuffix(path, reportSuffix) + rawSuffix
	if err := replaceFile(d.fs, raw, r.Data); err != nil {
		return "", false, fmt.Errorf("keep an entry next to its report: %w", err)
	}
	text := r.append(nil)
	if err := replaceFile(d.fs, path, text[:min(len(text), reportSizeMax)]); err != nil {
		return "", false, fmt.Errorf("keep an entry's report: %w", err)
	}
	return path, true, nil
}

// Reports returns the reports in a log's directory, by ascending index.
func Reports(fsys FS, logDir string) ([]Report, error) {
	var all []Report
	err := eachEntryFile(fsys, logDir, reportSuffix, reportSizeMax, func(path string, index uint64, b []byte) error {
		r, err := ParseReport(b)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if r.Index == index {
			all = append(all, r)
		}
		return nil
	})
	return all, err
}
