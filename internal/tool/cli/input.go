package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/zk"
)

// stdin returns the standard input for a command that reads it. Only one command can, and it must not have been read
// from standard input itself.
func (s *shell) stdin() (io.Reader, error) {
	in := s.in
	if in == nil {
		return nil, errNoStdin
	}
	s.in = nil
	if f, ok := in.(*os.File); ok && terminal.Is(f) && s.out.ErrTerm {
		s.out.Notef("reading from the terminal; Ctrl-D ends it")
	}
	return in, nil
}

var errNoStdin = advice.Errorf("name a file, or run the command by itself: zooid cli COMMAND",
	"standard input has the commands, or was already read")

// isStdin reports whether f is standard input under another name, such as /dev/stdin. A
// regular file doesn't count, since it can be opened and read from its start.
func isStdin(f *os.File) bool {
	a, err := f.Stat()
	b, err2 := os.Stdin.Stat()
	return err == nil && err2 == nil && !a.Mode().IsRegular() && os.SameFile(a, b)
}

// openInput opens a file to be read once, or standard input for "-". The end of ctx
// ends any wait for a pipe or a terminal.
func (s *shell) openInput(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		in, err := s.stdin()
		return &interruptible{ctx: ctx, in: in, close: func() error { return nil }}, err
	}
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened)
	go func() { // opening a pipe blocks until a process writes to it
		f, err := os.Open(name)
		select {
		case done <- opened{f, err}:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		if s.in == nil && isStdin(o.f) {
			o.f.Close()
			return nil, errNoStdin
		}
		return &interruptible{ctx: ctx, in: o.f, close: o.f.Close}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("open %s: %w", name, ctx.Err())
	}
}

// interruptible is a reader whose reads end with ctx. Data that a read under way returns after that is dropped.
type interruptible struct {
	ctx   context.Context
	in    io.Reader
	close func() error

	left []byte // read, and not yet handed out
	err  error  // comes after left
}

func (r *interruptible) Close() error { return r.close() }

func (r *interruptible) Read(p []byte) (int, error) {
	if len(r.left) == 0 && r.err == nil {
		r.fill()
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, r.err
}

// inputBuffer is the size of one read of an input.
const inputBuffer = 64 << 10

func (r *interruptible) fill() {
	type outcome struct {
		part []byte
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		part := make([]byte, inputBuffer)
		n, err := r.in.Read(part)
		done <- outcome{part[:n], err}
	}()
	select {
	case o := <-done:
		r.left, r.err = o.part, o.err
	case <-r.ctx.Done():
		r.err = r.ctx.Err()
	}
}

// value returns the data that the argument at i stands for: the contents of standard
// input for -, the contents of the file for @file, else the argument itself. An
// argument that was quoted, or follows --, is always taken as it is.
func (s *shell) value(ctx context.Context, a *args, i int) ([]byte, error) {
	text := a.arg(i)
	name, isFile := strings.CutPrefix(text, "@")
	if a.isLiteral(i) || text != "-" && !isFile {
		return []byte(text), nil
	}
	if !isFile {
		name = "-"
	}
	data, err := s.readValue(ctx, a, name)
	if is[*advice.Error](err) {
		return nil, err // err has advice already
	}
	return data, advice.Add(err, "- is standard input, @FILE a file; after -- they are data: %s -- %s %s", a.cmd.name,
		quote(a.arg(0)), quote(text))
}

// readValue reads data from a file, unchanged. The file may have as many bytes as a
// request, or twice as many if it is in base64.
func (s *shell) readValue(ctx context.Context, a *args, name string) ([]byte, error) {
	most := s.requestMax()
	if a.has("b") {
		most *= 2
	}
	in, err := s.openInput(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", a.cmd.name, a.arg(0), err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("%s has more than %d bytes, the most that a request may have (jute.maxbuffer)", name, most)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", a.cmd.name, a.arg(0), err)
	}
	return data, nil
}

// requestMax is how many bytes a request may have.
func (s *shell) requestMax() int {
	if s.opt.access.RequestMax > 0 {
		return s.opt.access.RequestMax
	}
	return zk.DefaultMaxRequestBytes
}
