package server

import (
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// A clientsFile is wordclient.ClientsFile, where tools find the addresses for clients of all servers.
type clientsFile struct {
	*engine
	ports *clientPorts
	kept  string // what the file says
}

// keep writes wordclient.ClientsFile if what it says has changed. A server that can't write it goes on without.
func (f *clientsFile) keep() {
	plain, secure := f.ports.ensembleAddresses()
	standing := fourletter.Standing{Clients: plain, SecureClients: secure, Foreign: foreign(f.peer)}
	now := standing.KeptLines()
	if now == f.kept || len(f.opt.Members) < 2 {
		return
	}
	f.kept = now
	path := filepath.Join(f.opt.DataDir, wordclient.ClientsFile)
	err := os.WriteFile(path+".new", []byte(now), 0o644) // read by tools of other users, if the directory lets them
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		f.log.Info("where the servers take clients can't be kept in a file; zooid status learns it by mntr, if that is permitted",
			"file", path, "err", err)
	}
}

// remove removes the file.
func (f *clientsFile) remove() { _ = os.Remove(filepath.Join(f.opt.DataDir, wordclient.ClientsFile)) }
