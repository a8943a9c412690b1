package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// standsFor is how long the entry takes: more than the timeout of the shortest sessions after their clients were let
	// go, which is after half of it.
	standsFor = 9 * time.Second
	// standsVariable names the servers on which it takes so long, to the server itself.
	standsVariable = "ZOOID_PLANTED_STANDS"
)

// standsBug makes a set of plantedPath take long to apply where its data says so. The replica is locked meanwhile, as
// by any request that costs seconds of a processor.
var standsBug = fmt.Sprintf(`if who := string(data); who == "all" || who != "" && who == os.Getenv(%q) {
		time.Sleep(%d)
	}`, standsVariable, standsFor)

// TestLongApply has an entry take seconds to apply: on the leader, and on all servers. Clients of all servers hold
// locks, and others wait for them. No session ends, nobody is told for long that he holds a lock which another has
// (X10), and where a majority can do without the leader, it hands over and writes go on.
func TestLongApply(t *testing.T) {
	seed, _ := hurtful(t)
	program := buildPlanted(t, standsBug, "os", "time")
	for _, who := range []string{"leader", "all"} {
		t.Run(who, func(t *testing.T) {
			o := trio(seed, 200)
			o.Pause, o.DeliveryMax, o.Program = 10*time.Millisecond, hungDelivery, program
			for i := range o.Servers {
				o.Wraps = append(o.Wraps, []string{"env", fmt.Sprintf("%s=%d", standsVariable, i+1)})
			}
			r := Begin(t, o)
			res := &hungResult{who: who, hang: standsFor}
			victim, others := r.leader(), []int{0, 1, 2}
			others = append(others[:victim:victim], others[victim+1:]...)
			setter := r.probe(t, others[0], sessionTimeout)
			if code := setter.create(plantedPath, jute.ModePersistent); code != jute.OK {
				t.Fatalf("create %s: %v", plantedPath, code)
			}
			r.amongLocks(t, res, victim, others, func() time.Time {
				on := fmt.Sprint(victim + 1)
				if who == "all" {
					on = who
				}
				q := jute.SetDataRequest{Path: plantedPath, Data: []byte(on), Version: -1}
				if _, err := setter.c.Send(jute.OpSetData, q.Append(nil)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(standsFor)
				return time.Now()
			})
			setter.c.Drop()
			if who != "all" && res.stopped > hungStopMax {
				t.Errorf("%s: writes of the other servers' clients stopped for %v", who, res.stopped.Round(time.Millisecond))
			}
			if who == "leader" && r.leader() == victim {
				t.Errorf("the leader was to stand for %v, and leads still", standsFor)
			}
			if who == "all" && res.stopped < standsFor/2 {
				t.Errorf("all servers were to stand for %v, and writes stopped for %v: nothing was shown", standsFor,
					res.stopped)
			}
			r.Verdict()
			r.judgeLocks(t, []*hungResult{res}, true)
		})
	}
}
