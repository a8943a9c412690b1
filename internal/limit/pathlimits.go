package limit

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// PathLimits holds the limits of a path and of its descendants without limits of their own.
type PathLimits struct {
	Path string
	Set  Set
	Used *Rates // kept when the limits change
}

// Exceeded returns the limit that an operation on one of its paths exceeds, or Kinds if none. It counts a create in
// created, by parent, which has the creates of the same request. children returns how many children a znode has; the
// root is "".
func (p *PathLimits) Exceeded(o *jute.MultiOp, tree *Sizes, created map[string]int64,
	children func(string) int64,
) Kind {
	creates := o.Op.IsCreate()
	if most := p.Set[Value]; most > 0 && (creates || o.Op == jute.OpSetData) && int64(len(o.Data)) > most {
		return Value
	}
	if !creates {
		return Kinds
	}
	if most := p.Set[Depth]; most > 0 && int64(strings.Count(o.Path, "/")) > most {
		return Depth
	}
	if most := p.Set[Children]; most > 0 && tree.Znodes.Load() > most-multiOpsSmall {
		parent := o.Path[:max(strings.LastIndexByte(o.Path, '/'), 0)]
		if children(parent)+created[parent] >= most {
			return Children
		}
		created[parent]++
	}
	return Kinds
}

// hasPath reports whether a request's record begins with a path, or holds operations whose records
// do.
func hasPath(code jute.Op) bool {
	return code.HasPath() || code == jute.OpMulti || code == jute.OpMultiRead
}

// Operations returns the operations of a request that limits concern, or none if it is malformed.
func Operations(code jute.Op, body []byte) []jute.MultiOp {
	var d jute.Decoder
	d.Reset(body)
	o := jute.MultiOp{Op: code}
	switch code {
	case jute.OpMulti, jute.OpMultiRead:
		ops, err := jute.DecodeMulti(&d)
		if err != nil {
			return nil
		}
		return ops
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var q jute.CreateRequest
		q.Decode(&d)
		o.Path, o.Data, o.Flags = q.Path, q.Data, q.Flags
	case jute.OpCreateTTL:
		var q jute.CreateTTLRequest
		q.Decode(&d)
		o.Path, o.Data, o.Flags = q.Path, q.Data, q.Flags
	case jute.OpSetData:
		o.Path, o.Data = d.String(), d.Buffer()
	default:
		o.Path = d.String()
	}
	if d.Err() != nil {
		return nil
	}
	return []jute.MultiOp{o}
}
