package differ

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// request returns a request with random arguments.
func (g *generator) request(conn int, word string) step {
	switch word {
	case "create", "create2", "createContainer", "createTTL":
		return g.create(conn, word)
	case "delete":
		return g.step(conn, word, mostly(g, 2, g.changed(), specialPaths...), g.version())
	case "deleteContainer":
		return g.step(conn, word, g.path())
	case "exists", "getData", "getChildren", "getChildren2":
		path := g.lookedAt()
		return g.step(conn, word, nullSometimes(g, path), watched(path) && g.chance(45))
	case "setData":
		return g.step(conn, word, nullSometimes(g, g.changed()), g.data(), g.version())
	case "setACL":
		return g.step(conn, word, nullSometimes(g, g.changed()), g.acl(), g.version())
	case "getACL", "getAllChildrenNumber":
		return g.step(conn, word, nullSometimes(g, g.lookedAt()))
	case "sync":
		return g.step(conn, word, nullSometimes(g, g.lookedAt()))
	case "check":
		return g.step(conn, word, g.path(), g.version())
	case "reconfig":
		servers := func() any { return pick[any](g, nil, nil, "", "server.2=127.0.0.1:1:2;3", "1", "x") }
		return g.step(conn, word, servers(), servers(), servers(), pick(g, -1, 0, 1))
	case "checkWatches", "removeWatches":
		return g.step(conn, word, nullSometimes(g, g.path()), mostly(g, 6, 1+g.r.IntN(5), 0, 6, -1))
	case "setWatches", "setWatches2":
		args := []any{pick(g, "0", "last", "mark", "mark", "max")}
		lists := 3
		if word == "setWatches2" {
			lists = 5
		}
		for range lists {
			args = append(args, g.watchList())
		}
		return g.step(conn, word, args...)
	case "addWatch":
		path := g.path()
		for !watched(path) {
			path = g.path()
		}
		return g.step(conn, word, path, mostly(g, 5, g.r.IntN(2), 2, -1))
	case "sasl":
		if g.late() && g.chance(30) {
			return g.step(conn, word, nil)
		}
		return g.step(conn, word, pick[any](g, "", "token"))
	case "getEphemerals":
		return g.step(conn, word, pick[any](g, "~", "", nil, "/", "~/a", "~/", "/nowhere", " ", g.path()))
	}
	panic("differ: no request " + word)
}

// nullSometimes occasionally replaces a path by the null string.
func nullSometimes(g *generator, path string) any {
	if g.late() && g.chance(5) {
		return nil
	}
	return path
}

// changed returns a path for a write that isn't a create: never the root, which all scripts share.
func (g *generator) changed() string {
	for {
		if path := g.path(); path != "/" && path != "" && path != "//" {
			return path
		}
	}
}

func (g *generator) watchList() []string {
	if g.late() && g.chance(3) {
		return nil
	}
	list := []string{}
	for range g.r.IntN(4) {
		if path := g.path(); watched(path) {
			list = append(list, path)
		}
	}
	return list
}

func (g *generator) create(conn int, word string) step {
	path := g.child()
	if g.chance(5) {
		path = pick(g, badPaths...)
	} else if g.chance(2) {
		path = pick(g, specialPaths...)
	}
	flags := mostly(g, 40, 0, 1, 1, 1, 2, 2, 3)
	ttl := mostly(g, 15, 3_600_000, -1, 0, 1, 0xffffffffff, 0x10000000000)
	switch word {
	case "createContainer":
		flags = mostly(g, 12, 4, 0, 1, 2, 3)
	case "createTTL":
		flags = mostly(g, 45, 5, 6, 6, 6, 0, 1)
	}
	if g.r.IntN(60) == 0 {
		flags = pick(g, 4, 5, 6, 7, -1, 100)
	}
	if word == "createTTL" && ttl < 0 && flags < 5 {
		ttl = 1 // otherwise Apache's server exits and doesn't start again: see TestWhatEndsApache
	}
	if flags == 2 || flags == 3 || flags == 6 {
		if path = pick(g, "~/s-", "~/s-", g.path()+"/", path); !ours(path) {
			path = "~/s-" // elsewhere the number depends on other scripts
		}
	} else {
		g.make(path)
	}
	args := []any{nullSometimes(g, path), g.data(), g.acl(), flags}
	if word == "createTTL" {
		args = append(args, ttl)
	}
	return g.step(conn, word, args...)
}

