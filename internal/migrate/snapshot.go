package migrate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/restore"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// apacheMagic begins a snapshot file of Apache's that isn't compressed, as its admin server streams it.
const apacheMagic = "ZKSN"

// Znodes reads a snapshot file as tree.OpReplace takes it: one of Apache's, or one of the cluster whose server has its
// data in these directories. It moves the file. Znodes that take more bytes than most are refused.
func Znodes(file, dataDir, logDir string, most int) ([]byte, error) {
	head, err := firstBytes(file)
	if err != nil {
		return nil, err
	}
	var held *tree.Tree
	if string(head[:4]) == apacheMagic {
		held, err = Snapshot(file, false, restore.Options(0, nil, tree.FeatureLevelMax))
	} else {
		held, err = ownSnapshot(file, dataDir, logDir)
	}
	if err != nil {
		return nil, err
	}
	var znodes []byte
	held.Znodes(func(z *tree.Foreign) bool {
		znodes = tree.AppendZnode(znodes, z)
		return len(znodes) <= most
	})
	if len(znodes) > most {
		return nil, fmt.Errorf("its znodes take more than %d bytes, the most that an ensemble takes while it runs", most)
	}
	return znodes, nil
}

// firstBytes returns the first bytes of a file, enough to tell its kind.
func firstBytes(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 8)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, fmt.Errorf("it has fewer than %d bytes", len(head))
	}
	return head, nil
}

// ownSnapshot reads a snapshot file of Zooid's.
func ownSnapshot(file, dataDir, logDir string) (*tree.Tree, error) {
	cluster, err := storage.ReadIdentity(storage.OS{}, dataDir, logDir)
	if err != nil {
		return nil, fmt.Errorf("find out which cluster this is: %w", err)
	}
	// Where a data directory would have it.
	const index = 1
	dir := filepath.Dir(file)
	if err := os.Rename(file, filepath.Join(dir, fmt.Sprintf("%016x.snap", index))); err != nil {
		return nil, err
	}
	snap, err := storage.PeekSnapshot(storage.OS{}, dir)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	if snap.ClusterID != cluster {
		return nil, fmt.Errorf("it is of the cluster %016x, and this is %016x", snap.ClusterID, cluster)
	}
	return restore.Tree(snap.Meta, snap, restore.Options(cluster, nil, tree.FeatureLevelMax))
}
