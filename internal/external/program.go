package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// startsPerSecond bounds how often a program that exits is started again. Before that, a burst of as many starts as
// there may be copies is allowed.
const startsPerSecond = 10

// errPermissions says that users other than root, the server's user and the program's owner can change the program.
var errPermissions = errors.New("others than its owner may change it; chmod go-w")

// A program answers questions on its standard output. Idle copies of it are kept for later questions.
type program struct {
	args []string

	mu     sync.Mutex
	idle   []*process
	closed bool
	starts float64   // how many starts are permitted now
	burst  float64   // the maximum of starts
	paid   time.Time // when starts was last updated
}

// A process is a running copy of a program.
type process struct {
	cmd     *exec.Cmd
	in, out *os.File // its standard input and output; they support deadlines
}

func newProgram(args []string, copies int) (*program, error) {
	file, err := exec.LookPath(args[0])
	if err == nil && !filepath.IsAbs(file) {
		var here string
		here, err = os.Getwd()
		file = here + "/" + file // filepath.Abs would clean the path, which changes its meaning if it has links
	}
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	if err := inspect(file); err != nil {
		return nil, err
	}
	args[0] = file // start what was inspected
	return &program{args: args, starts: float64(copies), burst: float64(copies), paid: time.Now()}, nil
}

func (p *program) ask(ctx context.Context, q *question) (*answer, error) {
	c, used, err := p.take()
	if err != nil {
		return nil, err
	}
	a, err := c.ask(ctx, q)
	if err != nil {
		c.kill()
		if used && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)) {
			return p.ask(ctx, q) // it exited while idle; in the end a new copy is asked
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.kill()
		return a, nil
	}
	p.idle = append(p.idle, c)
	return a, nil
}

// take returns a copy of the program that is ready for a question, and whether it has answered one before.
func (p *program) take() (c *process, used bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		c = p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, true, nil
	}
	now := time.Now()
	p.starts = min(p.burst, p.starts+now.Sub(p.paid).Seconds()*startsPerSecond)
	p.paid = now
	switch {
	case p.closed:
		return nil, false, errors.New("the server stops")
	case p.starts < 1:
		return nil, false, fmt.Errorf("the program ends too often; it is started %d times a second", startsPerSecond)
	}
	p.starts--
	if err := inspect(p.args[0]); err != nil { // permissions may have changed since the last start
		return nil, false, err
	}
	c, err = start(p.args)
	return c, false, err
}

func (p *program) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.kill()
	}
	p.idle = nil
}

// start starts a copy. It inherits nothing from the server's environment, which may contain secrets, except PATH.
func start(args []string) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		childIn.Close()
		in.Close()
		return nil, err
	}
	c := &process{cmd: exec.Command(args[0], args[1:]...), in: in, out: out}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Env, c.cmd.Dir = childIn, childOut, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		"/"
	ownGroup(c.cmd)
	err = c.cmd.Start()
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start the program: %w", err)
	}
	return c, nil
}

// ask sends a question and waits for the line with the answer. After an error the process must not be used again.
func (c *process) ask(ctx context.Context, q *question) (*answer, error) {
	line, err := q.line()
	if err != nil {
		return nil, err
	}
	by, _ := ctx.Deadline()
	if err := errors.Join(c.in.SetWriteDeadline(by), c.out.SetReadDeadline(by)); err != nil {
		return nil, err
	}
	if _, err := c.in.Write(line); err != nil {
		return nil, fmt.Errorf("it accepts no question: %w", unnamed(err))
	}
	b, chunk := []byte(nil), make([]byte, 4<<10)
	for {
		n, err := c.out.Read(chunk)
		if err != nil {
			return nil, fmt.Errorf("no answer came: %w", unnamed(err))
		}
		b = append(b, chunk[:n]...)
		end := bytes.IndexByte(b, '\n')
		switch {
		case end < 0 && len(b) > answerBytesMax, end > answerBytesMax:
			return nil, errTooLong
		case end >= 0 && end < len(b)-1:
			return nil, errors.New("something follows the line of the answer")
		case end >= 0:
			return parseAnswer(b[:end], q.Request)
		}
	}
}

// unnamed returns the cause of a file error without the file name, which is the name of a pipe.
func unnamed(err error) error {
	if named := (*os.PathError)(nil); errors.As(err, &named) {
		return named.Err
	}
	return err
}

// kill kills the process and its children.
func (c *process) kill() {
	killGroup(c.cmd)
	c.in.Close()
	c.out.Close()
	go c.cmd.Wait() // its exit status doesn't matter after a kill
}
