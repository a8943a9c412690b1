//go:build unix

package zktest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Serve is Start for a program that isn't a test, such as an example or a demonstration. Errors that fail a test are
// returned by Serve or, later, by Close. If err is nil, the caller must Close the Ensemble.
func Serve(o Options) (e *Ensemble, err error) {
	p := new(program)
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failure:
			err = errors.Join(failed, p.close())
		default:
			panic(failed)
		}
	}()
	return start(p, o), nil
}

// Close stops the servers that Serve started, removes their data, and returns all errors that have occurred since
// Serve. The Ensemble must not be used afterwards, but Close may be called again. It does nothing for an Ensemble of
// Start, which ends with its test.
func (e *Ensemble) Close() error {
	if p, ok := e.t.(*program); ok {
		return p.close()
	}
	return nil
}

// A program is the host of servers outside of a test.
type program struct {
	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

// A failure is an error that ends the start of servers.
type failure struct{ error }

func (p *program) close() error {
	p.mu.Lock()
	cleanups := p.cleanups
	p.cleanups = nil
	p.mu.Unlock()
	for _, cleanup := range slices.Backward(cleanups) {
		cleanup()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.errs...)
}

func (p *program) Helper() {}

func (p *program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "zktest-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			p.Errorf("zktest: remove the data: %w", err)
		}
	})
	return dir
}

func (p *program) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *program) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

func (p *program) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
