package main

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// busyPause is the time between two checks of the use.
const busyPause = time.Millisecond

// beBusy uses so many processors, some of the time each, until ctx ends. It makes up for
// missing time later, if possible.
func beBusy(ctx context.Context, share float64) {
	began := time.Now()
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for ctx.Err() == nil {
				for ctx.Err() == nil && used().Seconds() < share*time.Since(began).Seconds() {
				}
				time.Sleep(busyPause)
			}
		})
	}
	wg.Wait()
}

// used is this process's use of the processors.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
