package kerberos

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/service"
)

// A keyFile is a server's keytab. It is read again when the file has been replaced or modified, since kadmin's ktadd
// makes old keys useless at once.
type keyFile struct {
	path  string
	owner Principal

	mu       sync.Mutex
	read     os.FileInfo // the file that was last read, or failed to be read
	settings *service.Settings
	err      error // why the last file can't be used; settings are from an earlier one
}

// current returns the settings for the keys in the file. If the file can't be used, it returns the error along with
// the settings read before, nil if there are none.
func (f *keyFile) current() (*service.Settings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		f.read = nil
		return f.settings, fmt.Errorf("read the keytab: %w", err)
	}
	if f.read != nil && os.SameFile(info, f.read) && info.ModTime().Equal(f.read.ModTime()) &&
		info.Size() == f.read.Size() {
		return f.settings, f.err
	}
	f.read = info
	settings, err := f.load()
	if f.err = err; err == nil {
		f.settings = settings
	}
	return f.settings, err
}

// load reads the file. The library doesn't promise that it never panics on a file that is being written.
func (f *keyFile) load() (s *service.Settings, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read the keytab %s: %v", f.path, p)
		}
	}()
	keys, err := keytab.Load(f.path)
	if err != nil {
		return nil, fmt.Errorf("read the keytab %s: %w", f.path, err)
	}
	name := strings.Join(f.owner.Names, "/")
	for _, e := range keys.Entries {
		if e.Principal.Realm == f.owner.Realm && strings.Join(e.Principal.Components, "/") == name {
			return service.NewSettings(keys, service.KeytabPrincipal(name), service.DecodePAC(false)), nil
		}
	}
	return nil, fmt.Errorf("the keytab %s has no key of %s; add one by kadmin's ktadd", f.path, f.owner)
}
