package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/zooid-project/zooid/internal/busiest"
)

// topShown is how many entries of each kind top shows by default.
const topShown = 10

// top shows the busiest entries on this server. It discloses no other paths and identities than watches and
// connections do.
func (c *call) top() {
	n := topShown
	if given := c.query.Get("n"); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil || n < 1 || n > busiest.KeysMax {
			c.fail(http.StatusBadRequest, fmt.Sprintf("n isn't a number from 1 to %d", busiest.KeysMax))
			return
		}
	}
	p := c.of.Replica().Busiest(n)
	c.set("requests_per_second", rounded(p.Requests))
	c.set("bytes_per_second", rounded(p.Bytes))
	c.set("sampled_every", p.SampledEvery)
	addresses := map[string]string{}
	for _, conn := range c.of.Connections() {
		addresses["0x"+strconv.FormatUint(uint64(conn.Session), 16)] = conn.Remote
	}
	c.set("by_requests", busiestOf(&p.ByRequests, addresses))
	c.set("by_bytes", busiestOf(&p.ByBytes, addresses))
}

// kinds are the names of the kinds in answers.
var kinds = [busiest.Kinds]string{
	busiest.Paths: "paths", busiest.Sessions: "sessions", busiest.Identities: "identities",
	busiest.Operations: "operations",
}

// busiestOf lists the busiest entries. Sessions include the addresses of their clients, as far as these are connected.
func busiestOf(all *[busiest.Kinds][]busiest.Rate, addresses map[string]string) object {
	var o object
	for k, name := range kinds {
		list := make(array, 0, len(all[k]))
		for _, r := range all[k] {
			if address := addresses[r.Key]; address != "" && busiest.Kind(k) == busiest.Sessions {
				r.Key += " " + address
			}
			list = append(list,
				object{{"key", r.Key}, {"per_second", rounded(r.PerSecond)}, {"too_high_by_at_most", rounded(r.Over)}})
		}
		o.set(name, list)
	}
	return o
}

// rounded rounds a rate to two decimals.
func rounded(rate float64) float64 {
	const scale = 100
	return float64(int64(rate*scale+0.5)) / scale
}
