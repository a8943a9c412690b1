package keeperbench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser parses a keeper-bench file. It uses YAML nodes and not structs, since these files repeat keys in one mapping
// (several node, path, connection...), which YAML forbids and keeper-bench treats as a list. After the first error, err
// is set and all further results are ignored.
type parser struct {
	w    *File
	keys int // seen so far
	err  error
}

// The defaults of keeper-bench.
const (
	timeoutDefault    = 30 * time.Second // session_timeout_ms
	nameLengthDefault = 5                // name_length
)

// depthMax bounds the nesting of a file, since an alias may contain itself.
const depthMax = 50

// keysMax bounds the keys of a file after expansion of its aliases: a few lines of aliases to aliases can stand for
// billions.
const keysMax = 100_000

// Parse parses the text of a keeper-bench file.
func Parse(b []byte) (*File, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	p := &parser{w: &File{Concurrency: 1}}
	if len(doc.Content) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	p.file(doc.Content[0])
	if p.err == nil && len(p.w.requests) == 0 {
		p.err = fmt.Errorf("generator.requests: there is none, so there is nothing to ask")
	}
	return p.w, p.err
}

// pair is one key of a mapping with its value.
type pair struct {
	key   string
	at    string // the whole path to it
	value *yaml.Node
}

// pairs returns the keys of a mapping in order, including repeated ones.
func (p *parser) pairs(n *yaml.Node, at string) []pair {
	n = resolve(n)
	if p.err != nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		p.fail(n, at, "must be a group of keys")
		return nil
	}
	if strings.Count(at, ".") > depthMax {
		p.fail(n, at[:40]+"...", "is nested more than %d deep", depthMax)
		return nil
	}
	if p.keys += len(n.Content) / 2; p.keys > keysMax {
		p.fail(n, at, "the file has more than %d keys, aliases counted as often as used", keysMax)
		return nil
	}
	var out []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		out = append(out, pair{key, strings.TrimPrefix(at+"."+key, "."), n.Content[i+1]})
	}
	return out
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (p *parser) fail(n *yaml.Node, at, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("line %d: %s: %s", n.Line, at, fmt.Sprintf(format, args...))
	}
}

// unknown reports an unknown key, with the possible ones.
func (p *parser) unknown(q pair, known ...string) {
	p.fail(q.value, q.at, "unknown key; known here: %s", strings.Join(known, ", "))
}

// ignore records a key of keeper-bench that has no effect here.
func (p *parser) ignore(q pair) {
	if !slices.Contains(p.w.Ignored, q.at) {
		p.w.Ignored = append(p.w.Ignored, q.at)
	}
}

func (p *parser) text(n *yaml.Node, at string) string {
	if n = resolve(n); n.Kind != yaml.ScalarNode {
		p.fail(n, at, "must be a text")
		return ""
	}
	return n.Value
}

func (p *parser) integer(n *yaml.Node, at string, most int) int {
	v, err := strconv.Atoi(p.text(n, at))
	if err != nil || v < 0 || v > most {
		p.fail(n, at, "must be a whole number from 0 to %d", most)
	}
	return v
}

func (p *parser) float(n *yaml.Node, at string, most float64) float64 {
	v, err := strconv.ParseFloat(p.text(n, at), 64)
	if err != nil || !(v >= 0 && v <= most) {
		p.fail(n, at, "must be a number from 0 to %g", most)
	}
	return v
}

func (p *parser) boolean(n *yaml.Node, at string) bool {
	switch p.text(n, at) {
	case "true", "yes", "1":
		return true
	case "false", "no", "0":
		return false
	}
	p.fail(n, at, "must be true or false")
	return false
}

// Bounds that prevent a typing error from exhausting the machine.
const (
	concurrencyMax = 1 << 16
	repeatMax      = 100_000_000
	weightMax      = 1_000_000_000
	lengthMax      = 16 << 20
	multiMax       = 100_000
	secondsMax     = 10_000_000
)

func (p *parser) file(n *yaml.Node) {
	for _, q := range p.pairs(n, "") {
		switch q.key {
		case "concurrency":
			if p.w.Concurrency = p.integer(q.value, q.at, concurrencyMax); p.w.Concurrency == 0 {
				p.fail(q.value, q.at, "must be 1 or more")
			}
		case "iterations":
			p.w.Iterations = int64(p.integer(q.value, q.at, math.MaxInt))
		case "timelimit":
			p.w.Limit = time.Duration(p.float(q.value, q.at, secondsMax) * float64(time.Second))
		case "continue_on_error", "continue_on_errors":
			p.w.Tolerant = p.boolean(q.value, q.at)
		case "connections":
			p.connections(q)
		case "setup":
			p.setup(q)
		case "generator":
			p.generator(q)
		case "delay", "report_delay", "output":
			p.ignore(q)
		default:
			p.unknown(q, "concurrency", "iterations", "timelimit", "continue_on_error", "connections", "setup", "generator",
				"report_delay", "output")
		}
	}
}

