package storage

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Skip is an operator's decision not to apply the log entry with that hash. It is stored in the log's directory in a
// file entry-N.skip while the log exists: a server that applies the log again skips the entry again.
//
//	zooid skipped entry
//	format 1
//	cluster 0123456789abcdef
//	entry 1234
//	term 5
//	sha256 64 hexadecimal digits
//	agreed false
//	from 0
//	at 2006-01-02T15:04:05Z
//	by "who decided"
//	why "why"
//	check 64 hexadecimal digits, SHA-256 of all before this line
type Skip struct {
	Cluster     uint64
	Index, Term uint64
	Hash        Hash
	Agreed      bool      // every member has made this decision: the entry may be skipped
	From        uint64    // the server from which this was taken over; 0 if it was decided here
	At          time.Time // of the decision, to the second
	By, Why     string    // for the audit
}

const (
	skipSuffix = ".skip"
	skipHead   = "zooid skipped entry\nformat 1\n"

	// SkipsMax bounds the skipped entries of a log, because they are sent to all peers.
	SkipsMax = 16
	// SkipTextMax bounds Skip.By and Skip.Why, in bytes, and skipSizeMax the file.
	SkipTextMax = 1 << 10
	skipSizeMax = 16 << 10
)

func (s *Skip) append(b []byte) []byte {
	from := len(b)
	b = fmt.Appendf(b, "%scluster %016x\nentry %d\nterm %d\nsha256 %v\nagreed %t\nfrom %d\nat %s\nby %q\nwhy %q\n",
		skipHead, s.Cluster, s.Index, s.Term, s.Hash, s.Agreed, s.From, s.At.UTC().Format(time.RFC3339), s.By, s.Why)
	return fmt.Appendf(b, "check %x\n", sha256.Sum256(b[from:]))
}

// ParseSkip parses the content of a decision's file.
func ParseSkip(b []byte) (Skip, error) {
	var s Skip
	if len(b) > skipSizeMax {
		return s, fmt.Errorf("it has more than %d bytes", skipSizeMax)
	}
	rest, ok := bytes.CutPrefix(b, []byte(skipHead))
	if !ok {
		return s, fmt.Errorf("it doesn't begin with %q", skipHead)
	}
	lines := strings.Split(string(rest), "\n")
	fields := []struct {
		name string
		take func(string) bool
	}{
		{"cluster", func(v string) (ok bool) { s.Cluster, ok = number(v, 16); return ok }},
		{"entry", func(v string) (ok bool) { s.Index, ok = number(v, 10); return ok }},
		{"term", func(v string) (ok bool) { s.Term, ok = number(v, 10); return ok }},
		{"sha256", func(v string) bool { return s.Hash.parse(v) }},
		{"agreed", func(v string) bool { s.Agreed = v == "true"; return true }},
		{"from", func(v string) (ok bool) { s.From, ok = number(v, 10); return ok }},
		{"at", func(v string) bool { at, err := time.Parse(time.RFC3339, v); s.At = at; return err == nil }},
		{"by", func(v string) bool {
			by, err := strconv.Unquote(v)
			s.By = by
			return err == nil && len(by) <= SkipTextMax
		}},
		{"why", func(v string) bool {
			why, err := strconv.Unquote(v)
			s.Why = why
			return err == nil && len(why) <= SkipTextMax
		}},
	}
	for i, f := range fields {
		value, ok := "", i < len(lines)
		if ok {
			value, ok = strings.CutPrefix(lines[i], f.name+" ")
		}
		if !ok || !f.take(value) {
			return Skip{}, fmt.Errorf("line %d isn't a %s", i+3, f.name)
		}
	}
	if !bytes.Equal(s.append(nil), b) {
		return Skip{}, errors.New("it is cut short or was changed: its check doesn't fit")
	}
	return s, nil
}

func number(text string, base int) (uint64, bool) {
	n, err := strconv.ParseUint(text, base, 64)
	return n, err == nil
}

