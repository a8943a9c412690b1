package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/bench/keeperbench"
	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// workload is a keeper-bench file to run.
type workload struct{ *keeperbench.File }

// mainWorkload runs `zooid bench workload`.
func mainWorkload(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, files, err := parseOptions("workload", args...)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, helpWorkload)
		printFlags(stdout, (&options{}).flags("workload"))
		return nil
	}
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return usagef("which keeper-bench file?")
	}
	p := newProgress(stderr, o.quiet)
	var results []result
	for _, file := range files {
		f, err := keeperbench.Read(file)
		if err != nil {
			return err
		}
		w := workload{f}
		if len(w.Ignored) > 0 && !o.quiet {
			fmt.Fprintf(stderr, "zooid bench: %s: without effect here: %s\n", file, strings.Join(w.Ignored, ", "))
		}
		s := scenario{name: "workload " + w.Name, bare: true, run: w.run}
		r, err := runTrial(ctx, s, w.adjust(o), p)
		p.clear()
		if err != nil {
			return err
		}
		r.Size = 0 // each request has its own size
		results = append(results, r)
		if o.json {
			if err := r.writeJSON(stdout); err != nil {
				return err
			}
		}
	}
	return o.print(stdout, results)
}

// adjust returns o with the settings of the file, except where the user gave flags.
func (w workload) adjust(o options) options {
	if len(w.Hosts) > 0 && !o.given["servers"] {
		o.servers = nil
		for _, h := range w.Hosts {
			for range h.Sessions {
				o.servers = append(o.servers, h.Addr)
			}
		}
		o.timeout = w.Hosts[0].Timeout
	}
	if !o.given["conns"] {
		o.conns = 0
		for _, h := range w.Hosts {
			o.conns += h.Sessions
		}
		o.conns = max(o.conns, 1)
	}
	if !o.given["ops"] {
		o.ops = w.Iterations
	}
	if !o.given["time"] && (w.Limit > 0 || o.ops > 0) {
		o.time = w.Limit
	}
	if !o.given["warm"] {
		o.warm = 0 // keeper-bench has none
	}
	return o
}

// run sets up the znodes, measures, and cleans up.
func (w workload) run(ctx context.Context, t *trial) (r result, err error) {
	c, err := t.dial(ctx, 0, wire.LoadBuffer)
	if err != nil {
		return r, err
	}
	stop := context.AfterFunc(ctx, func() { c.Net.Close() })
	defer stop()
	defer c.Close()
	roots, err := w.build(c, t)
	if err == nil {
		r, err = w.measure(ctx, t, c)
	}
	return r, errors.Join(err, t.clean(ctx, roots...))
}

// measure runs the requests.
func (w workload) measure(ctx context.Context, t *trial, c *wire.Conn) (result, error) {
	paths, err := w.ResolvePaths(c)
	if err != nil {
		return result{}, err
	}
	t.base = "/" // for sync
	l, err := t.load(ctx)
	if err != nil {
		return result{}, err
	}
	defer closeAll(l.conns)
	l.limit, l.strict = t.time, !w.Tolerant
	l.depth = func(i int) int { return share(w.Concurrency, len(l.conns), i) }
	l.source = func(i int) wire.Request { return w.Drawer(paths, t.rng(i)).Append }
	r, err := l.run(ctx)
	if t.rate == 0 {
		r.set("concurrency", float64(w.Concurrency))
	}
	return r, err
}

// share returns part i of total, divided as evenly as possible.
func share(total, parts, i int) int {
	n := total / parts
	if i < total%parts {
		n++
	}
	return n
}

// build removes the setup's root znodes if they exist and creates the whole setup. It returns the paths of the roots
// that it has begun to create, even on an error.
func (w workload) build(c *wire.Conn, t *trial) (roots []string, err error) {
	t.progress.note("setting up")
	rng := t.rng(-1)
	s := &setupWriter{c: c}
	for _, n := range w.Setup {
		for range n.Repeat {
			path := "/" + n.Name.Draw(rng)
			if err := s.drain(); err != nil {
				return roots, err
			}
			if err := removeTree(c, path); err != nil {
				return roots, fmt.Errorf("remove %s before the setup: %w", path, err)
			}
			roots = append(roots, path)
			if err := s.create(path, n, rng); err != nil {
				return roots, err
			}
		}
	}
	return roots, s.drain()
}

// setupBatch bounds the unanswered creates of a setup.
const setupBatch = 1000

// setupWriter creates znodes, parents first, without waiting for each reply.
type setupWriter struct {
	c    *wire.Conn
	open []string // paths of the unanswered creates
}

func (s *setupWriter) create(path string, n *keeperbench.SetupNode, rng *rand.Rand) error {
	var data []byte
	if n.Data != nil {
		data = []byte(n.Data.Draw(rng))
	}
	s.c.Queue(wire.CreateFrame(path, data))
	if s.open = append(s.open, path); len(s.open) == setupBatch {
		if err := s.drain(); err != nil {
			return err
		}
	}
	for _, child := range n.Children {
		for range child.Repeat {
			if err := s.create(path+"/"+child.Name.Draw(rng), child, rng); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain waits for all replies.
func (s *setupWriter) drain() error {
	if err := s.c.Flush(); err != nil {
		return err
	}
	for _, path := range s.open {
		h, _, err := s.c.Reply()
		if err == nil && h.Err != jute.OK {
			err = h.Err
		}
		if err != nil {
			return fmt.Errorf("set up %s: %w", path, err)
		}
	}
	s.open = s.open[:0]
	return nil
}
