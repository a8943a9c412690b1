package differ

import (
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// The random scripts say little about steps that they seldom draw. These scripts are not random: for each operation of
// jute's table, every option, boundary value and size class comes at least once. TestEveryOperation plays them.

// theme is the subject of a group of scripts: one or more operations.
type theme struct {
	ops   []jute.Op
	name  string
	write func(b *book)
}

// themes returns the table of generators. TestThemesCoverTable fails if an operation of jute's table has no row.
func themes() []theme {
	of := func(name string, write func(b *book), ops ...jute.Op) theme { return theme{ops, name, write} }
	all := []theme{
		of("raw", rawBodies(jute.OpNotification), jute.OpNotification),
		of("raw", rawBodies(jute.OpError), jute.OpError),
		of("raw", rawBodies(jute.OpCreateSession), jute.OpCreateSession),
		of("modes", createModes("create"), jute.OpCreate),
		of("modes", createModes("create2"), jute.OpCreate2),
		of("modes", createModes("createContainer"), jute.OpCreateContainer),
		of("modes", createModes("createTTL"), jute.OpCreateTTL),
		of("versions", versions("delete"), jute.OpDelete),
		of("versions", versions("setData"), jute.OpSetData),
		of("versions", versions("setACL"), jute.OpSetACL),
		of("versions in a multi", versions("check"), jute.OpCheck),
		of(numbersTheme, children, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetAllChildrenNumber, jute.OpDelete),
		of("watches", watchesFire("exist"), jute.OpExists),
		of("watches", watchesFire("data"), jute.OpGetData),
		of("watches", watchesFire("child"), jute.OpGetChildren),
		of("watches", watchesFire("child2"), jute.OpGetChildren2),
		of("watches", addedWatchesFire, jute.OpAddWatch),
		of("types", watchTypes("checkWatches"), jute.OpCheckWatches),
		of("types", watchTypes("removeWatches"), jute.OpRemoveWatches),
		of("reconnect", reconnects("setWatches"), jute.OpSetWatches),
		of("reconnect", reconnects("setWatches2"), jute.OpSetWatches2),
		of(numbersTheme, manyWatches("setWatches"), jute.OpSetWatches),
		of(numbersTheme, manyWatches("setWatches2"), jute.OpSetWatches2),
		of("operations", multis, jute.OpMulti),
		of("reads", multiReads, jute.OpMultiRead),
		of(numbersTheme, ephemerals, jute.OpGetEphemerals, jute.OpCloseSession),
		of("logins", logins, jute.OpAuth, jute.OpWhoAmI),
		of("entries", entries, jute.OpGetACL, jute.OpSetACL),
	}
	// Every request that scripts know is also sent with each boundary value of each argument.
	for _, word := range words() {
		all = append(all, of(valuesTheme, values(word), rows()[word].code))
	}
	return all
}

// The themes of single servers. They take most of the time, and ask about decisions that each server makes by itself.
const (
	valuesTheme  = "values"
	numbersTheme = "numbers"
)

// words returns the requests of the vocabulary that have a code of their own, sorted.
func words() []string {
	var all []string
	for word, r := range rows() { // sorted below
		if r.code != local && word != "raw" && word != "frame" {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	return all
}

// scenario is a named script. If turn isn't 0, a fail-over may come before that step.
type scenario struct {
	name   string
	steps  []step
	begins int // the number of steps that all scripts begin with
	turn   int
	single bool // it is played on single servers only
}

// book collects the scripts of a theme. In each, connection 0 asks the script's questions, and connection 1 makes
// changes and reads.
type book struct {
	*vocabulary
	theme   string
	single  bool
	scripts []scenario
	skipped map[string]int // steps left out, by the name of the skip
}

const everyTimeout = 600_000

var everybody = []string{worldAll}

// script adds a script: steps after the znodes that all scripts begin with, but for those in the table of skips.
func (b *book) script(name string, steps ...step) {
	b.turning(name, 0, slices.DeleteFunc(steps, func(s step) bool {
		for _, skip := range skips() {
			if skip.applies(s) {
				b.skipped[skip.reason]++
				return true
			}
		}
		return false
	}))
}

// turning adds a script in which a fail-over may come before steps[turn].
func (b *book) turning(name string, turn int, steps []step) {
	before := []step{
		b.step(0, "connect", connectNew, everyTimeout),
		b.step(1, "connect", connectNew, everyTimeout),
		b.multi(1, "multi", b.step(1, "create", "~", "", everybody, 0), b.step(1, "create", "~/old", "x", everybody, 0),
			b.step(1, "create", "~/parent", nil, everybody, 0), b.step(1, "create", "~/parent/child", "", everybody, 0)),
	}
	if turn > 0 {
		turn += len(before)
	}
	steps = slices.Concat(before, steps)
	b.scripts = append(b.scripts, scenario{b.theme + ": " + name, steps, len(before), turn, b.single})
}

// looks returns steps that show a change's effect.
func (b *book) looks() []step {
	var reads []step
	for _, path := range []string{"~", "~/old", "~/parent", "~/new"} {
		reads = append(reads, b.step(1, "getData", path, false), b.step(1, "getChildren", path, false))
	}
	return []step{b.multi(1, "multiRead", reads...), b.step(1, "getACL", "~/old")}
}

// multi returns a multi, or multiRead, of operations.
func (b *book) multi(conn int, word string, subs ...step) step {
	s := b.step(conn, word)
	s.subs = subs
	return s
}

// every returns all scripts of the table.
func (w *vocabulary) every() (all []scenario, skipped map[string]int) {
	skipped = map[string]int{}
	for _, t := range themes() {
		b := &book{
			vocabulary: w, theme: fmt.Sprintf("%v %s", t.ops, t.name), skipped: skipped,
			single: t.name == valuesTheme || t.name == numbersTheme,
		}
		t.write(b)
		all = append(all, b.scripts...)
	}
	return all, skipped
}

// skip is a kind of step that can't be compared. One that never applies fails TestThemesCoverTable.
type skip struct {
	reason  string
	applies func(s step) bool
}

func skips() []skip {
	ends := func(s step) bool { return s.word == "createTTL" && s.args[4].n < 0 && s.args[3].n < 5 }
	return []skip{
		{"a negative time to live in a mode without one ends Apache's server: see TestWhatEndsApache", func(s step) bool {
			return ends(s) || slices.ContainsFunc(s.subs, ends)
		}},
		{"a reconfig that can't be read takes a zxid of Zooid's that only later replies show", func(s step) bool {
			return s.word == "reconfig" && s.cut > 0
		}},
		{"other scripts need the ACL of / and what lies below /zookeeper as they are", func(s step) bool {
			return changesShared(s) || slices.ContainsFunc(s.subs, changesShared)
		}},
	}
}

func changesShared(s step) bool {
	return (s.word == "setACL" || s.word == "delete") && slices.Contains(specialPaths, s.args[0].text)
}
