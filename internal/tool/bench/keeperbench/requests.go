package keeperbench

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zooid-project/zooid/jute"
)

// requestOps are the requests by name. Files may add a suffix to distinguish several of one kind.
var requestOps = []struct {
	name string
	op   jute.Op
}{
	{"create", jute.OpCreate}, {"set", jute.OpSetData}, {"get", jute.OpGetData}, {"list", jute.OpGetChildren},
	{"multi", jute.OpMulti},
}

// requestOp returns the operation for a key of requests.
func requestOp(key string) (jute.Op, bool) {
	for _, r := range requestOps {
		if strings.HasPrefix(key, r.name) {
			return r.op, true
		}
	}
	return 0, false
}

// mixture parses requests. In a multi, it skips the other keys, which the caller parses.
func (p *parser) mixture(pairs []pair, inMulti bool) mixture {
	var m mixture
	total := 0
	for _, q := range pairs {
		op, ok := requestOp(q.key)
		switch {
		case !ok && inMulti:
			continue
		case !ok:
			p.unknown(q, "create", "set", "get", "list", "multi")
			continue
		case op == jute.OpMulti && inMulti:
			p.fail(q.value, q.at, "a multi can't contain another")
			continue
		}
		r := p.request(q, op)
		total += r.weight
		m = append(m, r)
	}
	if len(m) > 0 && total == 0 && p.err == nil {
		p.fail(pairs[0].value, pairs[0].at, "all weights are 0")
	}
	return m
}

func (p *parser) request(q pair, op jute.Op) *drawnRequest {
	r := &drawnRequest{op: op, where: q.at, weight: 1, name: Text{length: &span{nameLengthDefault, nameLengthDefault}}}
	pairs := p.pairs(q.value, q.at)
	for _, k := range pairs {
		switch {
		case k.key == "weight":
			r.weight = p.integer(k.value, k.at, weightMax)
		case k.key == "repeat":
			p.ignore(k) // published files have it; keeper-bench never reads it
		case op == jute.OpMulti:
			p.multiKey(k, r)
		case strings.HasPrefix(k.key, "path"):
			p.paths(k, &r.paths)
		case k.key == "data" && (op == jute.OpCreate || op == jute.OpSetData):
			data := p.drawnText(k)
			r.data = &data
		case k.key == "name_length" && op == jute.OpCreate:
			length := p.span(k, lengthMax)
			r.name.length = &length
		case k.key == "remove_factor" && op == jute.OpCreate:
			r.removeFactor = p.float(k.value, k.at, 1)
		default:
			p.unknown(k, requestKeys(op)...)
		}
	}
	if op == jute.OpMulti {
		r.inner = p.mixture(pairs, true)
	}
	p.complete(q, r)
	return r
}

func requestKeys(op jute.Op) []string {
	switch op {
	case jute.OpCreate:
		return []string{"weight", "path", "name_length", "data", "remove_factor"}
	case jute.OpSetData:
		return []string{"weight", "path", "data"}
	case jute.OpMulti:
		return []string{"weight", "size", "create", "set", "get", "list"}
	}
	return []string{"weight", "path"}
}

// multiKey parses a key of a multi that isn't one of its requests.
func (p *parser) multiKey(k pair, r *drawnRequest) {
	if k.key == "size" {
		size := p.span(k, multiMax)
		r.size = &size
	} else if _, ok := requestOp(k.key); !ok {
		p.unknown(k, requestKeys(jute.OpMulti)...)
	}
}

// complete reports an error if a request lacks a required key.
func (p *parser) complete(q pair, r *drawnRequest) {
	switch r.op {
	case jute.OpMulti:
		if len(r.inner) == 0 {
			p.fail(q.value, q.at, "has no requests in it")
		}
		for _, o := range r.inner {
			one, first := jute.MultiOp{Op: o.op}, jute.MultiOp{Op: r.inner[0].op}
			if one.IsRead() != first.IsRead() {
				p.fail(q.value, q.at, "%v", errMixedMulti)
			}
		}
		return
	case jute.OpSetData:
		if r.data == nil {
			p.fail(q.value, q.at, "needs data")
		}
	}
	if len(r.paths.fixed)+len(r.paths.childrenOf) == 0 {
		p.fail(q.value, q.at, "needs a path")
	}
}

// paths parses a path, a list of them, or children_of.
func (p *parser) paths(q pair, c *pathChoice) {
	n := resolve(q.value)
	switch n.Kind {
	case yaml.SequenceNode:
		for i, e := range n.Content {
			p.paths(pair{q.key, fmt.Sprintf("%s[%d]", q.at, i), e}, c)
		}
	case yaml.MappingNode:
		for _, k := range p.pairs(n, q.at) {
			if k.key != "children_of" {
				p.unknown(k, "children_of")
				continue
			}
			c.childrenOf = append(c.childrenOf, p.path(k.value, k.at))
		}
	default:
		c.fixed = append(c.fixed, p.path(n, q.at))
	}
}

func (p *parser) path(n *yaml.Node, at string) string {
	s := p.text(n, at)
	if err := jute.CheckPath(s); err != nil && p.err == nil {
		p.fail(n, at, "%v", err)
	}
	return s
}
