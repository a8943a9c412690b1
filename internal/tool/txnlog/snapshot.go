package txnlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// ShowSnapshot prints the content of the newest snapshot: the znodes in the order of their paths, then the sessions.
// The error is that of w or of reading, or a storage.DamageError if the snapshot is incomplete or damaged.
func ShowSnapshot(w io.Writer, o Options) error {
	var newest uint64
	var in string
	for _, dir := range o.Dirs {
		indexes, err := storage.SnapshotIndexes(storage.OS{}, dir)
		if err != nil {
			return err
		}
		if n := len(indexes); n > 0 && indexes[n-1] > newest {
			newest, in = indexes[n-1], dir
		}
	}
	if in == "" {
		return errors.New("there is no snapshot; zooid log shows the transactions of the log")
	}
	t, m, err := loadSnapshot(in, newest, o.Reconfigure)
	if err != nil {
		return err
	}
	p := &printer{w: w, json: o.JSON, data: o.Data}
	p.snapshot(&m)
	p.znodes(t)
	t.Sessions().All(func(s tree.Session) bool {
		p.session(t, &s)
		return p.err == nil
	})
	runtime.KeepAlive(t)
	return p.err
}

func (p *printer) snapshot(m *storage.Meta) {
	p.note("snapshot at entry %d of term %d, zxid %#x, digest %#x, feature level %d, voters %v, learners %v",
		m.Index, m.Term, uint64(m.Zxid), m.Digest, m.FeatureLevel, m.ConfState.GetVoters(), m.ConfState.GetLearners())
}

// A znode is the printed form of a znode in a snapshot.
type znode struct {
	Path     string `json:"path"`
	Czxid    string `json:"czxid"`
	Mzxid    string `json:"mzxid"`
	Pzxid    string `json:"pzxid"`
	Ctime    string `json:"ctime"`
	Mtime    string `json:"mtime"`
	Version  int32  `json:"version"`
	Cversion int32  `json:"cversion"`
	Aversion int32  `json:"aversion"`
	Owner    string `json:"ephemeralOwner"` // as clients see it, also for containers and TTL znodes
	ACL      []acl  `json:"acl"`
	Children int32  `json:"children"`
	Bytes    int32  `json:"bytes"`
	Data     []byte `json:"data,omitempty"`
}

type acl struct {
	Perms  int32  `json:"perms"`
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
}

// asSuper is an identity that may read everything.
var asSuper = []jute.ID{{Scheme: "super"}}

// znodes prints all znodes, parents before their children.
func (p *printer) znodes(t *tree.Tree) {
	open := []string{"/"}
	for len(open) > 0 && p.err == nil {
		path := open[len(open)-1]
		open = open[:len(open)-1]
		p.znode(t, path)
		names := children(t, path)
		slices.Sort(names)
		for _, name := range slices.Backward(names) {
			open = append(open, strings.TrimSuffix(path, "/")+"/"+name)
		}
	}
}

func children(t *tree.Tree, path string) []string {
	scan := tree.Scan{Op: jute.OpGetChildren, Path: path, IDs: asSuper}
	for {
		done, code := t.Step(&scan)
		switch {
		case code != jute.OK:
			return nil
		case done:
			return jute.NewDecoder(scan.Body).Strings()
		}
	}
}

func (p *printer) znode(t *tree.Tree, path string) {
	s, ok := t.Stat(path)
	if !ok {
		return
	}
	z := znode{
		Path: path, Czxid: zxidText(s.Czxid), Mzxid: zxidText(s.Mzxid), Pzxid: zxidText(s.Pzxid), Ctime: timeText(s.Ctime),
		Mtime:   timeText(s.Mtime),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion, Owner: sessionText(s.EphemeralOwner),
		Children: s.NumChildren, Bytes: s.DataLength,
	}
	list, _ := t.ACL(path)
	for _, a := range list {
		z.ACL = append(z.ACL, acl{int32(a.Perms), a.ID.Scheme, a.ID.ID})
	}
	if p.data {
		if reply, code := t.AppendGetData(nil, path, asSuper); code == jute.OK {
			z.Data = jute.NewDecoder(reply).Buffer()
		}
	}
	if p.json {
		p.object(&z)
		return
	}
	line := fmt.Sprintf("%s  czxid %s  mzxid %s  pzxid %s  ctime %s  mtime %s  version %d  cversion %d  aversion %d  owner %s  children %d  bytes %d",
		strconv.Quote(path), z.Czxid, z.Mzxid, z.Pzxid, z.Ctime, z.Mtime, z.Version, z.Cversion, z.Aversion, z.Owner,
		z.Children, z.Bytes)
	if p.data {
		line += "  " + strconv.Quote(string(z.Data))
	}
	p.line(line)
}

func (p *printer) session(t *tree.Tree, s *tree.Session) {
	paths := t.Sessions().EphemeralPaths(s.ID, math.MaxInt)
	if p.json {
		p.object(struct {
			Session    string   `json:"session"`
			Timeout    int32    `json:"timeout"`
			Ephemerals []string `json:"ephemerals"`
		}{sessionText(s.ID), s.Timeout, paths})
		return
	}
	p.line(fmt.Sprintf("session %s  timeout %d ms  ephemerals %d", sessionText(s.ID), s.Timeout, len(paths)))
	for _, path := range paths {
		p.line("    " + strconv.Quote(path))
	}
}

func zxidText(zxid int64) string { return fmt.Sprintf("%#x", uint64(zxid)) }
