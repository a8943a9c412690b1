package shadow

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// doubtsMax bounds the number of paths in doubt.
const doubtsMax = 100_000

// A doubt says which parts of a znode may differ for a known reason.
type doubt struct {
	children bool   // its children and their number
	node     bool   // the znode itself, and all below it
	why      string // the first reason
}

// The parts of a znode that are in doubt.
const (
	doubtNode     = true
	doubtChildren = false
)

// doubts are the paths at which the shadow may differ for a known reason: writes that weren't played to it, and znodes
// that each side removes by its own clock.
type doubts struct {
	paths map[string]doubt
	full  bool // there are more than can be kept
}

// add notes a doubt about a znode or its children; a doubt about a znode is also one about its parent's children.
func (d *doubts) add(path string, node bool, why string) {
	d.one(path, node, why)
	if node && path != "/" {
		d.one(parentOf(path), doubtChildren, why)
	}
}

func (d *doubts) one(path string, node bool, why string) {
	was, there := d.paths[path]
	if !there {
		if len(d.paths) >= doubtsMax {
			d.full = true
			return
		}
		path, was.why = strings.Clone(path), why
	}
	if node {
		was.node = true
	} else {
		was.children = true
	}
	d.paths[path] = was
}

// write notes the doubts about a request that the primary may have carried out and the shadow hasn't.
func (d *doubts) write(op jute.Op, request []byte, why string) {
	for _, o := range changesOf(op, request) {
		switch path := validPath(o.Path); {
		case path == "":
		case o.Op.IsCreate() && o.Flags.Sequential():
			d.add(parentOf(path), doubtNode, why) // later sequence numbers
		default:
			d.add(path, doubtNode, why)
		}
	}
}

// why returns why a reply may differ at a path, "" if there is no known reason. wide says that the reply covers
// everything below the path.
func (d *doubts) why(path string, wide bool) string {
	if d.full {
		return "more paths are in doubt than can be kept"
	}
	if is, ok := d.paths[path]; ok {
		return is.why
	}
	for up := path; up != "/" && up != ""; {
		up = parentOf(up)
		if is := d.paths[up]; is.node {
			return is.why
		}
	}
	if wide {
		for below, is := range d.paths {
			if isBelow(below, path) {
				return is.why
			}
		}
	}
	return ""
}

// changesOf returns the changes that a request makes if it succeeds, with only the relevant fields.
func changesOf(op jute.Op, request []byte) []jute.MultiOp {
	d := jute.NewDecoder(request)
	switch {
	case op == jute.OpMulti:
		all, _ := jute.DecodeMulti(d)
		return all
	case op == jute.OpCreateTTL:
		var r jute.CreateTTLRequest
		r.Decode(d)
		return []jute.MultiOp{{Op: op, Path: r.Path, Flags: r.Flags, TTL: r.TTL}}
	case op.IsCreate():
		var r jute.CreateRequest
		r.Decode(d)
		return []jute.MultiOp{{Op: op, Path: r.Path, Flags: r.Flags}}
	case op.IsWrite() && op.HasPath():
		return []jute.MultiOp{{Op: op, Path: d.String()}}
	}
	return nil
}

// pathsOf returns the paths that a request is about.
func pathsOf(op jute.Op, request []byte) (paths []string) {
	d := jute.NewDecoder(request)
	switch {
	case op == jute.OpMulti || op == jute.OpMultiRead:
		all, _ := jute.DecodeMulti(d)
		for _, o := range all {
			paths = append(paths, o.Path)
		}
	case op.HasPath():
		paths = append(paths, d.String())
	case op == jute.OpSetWatches || op == jute.OpSetWatches2:
		var r jute.SetWatches
		r.Decode(d, op)
		for _, some := range [][]string{r.Data, r.Exist, r.Child, r.Persistent, r.PersistentTree} {
			paths = append(paths, some...)
		}
	}
	return paths
}

// validPath returns path if it is valid, "" otherwise.
func validPath(path string) string {
	if !strings.HasPrefix(path, "/") {
		return ""
	}
	return path
}

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// isBelow reports whether path begins with prefix, which needn't end at a slash: getEphemerals takes any prefix.
func isBelow(path, prefix string) bool { return strings.HasPrefix(path, prefix) }
