package files

import (
	"fmt"
	"strings"
)

// fixQuotas recomputes the stats of each quota, as Apache does when it starts. Apache's digest doesn't include them.
func (s *State) fixQuotas() {
	var paths []string
	for path, z := range s.nodes { // any order: each quota has its own stats
		quota, ok := strings.CutSuffix(path, "/"+limitsName)
		if quota, below := strings.CutPrefix(quota, quotaRoot); ok && below && z.Stat.Owner == 0 {
			if s.nodes[quotaRoot+quota+"/"+statsName] != nil {
				paths = append(paths, quota)
			}
		}
	}
	if len(paths) == 0 {
		return
	}
	count, bytes := map[string]int64{}, map[string]int64{}
	for _, path := range paths {
		count[path] = 0
	}
	for path, z := range s.nodes { // any order: only adds
		for {
			if _, ok := count[path]; ok {
				count[path]++
				bytes[path] += int64(len(z.Data))
			}
			at := strings.LastIndexByte(path, '/')
			if at < 0 {
				break
			}
			path = path[:at]
		}
	}
	for _, path := range paths {
		stats := s.nodes[quotaRoot+path+"/"+statsName]
		stats.Data = fmt.Appendf(nil, "count=%d,bytes=%d", count[path], bytes[path])
	}
}
