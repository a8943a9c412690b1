package apache

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A SeedOrder is the line that one server of a new ensemble sends to another: what to do, and for which try. With
// SeedRehearse and SeedPlant a snapshot file follows, so that both start with the same state.
type SeedOrder struct{ Do, Try string }

// What a SeedOrder asks for.
const (
	SeedRehearse = "rehearse" // make the data directory, and remove it
	SeedPlant    = "plant"    // make the data directory, on which no server may start yet
	SeedRelease  = "release"  // a server may start on it
	SeedDrop     = "drop"     // remove it, unless it is released
)

const seedMark = "zooid seed 2: "

// Send sends an order, and a snapshot file if it takes one.
func (o SeedOrder) Send(to io.Writer, snapshot string) error {
	_, err := io.WriteString(to, seedMark+o.Do+" "+o.Try+"\n")
	if err == nil && (o.Do == SeedRehearse || o.Do == SeedPlant) {
		var f *os.File
		if f, err = os.Open(snapshot); err == nil {
			_, err = io.Copy(to, f)
			f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("send a seed: %w", err)
	}
	return nil
}

// seedLineMax bounds the line of an order.
const seedLineMax = 256

// ReadSeedOrder reads an order.
func ReadSeedOrder(r *bufio.Reader) (o SeedOrder, err error) {
	var line []byte
	for !bytes.HasSuffix(line, []byte("\n")) && len(line) < seedLineMax && err == nil {
		var b byte
		if b, err = r.ReadByte(); err == nil {
			line = append(line, b)
		}
	}
	words, ok := strings.CutPrefix(strings.TrimSpace(string(line)), seedMark)
	if ok && err == nil {
		o.Do, o.Try, ok = strings.Cut(words, " ")
	}
	if !ok || err != nil || !slices.Contains([]string{SeedRehearse, SeedPlant, SeedRelease, SeedDrop}, o.Do) {
		return SeedOrder{}, fmt.Errorf("read a seed: the input doesn't come from this version of zooid migrate switch (%.40q, %v)",
			line, err)
	}
	return o, nil
}

// A Seeded describes the data directory made from a seed.
type Seeded struct {
	Digest uint64 // of the tree
	Znodes int
	Zxid   int64
}

// unfinishedSeed is a directory within the new one, where a seed is stored until the data directory is made from it.
const unfinishedSeed = "seed-unfinished"

// PlantSeed makes the data directory of server id from the snapshot of a seed. o says where, and which servers vote
// according to the server's own configuration. Unless stays is set, it leaves nothing behind.
func PlantSeed(r io.Reader, id uint64, o ImportOptions, stays bool) (*Seeded, error) {
	if err := o.Free(); err != nil {
		return nil, err
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
		return nil, fmt.Errorf("the seed is for the servers %d, but in this configuration server %d is one of %d: all servers need the same server lines",
			voters, id, own)
	}
	s := &Seeded{Digest: t.Digest(), Znodes: t.NodeCount(), Zxid: t.LastZxid()}
	return s, o.write(meta.ClusterID, t, ApacheDigest(t), stays)
}
