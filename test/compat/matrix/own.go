package matrix

import (
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// ownCells are what each kind of client asks about the service's own znodes. They share these, so they are asked in
// this order, those of one client at a time; the superuser, who may change the ACLs, is the last one.
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
