package crash

import (
	"testing"
	"time"
)

// TestOutageExplains holds which ends of connections an outage from 10 s to 20 s explains.
func TestOutageExplains(t *testing.T) {
	t.Parallel()
	at := func(seconds float64) time.Time {
		return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	over, lasts := outage{at(10), at(20)}, outage{from: at(10)}
	for _, c := range []struct {
		what         string
		o            outage
		began, found float64
		want         bool
	}{
		{"before it", over, 1, 9, false},
		{"meanwhile", over, 1, 15, true},
		{"of one that began meanwhile", over, 12, 15, true},
		{"of one that began meanwhile, just found", over, 19, 20.5, true},
		{"of one that began meanwhile, later", over, 19, 22, false},
		{"of one from before, found late", over, 1, 50, true},
		{"of one from before, long after", over, 1, 90, false},
		{"of one that began after it", over, 21, 30, false},
		{"of an outage that isn't over", lasts, 100, 200, true},
		{"before an outage that isn't over", lasts, 1, 9, false},
	} {
		if got := c.o.explains(broken{at(c.began), at(c.found)}); got != c.want {
			t.Errorf("the end of a connection %s: %v, want %v", c.what, got, c.want)
		}
	}
}
