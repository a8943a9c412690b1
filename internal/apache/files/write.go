package files

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/zooid-project/zooid/jute"
)

// A Content is what Write writes: a whole tree and its sessions, at one zxid.
type Content struct {
	Zxid     int64
	Epoch    int64 // that the servers will have accepted; at least the epoch of Zxid
	Sessions []Session
	// Znodes calls visit for each znode, parents before their children. The root's path is "/". Znodes is called twice,
	// and must yield the same znodes both times.
	Znodes func(visit func(path string, data []byte, acl []jute.ACL, stat *Stat) error) error
	// NoDigest leaves out the digest, for servers with digest.enabled=false, which don't expect one.
	NoDigest bool
}

// A Session is a session in a snapshot.
type Session struct {
	ID      int64
	Timeout int32 // milliseconds
}

// The files show all data and the hashes of passwords, whatever the ACLs say. So only the user that writes the files
// may read them, whatever the umask.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// CreateFile creates a file of a data directory, or empties it. Nobody but its user can read it.
func CreateFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, fileMode)
}

// MakeDir makes dataDir's folder version-2, and dataDir if necessary. It closes an existing folder to everybody except
// its user and group: earlier versions let everybody read it.
func MakeDir(dataDir string) error {
	dir := filepath.Join(dataDir, Version2)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm()&0o007 == 0 {
		return err
	}
	return os.Chmod(dir, st.Mode().Perm()&^0o007)
}

// Write creates the directory version-2 in dir, where it must not exist yet, with a snapshot and the epochs. It
// returns Apache's digest of the tree. version-2 appears only when it is complete.
func Write(dir string, c *Content) (digest uint64, err error) {
	if c.Zxid < 0 || c.Zxid>>32 > c.Epoch || c.Epoch > EpochMax {
		return 0, fmt.Errorf("write Apache's files in %s: zxid %#x isn't in epoch %d", dir, uint64(c.Zxid),
			c.Epoch)
	}
	final := filepath.Join(dir, Version2)
	if _, err := os.Lstat(final); err == nil {
		return 0, fmt.Errorf("write Apache's files: %s already exists; give a new directory, or an empty one", final)
	}
	unfinished := final + ".unfinished"
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, dirMode)); err != nil {
		return 0, fmt.Errorf("write Apache's files: %w", err)
	}
	defer os.RemoveAll(unfinished) // finds nothing once it has been renamed
	if digest, err = writeSnapshot(filepath.Join(unfinished, fmt.Sprintf("snapshot.%x", c.Zxid)), c); err != nil {
		return 0, err
	}
	for _, name := range []string{acceptedEpoch, currentEpoch} {
		err := writeFile(filepath.Join(unfinished, name), func(w io.Writer) error {
			_, err := io.WriteString(w, strconv.FormatInt(c.Epoch, 10))
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	err = errors.Join(syncDir(unfinished), os.Rename(unfinished, final), syncDir(dir))
	if err != nil {
		return 0, fmt.Errorf("write Apache's files: %w", err)
	}
	return digest, nil
}

// writeFile writes a file and makes it durable.
func writeFile(path string, content func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("write Apache's files: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(content(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// snapshotWriter writes one snapshot.
type snapshotWriter struct {
	w      io.Writer
	sum    hash.Hash32
	buf    []byte
	acls   map[string]int64 // ids by encoding
	lists  []string         // encodings by id, from 1 on
	digest uint64
	root   bool
}

func writeSnapshot(path string, c *Content) (digest uint64, err error) {
	s := &snapshotWriter{sum: adler32.New(), acls: map[string]int64{}}
	err = writeFile(path, func(w io.Writer) error {
		s.w = w
		return s.write(c)
	})
	return s.digest, err
}

func (s *snapshotWriter) write(c *Content) error {
	err := c.Znodes(func(_ string, _ []byte, acl []jute.ACL, _ *Stat) error {
		s.aclID(acl)
		return nil
	})
	if err != nil {
		return err
	}
	s.buf = binary.BigEndian.AppendUint32(nil, snapshotMagic)
	s.buf = jute.AppendLong(jute.AppendInt(s.buf, 2), -1)
	s.buf = jute.AppendInt(s.buf, int32(len(c.Sessions)))
	for _, session := range c.Sessions {
		s.buf = jute.AppendInt(jute.AppendLong(s.buf, session.ID), session.Timeout)
	}
	s.buf = jute.AppendInt(s.buf, int32(len(s.lists)))
	for i, list := range s.lists {
		s.buf = append(jute.AppendLong(s.buf, int64(i+1)), list...)
	}
	if err := s.flush(); err != nil {
		return err
	}
	if err := c.Znodes(s.znode); err != nil {
		return err
	}
	if !s.root {
		return errors.New("there is no root znode")
	}
	s.buf = jute.AppendString(s.buf, "/")
	if err := s.seal(); err != nil || c.NoDigest {
		return err
	}
	s.buf = jute.AppendInt(jute.AppendLong(s.buf, c.Zxid), DigestVersion)
	s.buf = binary.BigEndian.AppendUint64(s.buf, s.digest)
	return s.seal()
}

// aclID returns the id of an ACL.
func (s *snapshotWriter) aclID(acl []jute.ACL) int64 {
	encoded := string(jute.AppendACLs(nil, acl))
	id, ok := s.acls[encoded]
	if !ok {
		s.lists = append(s.lists, encoded)
		id = int64(len(s.lists))
		s.acls[encoded] = id
	}
	return id
}

func (s *snapshotWriter) znode(path string, data []byte, acl []jute.ACL, stat *Stat) error {
	s.digest += NodeDigest(path, data, stat)
	if path == "/" {
		path, s.root = "", true
	}
	s.buf = jute.AppendBuffer(jute.AppendString(s.buf, path), data)
	s.buf = stat.append(jute.AppendLong(s.buf, s.aclID(acl)))
	if len(s.buf) < 64<<10 {
		return nil
	}
	return s.flush()
}

func (s *snapshotWriter) flush() error {
	s.sum.Write(s.buf)
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

func (s *snapshotWriter) seal() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.buf = jute.AppendString(jute.AppendLong(s.buf, int64(s.sum.Sum32())), "/")
	return s.flush()
}
