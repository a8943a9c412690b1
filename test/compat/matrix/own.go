package matrix

import (
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// ownCells returns the requests of each kind of client about the service's own znodes, in batches for one client each.
// They share these znodes, so the batches run in this order; the superuser, which may change the ACLs, comes last.
func ownCells() [][]cell {
	var batches [][]cell
	for i, all := 1, identities(); i <= len(all); i++ {
		who := i % len(all)
		var cells []cell
		for _, path := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			for _, r := range requests() {
				cells = append(cells, cell{
					name: fmt.Sprintf("%s of %s, by %s", r.name, path, all[who].name), who: who,
					make: func(string) (prepare []jute.MultiOp, steps, after []step) { return nil, r.steps(path), nil },
				})
			}
		}
		batches = append(batches, cells)
	}
	return batches
}
