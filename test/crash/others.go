package crash

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// OthersMax is the share of the machine's processors that processes other than a test's own may use
// without being the cause of the test's result.
const OthersMax = 0.15

// Others begins to measure how much of the processors is used by processes other than this
// one, its children and the ensemble's servers: by processes unrelated to the test. The
// function returned says which share of all processors they have used since. Children must
// have been waited for by then. Where the kernel doesn't tell, it says 0.
func (e *Ensemble) Others() (share func() float64) {
	began, used := time.Now(), e.usedByOthers()
	return func() float64 {
		return (e.usedByOthers() - used).Seconds() / time.Since(began).Seconds() / float64(runtime.NumCPU())
	}
}

// userHZ is the unit of processor times in /proc.
const userHZ = time.Second / 100

func (e *Ensemble) usedByOthers() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	// Time in interrupts isn't counted: it belongs to no process. Stolen time is another machine's.
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	_, err = fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq,
		&steal)
	if err != nil {
		return 0
	}
	own := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			own += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	for _, s := range e.Servers {
		if s.Running() {
			own += s.ProcessorTime()
		}
	}
	return time.Duration(user+nice+system+steal)*userHZ - own
}

// ProcessorTime is a running server's use of the processors, or 0 if unknown.
func (s *Server) ProcessorTime() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
	if err != nil {
		return 0
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from the third on
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0
	}
	return time.Duration(user+system) * userHZ
}
