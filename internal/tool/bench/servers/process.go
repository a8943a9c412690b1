package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// clockTick is the unit of processor times in /proc/PID/stat. Linux uses a hundredth of a second there, whatever the
// kernel uses internally.
const clockTick = 10 * time.Millisecond

// Processes are the server processes whose cost is measured. nil measures none.
type Processes []int

// Cost is processor time, user and system together.
type Cost struct {
	Server, Client time.Duration
	machine        time.Duration // of everything that runs on the machine, including time stolen from it
	idle           time.Duration // of the machine's processors; machine and idle add up to their total time
}

// Minus returns the cost since earlier.
func (c Cost) Minus(earlier Cost) Cost {
	return Cost{c.Server - earlier.Server, c.Client - earlier.Client, c.machine - earlier.machine, c.idle - earlier.idle}
}

// Cost returns the processor time that the processes and this process have used so far.
func (p Processes) Cost() Cost {
	var c Cost
	for _, pid := range p {
		if st, err := readStat(pid); err == nil {
			c.Server += st.cpu
		}
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		c.Client = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	c.machine, c.idle = machineTime()
	return c
}

// Others returns the percentage of the machine's processor time used neither by the servers nor by the generator.
func (c Cost) Others() float64 {
	whole := c.machine + c.idle
	if whole <= 0 {
		return 0
	}
	return 100 * max(float64(c.machine-c.Server-c.Client), 0) / float64(whole)
}

// machineTime returns how long all processors together have worked and been idle, without interrupts, which belong to
// no program. It returns 0 if that is unknown.
func machineTime() (busy, idle time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return parseMachineTime(line)
}

// parseMachineTime parses the first line of /proc/stat: cpu user nice system idle iowait irq softirq steal.
func parseMachineTime(line []byte) (busy, idle time.Duration) {
	f := bytes.Fields(line)
	if len(f) < 9 {
		return 0, 0
	}
	for i, field := range f[1:9] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, 0
		}
		switch i {
		case 0, 1, 2, 7:
			busy += time.Duration(n) * clockTick
		case 3, 4:
			idle += time.Duration(n) * clockTick
		}
	}
	return busy, idle
}

// RssMiB returns the resident memory of all the processes.
func (p Processes) RssMiB() float64 {
	var pages int64
	for _, pid := range p {
		if st, err := readStat(pid); err == nil {
			pages += st.rssPages
		}
	}
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}

// Check returns an error for the first process that can't be measured.
func (p Processes) Check() error {
	for _, pid := range p {
		if _, err := readStat(pid); err != nil {
			return fmt.Errorf("measure process %d: %w (-pid takes ids of running processes of this machine)", pid, err)
		}
	}
	return nil
}

// procStat has the fields of /proc/PID/stat that are needed here.
type procStat struct {
	ppid, pgrp int
	cpu        time.Duration
	rssPages   int64
	ended      bool // it has ended and waits to be reaped
}

func readStat(pid int) (procStat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

// parseStat parses the fields after the command's name, which is in parentheses and may contain anything, including
// parentheses and blanks.
func parseStat(b []byte) (procStat, error) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const state, ppid, pgrp, utime, stime, rss = 0, 1, 2, 11, 12, 21 // proc(5) numbers them from 1 with two fields before
	if len(f) <= rss {
		return procStat{}, fmt.Errorf("parse process status: %d fields, need %d", len(f), rss+1)
	}
	var err error
	num := func(i int) int64 {
		n, e := strconv.ParseInt(string(f[i]), 10, 64)
		if e != nil {
			err = fmt.Errorf("parse process status: field %d: %w", i+3, e)
		}
		return n
	}
	ended := f[state][0] == 'Z' || f[state][0] == 'X'
	st := procStat{int(num(ppid)), int(num(pgrp)), time.Duration(num(utime)+num(stime)) * clockTick, num(rss), ended}
	return st, err
}

// groupRuns reports whether a process of the group pgid is running.
func groupRuns(pgid int) bool {
	return slices.ContainsFunc(processGroup(pgid), func(pid int) bool {
		st, err := readStat(pid)
		return err == nil && !st.ended
	})
}

// processGroup returns the processes of the group pgid, sorted.
func processGroup(pgid int) Processes {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	var group Processes
	for _, e := range entries {
		pid, err := strconv.Atoi(filepath.Base(e))
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil && st.pgrp == pgid {
			group = append(group, pid)
		}
	}
	slices.Sort(group)
	return group
}
