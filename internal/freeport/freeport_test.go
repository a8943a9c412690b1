package freeport

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestApart: two searches of the same places, as of two processes, never have the
// same port.
func TestApart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]int{"below the kernel's range": lowest + roomMin, "asking the kernel": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all sync.WaitGroup
			var mu sync.Mutex
			taken := map[int]bool{}
			for _, s := range []*search{{end: end, next: lowest}, {end: end, next: lowest}} {
				for i := range 40 {
					all.Go(func() {
						n := 1 + i%3
						ports, release, err := s.reserve(n)
						if err != nil {
							t.Error(err)
							return
						}
						t.Cleanup(release)
						if len(ports) != n || ports[n-1] != ports[0]+n-1 {
							t.Errorf("asked for %d ports in a row, got %d", n, ports)
						}
						mu.Lock()
						defer mu.Unlock()
						for _, port := range ports {
							if taken[port] {
								t.Errorf("port %d is taken twice", port)
							}
							taken[port] = true
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// TestBusy: a port that somebody listens on, at whatever address, is refused; one
// that is reserved can be listened on.
func TestBusy(t *testing.T) {
	t.Parallel()
	if !ofProcess().roomy() {
		t.Skip("outgoing connections may take any port here")
	}
	for _, host := range []string{"127.0.0.1", "0.0.0.0", ""} {
		ports, release, err := Reserve(1)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, ports[0]))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		release()
		if _, err := hold(ports[0], 1); err == nil {
			t.Errorf("somebody listens on %s, and yet it is reserved", l.Addr())
		}
	}
}

// TestGivenBack: what is reserved is refused, up to its release, and so is a row of
// ports with one such.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	again := 0
	for range 20 {
		ports, release, err := Reserve(3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hold(ports[0]-1, 2); err == nil {
			t.Errorf("port %d is reserved twice", ports[0])
		}
		release()
		if release, err := hold(ports[0]-1, 4); err == nil { // another process may be quicker
			again++
			release()
		}
	}
	if again == 0 {
		t.Error("no port was to be had again after its release, or after an attempt that failed")
	}
}

// TestWhileProcessesStart: a port can be listened on at once, although each process
// that starts meanwhile begins with a copy of all open files.
func TestWhileProcessesStart(t *testing.T) {
	t.Parallel()
	if !ofProcess().roomy() {
		t.Skip("outgoing connections may take any port here")
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	program := filepath.Join(t.TempDir(), "none") // a process that doesn't get far will do
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				exec.Command(program).Run()
			}
		})
	}
	for range 1000 {
		ports, release, err := Reserve(1)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		release()
	}
}

// TestPlaces: where it looks, here and by example.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const end = lowest + roomMin
	s := &search{end: end, next: end - 5}
	var got []int
	for _, n := range []int{2, 3, 2, 30} {
		first, err := s.place(n)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, first)
	}
	if want := []int{end - 5, end - 3, lowest, lowest + 2}; !slices.Equal(got, want) {
		t.Errorf("looks at %d, want %d", got, want)
	}
	for text, want := range map[string]int{"32768\t60999\n": 32768, "1024 65535": 1024, "": 0, "none": 0} {
		if got := firstNumber(text); got != want {
			t.Errorf("%q begins with %d, want %d", text, got, want)
		}
	}
	ports := Take(t, 3)
	if s := ofProcess(); s.roomy() && (ports[0] < lowest || ports[2] >= s.end) {
		t.Errorf("ports %d are not from %d to below %d", ports, lowest, s.end)
	}
}