// multi returns a transaction, or several reads in one request.
func (g *generator) multi(conn int, word string) step {
	s := g.step(conn, word)
	kinds := []string{
		"create", "create2", "createContainer", "createTTL", "delete", "setData", "setData", "check", "check",
	}
	if word == "multiRead" {
		kinds = []string{"getData", "getChildren"}
	}
	for range g.r.IntN(6) {
		kind := pick(g, kinds...)
		if g.r.IntN(100) == 0 || word == "multiRead" && g.chance(2) {
			kind = pick(g, "exists", "getData", "create", "setACL", "sync", "getChildren")
		}
		sub := g.request(conn, kind)
		if kind == "getData" || kind == "getChildren" {
			sub.args = []value{toValue(g.changed()), {}}
		}
		if kind == "check" && g.chance(60) {
			sub.args[1] = toValue(-1)
		}
		s.subs = append(s.subs, sub)
	}
	if g.chance(25) && word == "multi" {
		// The operations use the same path: each must see the effects of those before it.
		path := g.child()
		acl := []string{worldAll}
		s.subs = append(s.subs, g.step(conn, "create", path, "1", acl, g.r.IntN(3)),
			g.step(conn, "setData", path, "2", pick(g, -1, 0, 0)),
			g.step(conn, "check", path, pick(g, -1, 1, 1)))
		if g.chance(50) {
			s.subs = append(s.subs, g.step(conn, "create2", path+"/a", nil, acl, pick(g, 0, 1, 2)))
		}
		if g.chance(50) {
			s.subs = append(s.subs, g.step(conn, "delete", path, pick(g, -1, 1)))
		}
		g.make(path)
	}
	if g.late() && g.chance(5) && word == "multi" {
		path, acl := g.fresh(), []string{worldAll}
		s.subs = []step{
			g.step(conn, "createContainer", path, "", acl, pick(g, 1, 1, 3)), g.step(conn, "create", path+"/a", "", acl, 0),
		}
	}
	if g.late() && g.chance(5) && word == "multiRead" {
		s.subs = []step{g.create(conn, "create")}
	}
	g.damage(&s)
	return s
}

// storm leaves watches of several kinds on a path, then changes it from another connection.
func (g *generator) storm(conn int) {
	path := g.fresh()
	for range 1 + g.r.IntN(4) {
		at := pick(g, path, path, "~")
		switch g.r.IntN(4) {
		case 0:
			g.add(conn, "addWatch", at, g.r.IntN(2))
		case 1:
			g.add(conn, pick(g, "getChildren", "getChildren2"), at, true)
		default:
			g.add(conn, pick(g, "exists", "getData"), at, true)
		}
	}
	other := g.r.IntN(g.conns)
	acl := []string{worldAll}
	switch g.r.IntN(3) {
	case 0:
		g.add(other, "create", path, "", acl, 0)
		g.add(other, "delete", path, -1)
	case 1:
		g.add(other, "create", path, "", acl, 1)
		g.add(other, "setData", path, "new", -1)
		g.add(other, "closeSession")
		g.open[other], g.over[other] = false, true
	case 2:
		s := g.step(other, "multi")
		s.subs = []step{
			g.step(other, "create", path, "", acl, 0), g.step(other, "setData", path, "new", -1), g.step(other, "delete", path,
				-1),
		}
		g.steps = append(g.steps, s)
	}
}

// raw sends a request that no client sends.
func (g *generator) raw(conn int) {
	op := pick(g, 0, 10, 23, 13, 99, 108, 127, -1, -2, -100, 1<<30)
	body := pick(g, "", "\x00", strings.Repeat("\xff", 20), strings.Repeat("\x00", 40))
	if g.late() && g.chance(30) {
		op, body = int(jute.OpCreateSession), "\x00\x04\x93\xe0" // a timeout
	}
	g.add(conn, "raw", op, body)
	g.open[conn] = false
}
