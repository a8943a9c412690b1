package limit

import (
	"math"
	"strings"
	"testing"
	"time"
)

// slowOf is InForce.Of in a form that is easy to read: it asks for each ancestor.
func slowOf(f *InForce, path string) *PathLimits {
	for len(path) > 1 {
		if p := f.paths[path]; p != nil {
			return p
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
	return f.paths["/"]
}

// TestNearest: the limits of a path are those of its nearest ancestor that has any.
func TestNearest(t *testing.T) {
	t.Parallel()
	f := &InForce{paths: map[string]*PathLimits{}}
	for _, path := range []string{"/", "/a", "/a/b", "/a/b/c/d", "/x/y", "/x//y", "/é"} {
		f.add(path, Set{})
	}
	for _, path := range []string{
		"", "/", "a", "a/b", "//", "//a", "/a", "/a/", "/a//", "/ab", "/a/b", "/a/b/", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e/f",
		"/a/b/c/de", "/x", "/x/y", "/x/y/z", "/x//y", "/x//y/z", "/x//", "/é/è", "/b/a",
	} {
		if got, want := f.Of(path), slowOf(f, path); got != want {
			t.Errorf("%q has the limits of %q, want %q", path, got.Path, want.Path)
		}
	}
}

// TestLimitsOfLongPaths: finding the limits of a path takes time in proportion to its length, and no more for many
// limits: what a client can make a server do with one request is bounded by its size.
func TestLimitsOfLongPaths(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short: it measures")
	}
	f := &InForce{paths: map[string]*PathLimits{}}
	f.add("/", Set{})
	for i := range 13 {
		f.add("/a/"+strings.Repeat("b/", i)+"c", Set{})
	}
	took := func(parts int) time.Duration {
		paths := []string{strings.Repeat("/", parts), strings.Repeat("/a", parts), "/a" + strings.Repeat("/b", parts)}
		least := time.Duration(math.MaxInt64)
		for range 5 {
			begun := time.Now()
			for _, path := range paths {
				if f.Of(path) != f.paths["/"] {
					t.Fatal("a path has the limits of another one")
				}
			}
			least = min(least, time.Since(begun))
		}
		return least
	}
	// A path that is 64 times as long may take 64 times as long, not 4096 times; noise of the machine is far less.
	if short, long := took(1_000), took(64_000); long > 1024*max(short, 10*time.Microsecond) {
		t.Errorf("a path of 1,000 parts takes %v, one of 64,000 takes %v", short, long)
	}
}
