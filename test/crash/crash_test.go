package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var (
	long        = flag.Bool("long", false, "the nightly share: more of everything")
	killsFlag   = flag.Int("kills", 0, "kill -9 so often in TestKillAlone and in TestKillRandom; 0 means 40 and 30, with -long 1000 each")
	leaderFlag  = flag.Int("leader-kills", 0, "kill -9 of a leader so often; 0 means 15, 200 with -long")
	seedFlag    = flag.Uint64("seed", 0, "of the load and the moments of faults; 0 means a new one, which is printed")
	programFlag = flag.String("program", "", "the zooid to hurt; by default it is built from this tree")
	crashWanted = os.Getenv("ZOOID_CRASH") == "1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	UseBinary(*programFlag)
	code := m.Run()
	RemoveBinary()
	os.Exit(code)
}

// hurtful skips a test that nobody asked for; they take minutes and the machine
// to themselves, so they don't run in parallel either. It returns the seed.
func hurtful(t *testing.T) (seed uint64, rng *rand.Rand) {
	t.Helper()
	if !crashWanted {
		t.Skip("set ZOOID_CRASH=1, or run make torture")
	}
	if seed = *seedFlag; seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return seed, rand.New(rand.NewPCG(seed, 1))
}

// times picks how often: what the flag says, or usual, or nightly with -long.
func times(flag, usual, nightly int) int {
	switch {
	case flag > 0:
		return flag
	case *long:
		return nightly
	}
	return usual
}

// moment sleeps for a random time up to d.
func moment(rng *rand.Rand, d time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(d)))) }
