package doctor

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// dirs returns the data directory and, if it is another one, the log's directory.
func (e *examination) dirs() []string {
	s := &e.cfg.Storage
	if s.DataDir == s.DataLogDir {
		return []string{s.DataDir}
	}
	return []string{s.DataDir, s.DataLogDir}
}

// present returns those of dirs that exist.
func (e *examination) present() []string {
	return slices.DeleteFunc(e.dirs(), func(dir string) bool {
		st, err := os.Stat(dir)
		return err != nil || !st.IsDir()
	})
}

// directories reports directories that can't be used, and those that others may access.
func (e *examination) directories() {
	for _, dir := range e.dirs() {
		st, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && e.cfg.Storage.CreateDir:
			continue // the server makes it
		case errors.Is(err, fs.ErrNotExist):
			e.fault("create it for the server's user: install -d -m 0700 -o zooid "+dir, "%s isn't there, and datadir.autocreate=false forbids making it. Is its disk mounted?",
				dir)
			continue
		case err != nil:
			e.fault("give the server's user search permission on every directory above it", "%s can't be examined: %v", dir, err)
			e.noAccess = e.noAccess || errors.Is(err, fs.ErrPermission)
			continue
		case !st.IsDir():
			e.fault("correct dataDir or dataLogDir", "%s isn't a directory", dir)
			continue
		}
		owner := -1
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			owner = int(sys.Uid)
		}
		if e.world.UID != 0 && owner >= 0 && owner != e.world.UID {
			e.denied(e.world.UID, "%s belongs to user %d, not to this one, %d", dir, owner, e.world.UID)
		} else if name := othersFile(dir, owner); name != "" {
			e.denied(owner, "%s belongs to another user than its directory, user %d, and only that user may open it", name, owner)
		}
		if mode := st.Mode().Perm(); mode&0o022 != 0 {
			e.fault("chmod 0700 "+dir, "%s: others may write to it (mode %04o), so they can replace the data and the ensemble's secret",
				dir, mode)
		} else if mode&0o007 != 0 {
			e.warn("chmod 0700 "+dir, "%s: everybody may look into it (mode %04o)", dir, mode)
		}
	}
}

func (e *examination) marked(name string) bool {
	_, err := os.Stat(filepath.Join(e.cfg.Storage.DataDir, name))
	return err == nil
}

// newestFile returns when a file of the directories was last changed.
func (e *examination) newestFile() (newest time.Time) {
	for _, dir := range e.present() {
		list, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range list {
			if i, err := f.Info(); err == nil && i.ModTime().After(newest) {
				newest = i.ModTime()
			}
		}
	}
	return newest
}

// Exposed reports whether others than a file's owner may read or change it. Group read permission on a file of root
// doesn't count: root has chosen the group for the server, as Kubernetes does for the files of a Secret.
func Exposed(st fs.FileInfo) bool {
	allowed := fs.FileMode(0o700)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid == 0 {
		allowed = 0o740
	}
	return st.Mode().Perm()&^allowed != 0
}

// A secretFile is a file that only the server may read.
type secretFile struct{ what, path string }

// secretLengthMin is the minimum length of the ensemble's secret.
const secretLengthMin = 20

// secrets reports secret files that others may read, or that hold no secret.
func (e *examination) secrets() {
	c := e.cfg
	files := []secretFile{
		{"the ensemble's secret (quorum.secretFile)", c.Quorum.SecretFile},
		{"the login file (java.security.auth.login.config)", c.Auth.LoginConfig},
		{"the key store (ssl.keyStore.location)", c.TLS.Keys.Location},
		{"the password of the key store (ssl.keyStore.passwordPath)", c.TLS.Keys.PasswordPath},
		{"the key store (ssl.quorum.keyStore.location)", c.Quorum.TLS.Keys.Location},
		{"the password of the key store (ssl.quorum.keyStore.passwordPath)", c.Quorum.TLS.Keys.PasswordPath},
	}
	for _, dir := range e.present() {
		if path := filepath.Join(dir, "PEERSECRET"); e.readable(path) {
			files = append(files, secretFile{"the ensemble's secret", path})
		}
	}
	if c.Quorum.Secret != "" || c.TLS.Keys.Password != "" || c.Quorum.TLS.Keys.Password != "" ||
		c.Auth.SuperDigest != "" || c.Auth.SASLSuperPassword != "" {
		files = append(files, secretFile{"the configuration, which holds passwords", e.file})
	}
	for _, f := range files {
		if f.path == "" {
			continue
		}
		st, err := os.Stat(f.path)
		if err != nil {
			e.fault("put it there, or correct the key", "%s can't be read: %v", f.what, err)
			continue
		}
		switch mode := st.Mode().Perm(); {
		case mode&0o007 != 0 || f.path == c.Quorum.SecretFile && Exposed(st):
			e.fault("chmod 600 "+f.path, "%s, %s: others may read it (mode %04o)", f.what, f.path, mode)
		case mode&0o070 != 0 && f.path != c.Quorum.SecretFile:
			e.warn("chmod 600 "+f.path+", if more than the server is in its group", "%s, %s: its group may read it (mode %04o)",
				f.what, f.path, mode)
		}
	}
	const do = "write a new one on all servers: head -c 32 /dev/urandom | base64"
	if n := len(c.Quorum.Secret.Reveal()); n > 0 && n < secretLengthMin {
		e.fault(do, "quorum.secret has %d characters; at least %d are needed", n, secretLengthMin)
	}
	if c.Quorum.SecretFile == "" {
		return
	}
	f, err := os.Open(c.Quorum.SecretFile)
	if err != nil {
		return
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if n++; len(line) < secretLengthMin {
			e.fault(do, "%s: a secret has %d characters; at least %d are needed", c.Quorum.SecretFile, len(line),
				secretLengthMin)
		}
	}
	if n == 0 {
		e.fault(do, "%s holds no secret", c.Quorum.SecretFile)
	}
}

func (e *examination) readable(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
