package apache

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

// apacheMagic begins an uncompressed Apache snapshot file, as Apache's admin server streams it.
const apacheMagic = "ZKSN"

// plainBytesMax bounds a snapshot that gzip has compressed: it may have come over the network.
const plainBytesMax = 1 << 30

// Znodes returns the znodes of a snapshot file in the form that tree.OpRestore takes. The file is Apache's, or of the
// cluster of dataDir and logDir, and gzip may have compressed it. Znodes may rename the file and make files next to it.
// The result is limited to most bytes.
func Znodes(file, dataDir, logDir string, most int) ([]byte, error) {
	head, err := firstBytes(file)
	if err == nil && bytes.HasPrefix(head, []byte(gzipMagic)) {
		if file, err = plainFile(file, plainBytesMax); err == nil {
			head, err = firstBytes(file)
		}
	}
	if err != nil {
		return nil, err
	}
	var held *tree.Tree
	if string(head[:4]) == apacheMagic {
		held, err = Snapshot(file, false, treeload.Options(0, nil, tree.FeatureLevelMax))
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
		return nil, fmt.Errorf("its znodes take more than %d bytes, the limit for importing into a running ensemble", most)
	}
	return znodes, nil
}

// plainFile decompresses a gzip file into one next to it.
func plainFile(file string, most int64) (string, error) {
	plain := file + ".plain"
	err := writeTo(plain, func(to io.Writer) error { return decompress(to, file, most) })
	return plain, err
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
		return nil, fmt.Errorf("it is shorter than %d bytes", len(head))
	}
	return head, nil
}

// ownSnapshot reads a Zooid snapshot file.
func ownSnapshot(file, dataDir, logDir string) (*tree.Tree, error) {
	cluster, err := storage.ReadIdentity(storage.OS{}, dataDir, logDir)
	if err != nil {
		return nil, fmt.Errorf("find out which cluster this is: %w", err)
	}
	// The path that the file would have in a data directory.
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
		return nil, fmt.Errorf("it belongs to the cluster %016x, but this is the cluster %016x", snap.ClusterID, cluster)
	}
	return treeload.Tree(snap.Meta, snap, treeload.Options(cluster, nil, tree.FeatureLevelMax))
}