// SamePlace reports whether two decisions are about the same entry.
func (s *Skip) SamePlace(o *Skip) bool {
	return s.Index == o.Index && s.Term == o.Term && s.Hash == o.Hash
}

// Place returns the entry's index, term and hash in one word, as ParsePlace reads it.
func (s *Skip) Place() string { return fmt.Sprintf("%d:%d:%v", s.Index, s.Term, s.Hash) }

// ParsePlace sets the entry's index, term and hash.
func (s *Skip) ParsePlace(text string) (ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 || len(parts[2]) != 2*len(s.Hash) {
		return false
	}
	index, okIndex := number(parts[0], 10)
	term, okTerm := number(parts[1], 10)
	s.Index, s.Term = index, term
	return okIndex && okTerm && index > 0 && term > 0 && s.Hash.parse(parts[2])
}

// Skips returns the decisions in a log's directory, by ascending index. If cluster isn't 0, all of
// them must be of that cluster.
func Skips(fsys FS, logDir string, cluster uint64) ([]Skip, error) {
	var all []Skip
	err := eachEntryFile(fsys, logDir, skipSuffix, skipSizeMax, func(path string, index uint64, b []byte) error {
		s, err := ParseSkip(b)
		switch {
		case err != nil:
		case s.Index != index:
			err = fmt.Errorf("it is about entry %d", s.Index)
		case cluster != 0 && s.Cluster != cluster:
			err = fmt.Errorf("it is of cluster %016x, and this server of %016x", s.Cluster, cluster)
		case len(all) == SkipsMax:
			err = fmt.Errorf("there are more than %d", SkipsMax)
		}
		if err != nil {
			return fmt.Errorf("read the decision to skip an entry in %s: %w. Nothing was changed. If the file isn't one of this server's, move it elsewhere; else make it again with 'zooid skip-entry'",
				path, err)
		}
		all = append(all, s)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// WriteSkip durably stores a decision in a log's directory. It replaces one about another entry at the same index.
func WriteSkip(fsys FS, logDir string, s Skip) error {
	all, err := Skips(fsys, logDir, s.Cluster)
	if err != nil {
		return err
	}
	others := 0
	for i := range all {
		if all[i].Index != s.Index {
			others++
		}
	}
	path := skipPath(logDir, s.Index)
	switch {
	case others >= SkipsMax:
		return fmt.Errorf("keep a decision in %s: there are %d entries to skip already, the most there may be", logDir, others)
	case len(s.By) > SkipTextMax || len(s.Why) > SkipTextMax:
		return fmt.Errorf("keep a decision in %s: a name and a reason have at most %d bytes", logDir, SkipTextMax)
	}
	if err := replaceFile(fsys, path, s.append(nil)); err != nil {
		return fmt.Errorf("keep a decision: %w", err)
	}
	return nil
}

func skipPath(logDir string, index uint64) string {
	return filepath.Join(logDir, fmt.Sprintf("%s%d%s", entryPrefix, index, skipSuffix))
}

// Skips returns the decisions in this log's directory.
func (d *Dir) Skips() ([]Skip, error) { return Skips(d.fs, d.log.path, d.log.cluster) }

// KeepSkip is WriteSkip for this log.
func (d *Dir) KeepSkip(s Skip) error {
	s.Cluster = d.log.cluster
	return d.small(func() error { return WriteSkip(d.fs, d.log.path, s) })
}

// DropSkip removes the decision about the entry at index i.
func (d *Dir) DropSkip(i uint64) error {
	return d.small(func() error { return RemoveSkip(d.fs, d.log.path, i) })
}

// RemoveSkip removes the decision about the entry at index from a log's directory.
func RemoveSkip(fsys FS, logDir string, index uint64) error {
	path := skipPath(logDir, index)
	if err := removeFile(fsys, path); err != nil {
		return fmt.Errorf("remove the decision in %s: %w", path, err)
	}
	return nil
}

// SkipPath returns the path of the decision about the entry at index.
func (d *Dir) SkipPath(index uint64) string { return skipPath(d.log.path, index) }
