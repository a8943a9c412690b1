package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/crash"
)

var (
	budgetFlag  = flag.Duration("hostile.budget", 0, "how long all attacks last together; 0 is 54 s, or with -long half an hour for each size")
	seedFlag    = flag.Uint64("hostile.seed", 0, "of the attacks and the load; 0 means a new one, which is printed")
	serversFlag = flag.String("hostile.servers", "1,3", "the sizes of the ensembles to attack")
	attackFlag  = flag.String("hostile.attack", "", "run these attacks alone, separated by commas")
	long        = flag.Bool("long", false, "for longer, and what honest clients feel is judged")
	programFlag = flag.String("program", "", "the zooid to attack; by default it is built from this tree")
)

// shortBudget is the time of CI's form for all sizes of ensembles, and longBudget of the
// nightly one for each. Each round has servers of its own and ends with a verdict on the
// whole history, so that logs stay of a size that can be checked.
const (
	shortBudget = 54 * time.Second
	longBudget  = 30 * time.Minute
	round       = 5 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	if file := os.Getenv(bareVariable); file != "" {
		fmt.Fprintln(os.Stderr, serveBare(file, os.Args[1]))
		os.Exit(1)
	}
	flag.Parse()
	crash.UseBinary(*programFlag)
	code := m.Run()
	crash.RemoveBinary()
	os.Exit(code)
}

// TestHostile runs every attack on one server and on three, while honest clients
// work, and judges the servers and the honest clients' history.
func TestHostile(t *testing.T) {
	if os.Getenv("ZOOID_HOSTILE") != "1" {
		t.Skip("set ZOOID_HOSTILE=1, or run make hostile")
	}
	sizes := strings.Split(*serversFlag, ",")
	for _, size := range sizes {
		servers, err := strconv.Atoi(size)
		if err != nil {
			t.Fatalf("-hostile.servers: %v", err)
		}
		t.Run(size, func(t *testing.T) {
			budget := *budgetFlag
			if budget == 0 && *long {
				budget = longBudget * time.Duration(len(sizes))
			} else if budget == 0 {
				budget = shortBudget
			}
			budget /= time.Duration(len(sizes))
			var all tally
			for n := uint64(0); budget > 0 && !t.Failed(); n++ {
				attackAll(t, &all, servers, seed()+n, min(budget, round))
				budget -= round
			}
			if *long {
				all.judge(t, servers)
			}
		})
	}
}

// TestSmoke is the shortest form: a second of one attack, judged as all are.
func TestSmoke(t *testing.T) {
	j := newJudge(t, 1, needs{}, seed())
	j.try(attackNamed("operations"), time.Second)
	j.report()
	j.run.Verdict()
}

func seed() uint64 {
	if *seedFlag == 0 {
		*seedFlag = uint64(time.Now().UnixNano())
	}
	return *seedFlag
}

// attackAll spends the budget on the attacks that fit the servers, each judged by
// itself, and checks the history of all. Attacks that need servers of their own
// come last.
func attackAll(t *testing.T, all *tally, servers int, seed uint64, budget time.Duration) {
	t.Logf("seed %d", seed)
	chosen := chosenAttacks(servers)
	var groups []needs
	for _, a := range chosen {
		if !slices.Contains(groups, a.needs) {
			groups = append(groups, a.needs)
		}
	}
	for i, g := range groups {
		gone := true
		t.Run(fmt.Sprint(i), func(t *testing.T) { // its servers end with it
			gone = !attackGroup(t, all, newJudge(t, servers, g, seed), g, chosen, budget/time.Duration(len(chosen)))
		})
		if gone {
			t.FailNow()
		}
	}
}

// attackGroup tries those attacks that need servers like those of j, and checks the history of all. It returns false
// at the first attack that does what none may do.
func attackGroup(t *testing.T, all *tally, j *judge, g needs, chosen []*attack, each time.Duration) bool {
	each -= lonely()
	if *long {
		each -= besideTime
	}
	for _, a := range chosen {
		if g == a.needs && !j.try(a, max(each, time.Second)) {
			j.report()
			return false
		}
	}
	j.report()
	if g.inside {
		return true
	}
	all.add(j)
	if n, example := j.run.Disturbed(); n > 0 {
		t.Errorf("%d connections of honest clients ended, such as %s; none was to", n, example)
	}
	j.run.Verdict()
	return true
}

// chosenAttacks are those to run on so many servers.
func chosenAttacks(servers int) []*attack {
	var list []*attack
	for i := range attacks {
		a := &attacks[i]
		named := slices.Contains(strings.Split(*attackFlag, ","), a.name)
		switch {
		case *attackFlag != "" && !named, a.peers && servers < 3, a.long && !*long && !named:
		default:
			list = append(list, a)
		}
	}
	return list
}
