package migrate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// A seed is what one server of a new ensemble sends to another, so that they start with the same state: a line that
// says whether it is kept or only rehearsed, and a snapshot file.
const (
	seedStays     = "zooid seed 1: stays\n"
	seedRehearsal = "zooid seed 1: rehearsal\n"
)

// SendSeed sends a snapshot file as a seed.
func SendSeed(to io.Writer, snapshot string, stay bool) error {
	f, err := os.Open(snapshot)
	if err != nil {
		return fmt.Errorf("send a seed: %w", err)
	}
	defer f.Close()
	head := seedRehearsal
	if stay {
		head = seedStays
	}
	if _, err = io.WriteString(to, head); err == nil {
		_, err = io.Copy(to, f)
	}
	if err != nil {
		return fmt.Errorf("send a seed: %w", err)
	}
	return nil
}

// A Seeded describes the data directory made from a seed.
type Seeded struct {
	Digest uint64 // of the tree
	Znodes int
	Zxid   int64
	Stays  bool // false for a rehearsal, which leaves nothing behind
}

// unfinishedSeed is a directory within the new one, where a seed is stored until the data directory is made from it.
const unfinishedSeed = "seed-unfinished"

// PlantSeed makes the data directory of server id from a seed. o says where, and which servers vote according to the
// server's own configuration.
func PlantSeed(from io.Reader, id uint64, o ImportOptions) (*Seeded, error) {
	if err := o.Free(); err != nil {
		return nil, err
	}
	r := bufio.NewReader(from)
	head, err := r.ReadString('\n')
	if head != seedStays && head != seedRehearsal {
		return nil, fmt.Errorf("read a seed: what comes is none of this version of zooid migrate switch (%.40q, %v)", head,
			err)
	}
	unfinished := filepath.Join(o.Dir, unfinishedSeed)
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o700)); err != nil {
		return nil, fmt.Errorf("keep a seed: %w", err)
	}
	defer os.RemoveAll(unfinished) // leftovers there are useless
	file := filepath.Join(unfinished, "snapshot")
	if err := writeTo(file, func(to io.Writer) error { _, err := io.Copy(to, r); return err }); err != nil {
		return nil, fmt.Errorf("keep a seed: %w", err)
	}
	t, meta, err := ownTree(file)
	if err != nil {
		return nil, fmt.Errorf("read a seed: %w", err)
	}
	voters, own := slices.Sorted(slices.Values(meta.ConfState.GetVoters())), slices.Sorted(slices.Values(o.Voters))
	if !slices.Equal(voters, own) || !slices.Contains(voters, id) {
		return nil, fmt.Errorf("the seed is for the servers %d, and in the configuration here server %d is one of %d: all need the same server lines",
			voters, id, own)
	}
	s := &Seeded{Digest: t.Digest(), Znodes: t.NodeCount(), Zxid: t.LastZxid(), Stays: head == seedStays}
	return s, o.write(meta.ClusterID, t, ApacheDigest(t), s.Stays)
}
