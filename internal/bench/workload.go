package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// workload is a keeper-bench file: what to set up, what to ask, how.
type workload struct {
	name        string
	concurrency int           // requests outstanding over all connections
	iterations  int64         // 0 is no count
	limit       time.Duration // 0 is no limit
	tolerant    bool          // go on after errors
	hosts       []workloadHost
	setup       []*setupNode
	requests    mixture
	ignored     []string // keys read without effect
}

// workloadHost is where to connect, and how often.
type workloadHost struct {
	addr     string
	sessions int
	timeout  time.Duration
}

// setupNode is a znode to be there before the requests, repeat times under
// names of its own.
type setupNode struct {
	name     text
	data     *text // nil is no data
	repeat   int
	children []*setupNode
}

// mainWorkload is `zooid bench workload`.
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
		w, err := readWorkload(file)
		if err != nil {
			return err
		}
		if len(w.ignored) > 0 && !o.quiet {
			fmt.Fprintf(stderr, "zooid bench: %s: without effect here: %s\n", file, strings.Join(w.ignored, ", "))
		}
		s := scenario{name: "workload " + w.name, bare: true, run: w.run}
		r, err := runTrial(ctx, s, w.adjust(o), p)
		p.clear()
		if err != nil {
			return err
		}
		r.Size = 0 // the file says, for each request
		results = append(results, r)
		if o.json {
			if err := r.writeJSON(stdout); err != nil {
				return err
			}
		}
	}
	return o.print(stdout, results)
}

// workloadSizeMax bounds the file: keeper-bench files are some hundred lines.
const workloadSizeMax = 1 << 20

// readWorkload reads a keeper-bench file.
func readWorkload(file string) (*workload, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, workloadSizeMax+1))
	if err == nil && len(b) > workloadSizeMax {
		err = fmt.Errorf("more than %d bytes; this isn't a keeper-bench file", workloadSizeMax)
	}
	if err != nil {
		return nil, fmt.Errorf("read workload %s: %w", file, err)
	}
	w, err := parseWorkload(b)
	if err != nil {
		return nil, fmt.Errorf("read workload %s: %w", file, err)
	}
	w.name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return w, nil
}

// adjust lets the user's flags override what the file says.
func (w *workload) adjust(o options) options {
	if len(w.hosts) > 0 && !o.given["servers"] {
		o.servers = nil
		for _, h := range w.hosts {
			for range h.sessions {
				o.servers = append(o.servers, h.addr)
			}
		}
		o.timeout = w.hosts[0].timeout
	}
	if !o.given["conns"] {
		o.conns = 0
		for _, h := range w.hosts {
			o.conns += h.sessions
		}
		o.conns = max(o.conns, 1)
	}
	if !o.given["ops"] {
		o.ops = w.iterations
	}
	if !o.given["time"] && (w.limit > 0 || o.ops > 0) {
		o.time = w.limit
	}
	if !o.given["warm"] {
		o.warm = 0 // keeper-bench has none
	}
	return o
}

// run sets up, measures and cleans up.
func (w *workload) run(ctx context.Context, t *trial) (r result, err error) {
	c, err := t.dial(ctx, 0, loadBuffer)
	if err != nil {
		return r, err
	}
	stop := context.AfterFunc(ctx, func() { c.net.Close() })
	defer stop()
	defer c.close()
	roots, err := w.build(c, t)
	if err == nil {
		r, err = w.measure(ctx, t, c)
	}
	return r, errors.Join(err, t.clean(ctx, roots...))
}

// measure runs the requests.
func (w *workload) measure(ctx context.Context, t *trial, c *conn) (result, error) {
	paths, err := resolvePaths(c, w.requests)
	if err != nil {
		return result{}, err
	}
	t.base = "/" // for sync
	conns, err := t.dialAll(ctx, t.conns, loadBuffer)
	if err != nil {
		return result{}, err
	}
	defer closeAll(conns)
	if err := t.settle(conns); err != nil {
		return result{}, err
	}
	l := &load{name: t.name, conns: conns, warm: t.warm, time: t.time, ops: t.ops, limit: t.time, rate: t.rate,
		strict: !w.tolerant, servers: t.measured, progress: t.progress,
		depth:  func(i int) int { return share(w.concurrency, len(conns), i) },
		source: func(i int) request { return newDrawer(w.requests, paths, t.rng(i)).append }}
	r, err := l.run(ctx)
	if t.rate == 0 {
		r.set("concurrency", float64(w.concurrency))
	}
	return r, err
}

// share is part i of total, split as evenly as whole numbers allow.
func share(total, parts, i int) int {
	n := total / parts
	if i < total%parts {
		n++
	}
	return n
}

// build removes the setup's root znodes, should they be there, and creates all
// of the setup. It returns the paths of the roots it has begun, on an error too.
func (w *workload) build(c *conn, t *trial) (roots []string, err error) {
	t.progress.note("setting up")
	rng := t.rng(-1)
	s := &setupWriter{c: c}
	for _, n := range w.setup {
		for range n.repeat {
			path := "/" + n.name.draw(rng)
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

// setupBatch is how many creates of a setup are on their way at once.
const setupBatch = 1000

// setupWriter creates znodes, parents first, without waiting for each.
type setupWriter struct {
	c    *conn
	open []string // paths without a reply
}

func (s *setupWriter) create(path string, n *setupNode, rng random) error {
	var data []byte
	if n.data != nil {
		data = []byte(n.data.draw(rng))
	}
	s.c.queue(createFrame(path, data))
	if s.open = append(s.open, path); len(s.open) == setupBatch {
		if err := s.drain(); err != nil {
			return err
		}
	}
	for _, child := range n.children {
		for range child.repeat {
			if err := s.create(path+"/"+child.name.draw(rng), child, rng); err != nil {
				return err
			}
		}
	}
	return nil
}

// drain waits for all replies.
func (s *setupWriter) drain() error {
	if err := s.c.flush(); err != nil {
		return err
	}
	for _, path := range s.open {
		h, _, err := s.c.reply()
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