// connections parses the hosts. Settings next to them, before or after, are defaults for all hosts.
func (p *parser) connections(q pair) {
	defaults := Host{Sessions: 1, Timeout: timeoutDefault}
	pairs := p.pairs(q.value, q.at)
	for _, c := range pairs {
		if c.key != "host" && c.key != "connection" {
			p.connectionKey(c, &defaults)
		}
	}
	for _, c := range pairs {
		h := defaults
		switch c.key {
		case "host":
			h.Addr = p.text(c.value, c.at)
		case "connection":
			for _, k := range p.pairs(c.value, c.at) {
				switch k.key {
				case "host":
					h.Addr = p.text(k.value, k.at)
				case "sessions":
					h.Sessions = p.integer(k.value, k.at, 1<<20)
				default:
					p.connectionKey(k, &h)
				}
			}
			if h.Addr == "" {
				p.fail(c.value, c.at, "has no host")
			}
		default:
			continue
		}
		p.w.Hosts = append(p.w.Hosts, h)
	}
}

func (p *parser) connectionKey(q pair, h *Host) {
	switch q.key {
	case "session_timeout_ms":
		h.Timeout = time.Duration(p.integer(q.value, q.at, 1<<31-1)) * time.Millisecond
	case "operation_timeout_ms", "connection_timeout_ms":
		p.ignore(q)
	case "secure":
		if p.boolean(q.value, q.at) {
			p.fail(q.value, q.at, "asks for TLS, whose cost would be the generator's too: name a plain client port")
		}
	case "use_compression":
		if p.boolean(q.value, q.at) {
			p.fail(q.value, q.at, "asks for ClickHouse's own compression, which isn't part of ZooKeeper's protocol")
		}
	default:
		p.unknown(q, "host", "connection", "sessions", "session_timeout_ms", "operation_timeout_ms", "connection_timeout_ms",
			"secure", "use_compression")
	}
}

func (p *parser) generator(q pair) {
	for _, g := range p.pairs(q.value, q.at) {
		switch g.key {
		case "setup":
			p.setup(g)
		case "requests":
			p.w.requests = append(p.w.requests, p.mixture(p.pairs(g.value, g.at), false)...)
		default:
			p.unknown(g, "setup", "requests")
		}
	}
}

func (p *parser) setup(q pair) {
	for _, s := range p.pairs(q.value, q.at) {
		if !strings.HasPrefix(s.key, "node") {
			p.unknown(s, "node")
			continue
		}
		n := p.node(s)
		if n.Name.fixed == "zookeeper" {
			p.fail(s.value, s.at, "is the server's own znode; a setup removes what it is about to create")
		}
		p.w.Setup = append(p.w.Setup, n)
	}
}

func (p *parser) node(q pair) *SetupNode {
	n := &SetupNode{Repeat: 1}
	named := false
	for _, k := range p.pairs(q.value, q.at) {
		switch {
		case k.key == "name":
			n.Name, named = p.drawnText(k), true
		case k.key == "data":
			data := p.drawnText(k)
			n.Data = &data
		case k.key == "repeat":
			n.Repeat = p.integer(k.value, k.at, repeatMax)
		case strings.HasPrefix(k.key, "node"):
			n.Children = append(n.Children, p.node(k))
		default:
			p.unknown(k, "name", "data", "repeat", "node")
		}
	}
	switch {
	case !named || n.Name.length == nil && (n.Name.fixed == "" || strings.Contains(n.Name.fixed, "/")):
		p.fail(q.value, q.at, "needs a name without a slash")
	case n.Repeat > 1 && n.Name.length == nil:
		p.fail(q.value, q.at, "is repeated, so its name must be a random_string")
	}
	return n
}

// drawnText parses a text, or random_string with its size.
func (p *parser) drawnText(q pair) Text {
	if resolve(q.value).Kind != yaml.MappingNode {
		return Text{fixed: p.text(q.value, q.at)}
	}
	t := Text{length: &span{}}
	for _, k := range p.pairs(q.value, q.at) {
		if k.key != "random_string" {
			p.unknown(k, "random_string")
			continue
		}
		for _, s := range p.pairs(k.value, k.at) {
			if s.key != "size" {
				p.unknown(s, "size")
				continue
			}
			size := p.span(s, lengthMax)
			t.length = &size
		}
	}
	return t
}

// span parses a number, or min_value and max_value.
func (p *parser) span(q pair, most int) span {
	if resolve(q.value).Kind != yaml.MappingNode {
		v := p.integer(q.value, q.at, most)
		return span{v, v}
	}
	s := span{-1, -1}
	for _, k := range p.pairs(q.value, q.at) {
		switch k.key {
		case "min_value":
			s.min = p.integer(k.value, k.at, most)
		case "max_value":
			s.max = p.integer(k.value, k.at, most)
		default:
			p.unknown(k, "min_value", "max_value")
		}
	}
	if s.min < 0 || s.max < s.min {
		p.fail(q.value, q.at, "needs a min_value and a max_value not below it")
		return span{}
	}
	return s
}
