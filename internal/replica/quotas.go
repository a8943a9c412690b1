package replica

import (
	"strings"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

const (
	quotaRoot = "/zookeeper/quota"
	// quotasMax bounds the znodes below quotaRoot that one call of Quotas visits.
	quotasMax = 10_000
)

// Quotas adds up one number of all quotas, grouped by namespace (the top-level path). read extracts
// the number from the data of a znode named znode. The replica is locked for each znode separately.
func (s *state) Quotas(znode string, read func(data string) (n int64, ok bool)) map[string]int64 {
	sums := map[string]int64{}
	open := []string{quotaRoot}
	for seen := 0; len(open) > 0 && seen < quotasMax; seen++ {
		path := open[len(open)-1]
		open = open[:len(open)-1]
		for _, name := range s.childNames(path) {
			if name == znode {
				if n, ok := read(s.znodeData(path + "/" + name)); ok {
					sums[namespace(strings.TrimPrefix(path, quotaRoot))] += n
				}
			} else if len(open) < quotasMax {
				open = append(open, path+"/"+name)
			}
		}
	}
	return sums
}

// asSuper returns the identities with which the server reads its own tree.
func asSuper() []jute.ID { return []jute.ID{{Scheme: "super"}} }

func (s *state) childNames(path string) []string {
	scan := tree.Scan{Op: jute.OpGetChildren, Path: path, IDs: asSuper()}
	for {
		s.mu.RLock()
		done, code := s.tree.Step(&scan)
		s.mu.RUnlock()
		switch {
		case code != jute.OK:
			return nil
		case done:
			return jute.NewDecoder(scan.Body).Strings()
		}
	}
}

func (s *state) znodeData(path string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	reply, code := s.tree.AppendGetData(nil, path, asSuper())
	if code != jute.OK {
		return ""
	}
	return string(jute.NewDecoder(reply).Buffer())
}
