package server

import (
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// keepClients writes wordclient.ClientsFile if what it says has changed. A server that can't write it goes on without.
func (s *Server) keepClients(before string) string {
	plain, secure := s.allClientAddresses()
	standing := fourletter.Standing{Clients: plain, SecureClients: secure, Foreign: s.foreign()}
	now := standing.KeptLines()
	if now == before || len(s.opt.Members) < 2 {
		return before
	}
	path := filepath.Join(s.opt.DataDir, wordclient.ClientsFile)
	err := os.WriteFile(path+".new", []byte(now), 0o644) // read by tools of other users, if the directory lets them
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		s.log.Info("where the servers take clients can't be kept in a file; zooid status learns it by mntr, if that is permitted",
			"file", path, "err", err)
	}
	return now
}

// dropClients removes the file.
func (s *Server) dropClients() { _ = os.Remove(filepath.Join(s.opt.DataDir, wordclient.ClientsFile)) }
