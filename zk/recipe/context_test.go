package recipe_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// Every call that a context ends returns an error that wraps the context's Err, not its cause. The cause here would be
// the success of a create.
func TestContextEnds(t *testing.T) {
	each(t, func(a *arena) {
		calls := contextCalls(a)
		if names := slices.Sorted(maps.Keys(calls)); !slices.Equal(names, contextNames(t)) {
			t.Errorf("this test calls %q; what takes a context is %q", names, contextNames(t))
		}
		a.refuse(true) // now only the context can end a call
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			ctx, cancel := context.WithCancelCause(a.ctx)
			cancel(zk.ErrNodeExists)
			if err := calls[name](ctx); !errors.Is(err, context.Canceled) || errors.Is(err, zk.ErrNodeExists) {
				t.Errorf("%s: %v, want one that wraps %v only", name, err, context.Canceled)
			}
		}
		a.refuse(false)
	})
}

// contextCalls returns a call of everything that takes a context. Each call waits for a reply or for something else
// that doesn't come without a connection.
func contextCalls(a *arena) map[string]func(context.Context) error {
	opt := recipe.Options{}
	s, c := a.source(), a.client()
	m, rw, sem := recipe.NewMutex(c, "/m", opt), recipe.NewRWLock(c, "/rw", opt), recipe.NewSemaphore(c, "/sem", 1, opt)
	lock := func(path string) *recipe.Held {
		held, err := recipe.NewMutex(c, path, opt).Lock(a.ctx)
		a.must(err)
		return held
	}
	all := func(path string) *recipe.HeldAll {
		held, err := recipe.LockAll(a.ctx, recipe.NewMutex(c, path, opt))
		a.must(err)
		return held
	}
	q, pq := recipe.NewQueue(c, "/q", opt), recipe.NewPriorityQueue(c, "/pq", opt)
	claim := func() *recipe.Claim {
		a.must(q.Put(a.ctx, []byte("x")))
		k, err := q.Claim(a.ctx)
		a.must(err)
		return k
	}
	b, db := recipe.NewBarrier(c, "/b", opt), recipe.NewDoubleBarrier(c, "/db", 1, opt)
	a.must(db.Enter(a.ctx))
	v, n, l := recipe.NewValue(c, "/v", opt), recipe.NewCounter(c, "/n", opt), recipe.NewLedger(c, "/ledgers", opt)
	a.must(v.Set(a.ctx, nil))
	a.must(n.Set(a.ctx, 1))
	_, err := l.Commit(a.ctx, zk.CheckOp("/", zk.AnyVersion))
	a.must(err)
	_, err = s.Client(a.ctx)
	a.must(err)
	d, elect := recipe.NewDiscovery(s, "/d", opt), recipe.NewElection(s, "/elect", opt)
	// These begin without a connection, so they never get ready.
	e, latch, cache, group, provider := later(a, func() *recipe.Ephemeral { return recipe.NewEphemeral(s, "/e", opt) }),
		later(a, func() *recipe.Latch { return recipe.NewLatch(s, "/latch", opt) }),
		later(a, func() *recipe.Cache { return recipe.NewTreeCache(s, "/") }),
		later(a, func() *recipe.Group { return recipe.JoinGroup(s, "/g", "me", opt) }),
		later(a, func() *recipe.Provider { return d.Provider("web") })
	op := zk.CheckOp("/", zk.AnyVersion)
	held, unlocked, heldAll, unlockedAll, done, returned := lock("/1"), lock("/2"), all("/3"), all("/4"), claim(), claim()
	type ctx = context.Context
	return map[string]func(ctx) error{
		"Barrier.Remove":      b.Remove,
		"Barrier.Set":         b.Set,
		"Barrier.Wait":        b.Wait,
		"Cache.Events":        func(ctx ctx) error { return lastOf(cache().Events(ctx)) },
		"Cache.Wait":          func(ctx ctx) error { return cache().Wait(ctx) },
		"Claim.Done":          done.Done,
		"Claim.Return":        returned.Return,
		"Counter.Add":         func(ctx ctx) error { return second(n.Add(ctx, 1)) },
		"Counter.Close":       n.Close,
		"Counter.Get":         func(ctx ctx) error { return second(n.Get(ctx)) },
		"Counter.Set":         func(ctx ctx) error { return n.Set(ctx, 1) },
		"Discovery.Instances": func(ctx ctx) error { return second(d.Instances(ctx, "web")) },
		"Discovery.Names":     func(ctx ctx) error { return second(d.Names(ctx)) },
		"DoubleBarrier.Enter": recipe.NewDoubleBarrier(c, "/db2", 2, opt).Enter,
		"DoubleBarrier.Leave": db.Leave,
		"Election.Candidates": func(ctx ctx) error { return second(elect.Candidates(ctx)) },
		"Election.Leader":     func(ctx ctx) error { return second(elect.Leader(ctx)) },
		"Election.Run":        func(ctx ctx) error { return elect.Run(ctx, nil) },
		"Ephemeral.Wait":      func(ctx ctx) error { return second(e().Wait(ctx)) },
		"Group.Wait":          func(ctx ctx) error { return group().Wait(ctx) },
		"Held.Confirm":        held.Confirm,
		"Held.Unlock":         unlocked.Unlock,
		"HeldAll.Confirm":     heldAll.Confirm,
		"HeldAll.Unlock":      unlockedAll.Unlock,
		"Latch.Candidates":    func(ctx ctx) error { return second(latch().Candidates(ctx)) },
		"Latch.Leader":        func(ctx ctx) error { return second(latch().Leader(ctx)) },
		"Latch.Wait":          func(ctx ctx) error { return second(latch().Wait(ctx)) },
		"Ledger.Close":        l.Close,
		"Ledger.Commit":       func(ctx ctx) error { return second(l.Commit(ctx, op)) },
		"LockAll":             func(ctx ctx) error { return second(recipe.LockAll(ctx, m)) },
		"Members":             func(ctx ctx) error { return second(recipe.Members(ctx, c, "/g")) },
		"Mutex.Lock":          func(ctx ctx) error { return second(m.Lock(ctx)) },
		"Mutex.Participants":  func(ctx ctx) error { return second(m.Participants(ctx)) },
		"Mutex.TryLock":       func(ctx ctx) error { return second(m.TryLock(ctx)) },
		"PriorityQueue.Put":   func(ctx ctx) error { return pq.Put(ctx, 1, nil) },
		"Provider.Wait":       func(ctx ctx) error { return provider().Wait(ctx) },
		"Queue.Claim":         func(ctx ctx) error { return second(q.Claim(ctx)) },
		"Queue.Close":         q.Close,
		"Queue.Len":           func(ctx ctx) error { return second(q.Len(ctx)) },
		"Queue.Put":           func(ctx ctx) error { return q.Put(ctx, nil) },
		"Queue.Take":          func(ctx ctx) error { return second(q.Take(ctx)) },
		"RWLock.Participants": func(ctx ctx) error { return second(rw.Participants(ctx)) },
		"Semaphore.Acquire":   func(ctx ctx) error { return second(sem.Acquire(ctx)) },
		"Semaphore.Leases":    func(ctx ctx) error { return second(sem.Leases(ctx)) },
		"Side.Lock":           func(ctx ctx) error { return second(rw.Reader().Lock(ctx)) },
		"Side.TryLock":        func(ctx ctx) error { return second(rw.Writer().TryLock(ctx)) },
		"Value.Close":         v.Close,
		"Value.CompareAndSet": func(ctx ctx) error { return v.CompareAndSet(ctx, 0, nil) },
		"Value.Get":           func(ctx ctx) error { _, _, err := v.Get(ctx); return err },
		"Value.Set":           func(ctx ctx) error { return v.Set(ctx, nil) },
		"Value.Update": func(ctx ctx) error {
			return second(v.Update(ctx, func(old []byte) ([]byte, error) { return old, nil }))
		},
	}
}

