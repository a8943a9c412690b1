package moving

import (
	"fmt"
	"syscall"
	"testing"
)

// atMake is the step in which a switch without -seed makes and releases the data, which no command of the operator's
// is a part of: it is hit at some moment from the first file on, and before the start.
const atMake = "while the data is made"

// cutsToOne are cuts of a switch without -seed.
var cutsToOne = []cut{
	{atTail, syscall.SIGHUP, finishes},
	{atStop, syscall.SIGHUP, finishes},
	{atMake, syscall.SIGHUP, finishes},
	{atStart, syscall.SIGHUP, finishes},
	{atStarted, syscall.SIGHUP, finishes},
	{atTail, syscall.SIGKILL, goesOn},
	{atTail, syscall.SIGKILL, anew},
	{atTail, syscall.SIGKILL, undoneNow},
	{atStop, syscall.SIGKILL, goesOn},
	{atStop, syscall.SIGKILL, anew},
	{atStop, syscall.SIGKILL, undoneNow},
	{atMake, syscall.SIGKILL, goesOn},
	{atStart, syscall.SIGKILL, goesOn},
	{atStart, syscall.SIGKILL, hungUp},
	{atStart, syscall.SIGKILL, apacheBack},
	{atStarted, syscall.SIGKILL, notUndone},
	{atStarted, syscall.SIGKILL, goesOn},
	{atTail, 0, twoUsers},
	{atStop, 0, twoUsers},
	{atStart, 0, twoUsers},
	{atStarted, 0, twoUsers},
}

// setbacksToOne are setbacks of a switch without -seed.
var setbacksToOne = []setback{
	{atTail, copyFull, noSpace},
	{atTail, dataFull, noSpace},
	{atTail, oldFull, ""},
	{atStop, copyFull, noSpace},
	{atStop, dataFull, noSpace},
	{atStop, oldFull, ""},
	{atStart, copyFull, ""},
	{atStart, dataFull, "the Zooid server doesn't serve"}, // alone, it can't begin: exit code 3
	{atStarted, copyFull, ""},
	{atStarted, dataFull, ""},
	{atTail, apaches, "To undo"},
	{atStop, apaches, "To undo"},
	{atStarted, zooidsUp, ""},
}

// TestSwitchToOne cuts switches without -seed short at each step, and has disks fill up and servers start again, as
// TestSwitchCutShort and TestSwitchSetBack do with -seed. One Zooid server serves in the end what clients were told,
// and two others join it.
func TestSwitchToOne(t *testing.T) {
	need(t)
	program := zooid(t)
	cuts, setbacks := cutsToOne, setbacksToOne
	if testing.Short() {
		cuts = []cut{{atStop, syscall.SIGKILL, goesOn}, {atStart, syscall.SIGKILL, apacheBack}}
		setbacks = []setback{{atStop, dataFull, noSpace}}
	}
	for i, c := range cuts {
		version := both[i%2]
		t.Run(fmt.Sprintf("%s/%s/%v/%s", version, c.step, c.signal, c.then),
			func(t *testing.T) { c.try(t, program, version, false) })
	}
	for i, s := range setbacks {
		version := both[i%2]
		t.Run(fmt.Sprintf("%s/%s/%s", version, s.step, s.what), func(t *testing.T) { s.try(t, program, version, false) })
	}
}
