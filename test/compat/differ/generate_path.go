package differ

import (
	"fmt"
	"strings"
)

// names are few, so that steps use the same ones.
var names = []string{"a", "b", "c", "d", "e f", "é", "x.y"}

// badPaths are rejected by writes; for reads they don't exist, or worse.
var badPaths = []string{
	"", "noslash", "~//a", "~/a/", "~/.", "~/..", "~/./a", "~/a/../b", "~/a\x00b", "~/a\x01", "~/\x1f", "~/\x7f",
	"~/\u009f", "~/\u00a0",
	"~/\ud7ff", "~/\ue000", "~/\uf8ff", "~/\uf900", "~/\uffef", "~/\ufff0", "~/\uffff", "~/😀", "~/\xff", "~/a\xc3",
	"~/\xed\xa0\x80",
	"//", "~//", "/~", "~/a/b/c/d/e/f", "~/...", "~/.a", "~/a.", "~/a\nb", "~/\u2028", "~/\u200b", "~/ ", "~/-", "~/%00",
}

// specialPaths exist on every server. No step may change them, as other scripts read them too.
var specialPaths = []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}

// fresh returns a path that may or may not exist.
func (g *generator) fresh() string {
	depth := pick(g, 1, 1, 1, 2, 2, 2, 3)
	path := "~"
	for range depth {
		path += "/" + names[min(g.r.IntN(len(names)), g.r.IntN(len(names)))]
	}
	return path
}

// child returns a path to create.
func (g *generator) child() string {
	switch n := g.r.IntN(100); {
	case n < 45:
		return "~/" + names[min(g.r.IntN(len(names)), g.r.IntN(len(names)))]
	case n < 85 && len(g.made) > 0:
		return pick(g, g.made...) + "/" + pick(g, names...)
	}
	return g.fresh()
}

// path returns a path to use: mostly one that was created before.
func (g *generator) path() string {
	switch n := g.r.IntN(100); {
	case n < 70 && len(g.made) > 0:
		return pick(g, g.made...)
	case n < 86:
		return g.fresh()
	case n < 90:
		return fmt.Sprintf("~/s-%010d", g.r.IntN(12))
	case n < 96:
		return "~"
	}
	return pick(g, badPaths...)
}

// lookedAt returns a path to read.
func (g *generator) lookedAt() string {
	if g.chance(4) {
		return pick(g, specialPaths...)
	}
	if g.chance(4) {
		return g.limits("")
	}
	return g.path()
}

// make records that a path may exist from now on.
func (g *generator) make(path string) {
	if !ours(path) || len(path) > 200 {
		return
	}
	const many = 24
	if len(g.made) == many {
		g.made = g.made[1:]
	}
	g.made = append(g.made, path)
}

// ours reports whether a path lies below the script's root.
func ours(path string) bool { return strings.HasPrefix(path, "~/") }

// watched reports whether a watch may be set on a path: other scripts must not trigger it.
func watched(path string) bool {
	return path != "/" && path != "" && path != "//" && !strings.HasPrefix(path, "/zookeeper") ||
		strings.HasPrefix(path, "/zookeeper/quota~")
}

// limits returns a path in the quota tree.
func (g *generator) limits(leaf string) string {
	if leaf == "" {
		leaf = pick(g, "", "/zookeeper_stats", "/zookeeper_stats", "/zookeeper_limits")
	}
	return "/zookeeper/quota~" + pick(g, "", "/a", "/b", "/a/b") + leaf
}

// quota adds a step on the quota tree, or the steps that set one up.
func (g *generator) quota(conn int) {
	count, bytes := g.r.IntN(8)-1, g.r.IntN(60)-1
	data := fmt.Sprintf("count=%d,bytes=%d", count, bytes)
	switch g.r.IntN(4) {
	case 0:
		data += fmt.Sprintf("=;byteHardLimit=%d;countHardLimit=%d", g.r.IntN(60)-1, g.r.IntN(8)-1)
	case 1:
		data = fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", g.r.IntN(8)-1)
	}
	if g.chance(5) {
		// a value that isn't a number would make Apache exit
		data = pick(g, "", "count=1", "bytes=5", "count=1,bytes=2,count=3", "count=1;bytes=2", "countHardLimit=1")
	}
	if g.late() && g.chance(20) {
		g.overLimit(conn)
		return
	}
	at := "/zookeeper/quota~" + pick(g, "", "/a", "/a", "/b", "/a/b")
	acl := []string{worldAll}
	switch g.r.IntN(6) {
	case 0, 1:
		if at != "/zookeeper/quota~" {
			g.add(conn, "create", at, "", acl, 0)
		}
		g.add(conn, "create", at+"/zookeeper_limits", data, acl, 0)
		g.add(conn, "create", at+"/zookeeper_stats", "count=0,bytes=0", acl, 0)
	case 2:
		g.add(conn, "setData", at+pick(g, "/zookeeper_limits", "/zookeeper_limits", "/zookeeper_stats"), data, g.version())
	case 3:
		g.add(conn, "delete", at+pick(g, "/zookeeper_limits", "/zookeeper_stats"), -1)
	case 4:
		g.add(conn, "getData", at+"/zookeeper_stats", g.chance(30))
	case 5:
		g.add(conn, "getData", at+"/zookeeper_limits", false)
	}
}

// overLimit exceeds a hard limit in one multi.
func (g *generator) overLimit(conn int) {
	acl := []string{worldAll}
	g.add(conn, "create", "~/q", "", acl, 0)
	g.add(conn, "create", "/zookeeper/quota~/q", "", acl, 0)
	g.add(conn, "create", "/zookeeper/quota~/q/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
		acl, 0)
	g.add(conn, "create", "/zookeeper/quota~/q/zookeeper_stats", "", acl, 0)
	s := g.step(conn, "multi")
	for i := range 1 + g.r.IntN(4) {
		s.subs = append(s.subs, g.step(conn, "create", "~/q/"+names[i], "", acl, 0))
	}
	g.steps = append(g.steps, s)
	g.add(conn, "create", "~/q/"+names[5], "", acl, 0)
}