func second[T any](_ T, err error) error { return err }

// lastOf returns the error with which an iterator of events ends.
func lastOf(events func(func(recipe.CacheEvent, error) bool)) (last error) {
	events(func(_ recipe.CacheEvent, err error) bool {
		last = err
		return true
	})
	return last
}

// later returns a function that opens something at its first call. It is closed when the test ends.
func later[T interface{ Close() }](a *arena, open func() T) func() T {
	var opened bool
	var made T
	return func() T {
		if !opened {
			made, opened = open(), true
			a.t.Cleanup(made.Close)
		}
		return made
	}
}

// contextNames returns the sorted names of the exported functions and methods that take a context.
func contextNames(t *testing.T) []string {
	var names []string
	for _, file := range parsed(t, ".") {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || len(f.Type.Params.List) == 0 || !isContext(f.Type.Params.List[0].Type) {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				name = receiver(f) + "." + name
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func isContext(x ast.Expr) bool {
	of, ok := x.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Context"
}

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) string {
	x := f.Recv.List[0].Type
	if pointer, ok := x.(*ast.StarExpr); ok {
		x = pointer.X
	}
	if generic, ok := x.(*ast.IndexExpr); ok {
		x = generic.X
	}
	return x.(*ast.Ident).Name
}

// parsed returns the files of the package in dir without its tests.
func parsed(t *testing.T, dir string) []*ast.File {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// The client and its recipes ask for a cause only where a context is their own.
func TestCauses(t *testing.T) {
	t.Parallel()
	own := map[string]bool{
		"endOf":     true, // of an attempt to connect
		"reign":     true, // of Held.Context
		"renew":     true,
		"watchNode": true,
	}
	for _, dir := range []string{".", "..", "../gozk/zk"} {
		for _, file := range parsed(t, dir) {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				ast.Inspect(f, func(n ast.Node) bool {
					if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == "Cause" && !own[f.Name.Name] {
						t.Errorf("%s calls context.Cause: errors wrap ctx.Err() (see Calls in the comment of package zk)", f.Name.Name)
					}
					return true
				})
			}
		}
	}
}
