package differ

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator generates the steps of one script.
type generator struct {
	*vocabulary
	r     *rand.Rand
	conns int
	total int      // number of steps to generate
	open  []bool   // whether the connection is open, as far as predictable
	over  []bool   // the session is closed
	made  []string // paths that may exist
	steps []step
}

// generate returns a script of n steps after its opening ones. The result depends only on seed, script and n.
func (w *vocabulary) generate(seed, script uint64, n int) []step {
	g := &generator{vocabulary: w, total: n, r: rand.New(rand.NewPCG(seed, script))}
	g.conns = 2 + g.r.IntN(3)
	g.open, g.over = make([]bool, g.conns), make([]bool, g.conns)
	for conn := range g.conns {
		g.connect(conn)
	}
	g.add(0, "create", "~", "", []string{worldAll}, 0)
	g.add(0, "create", "/zookeeper/quota~", "", []string{worldAll}, 0)
	for opening := len(g.steps); len(g.steps) < opening+n; {
		g.draw()
	}
	return g.steps
}

func (g *generator) add(conn int, word string, args ...any) *step {
	g.steps = append(g.steps, g.step(conn, word, args...))
	return &g.steps[len(g.steps)-1]
}

// chance returns true in percent of cases.
func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

// pick returns a random one of several values.
func pick[T any](g *generator, of ...T) T { return of[g.r.IntN(len(of))] }

// mostly returns usual, or in percent of cases a random one of the others.
func mostly[T any](g *generator, percent int, usual T, others ...T) T {
	if g.chance(percent) {
		return pick(g, others...)
	}
	return usual
}

// late reports whether the script is near its end: the time for steps that show a known difference after which nothing
// can be compared.
func (g *generator) late() bool { return len(g.steps) > g.total*9/10 }

// weights says how often each word is chosen.
var weights = []struct {
	word   string
	weight int
}{
	{"create", 90}, {"create2", 50}, {"createContainer", 25}, {"createTTL", 25}, {"delete", 75},
	{"exists", 60}, {"getData", 60}, {"setData", 75}, {"getACL", 25}, {"setACL", 30}, {"getChildren", 40},
	{"getChildren2", 40}, {"sync", 12}, {"ping", 8}, {"check", 2}, {"multi", 70}, {"multiRead", 25}, {"reconfig", 6},
	{"checkWatches", 25}, {"removeWatches", 25}, {"setWatches", 20}, {"setWatches2", 20}, {"addWatch", 45},
	{"auth", 25}, {"sasl", 2}, {"getEphemerals", 20}, {"getAllChildrenNumber", 20}, {"whoAmI", 12}, {"closeSession", 10},
	{"raw", 3}, {"connect", 12}, {"drop", 8}, {"mark", 8}, {"frame", 2}, {"quota", 30}, {"storm", 6},
}

func (g *generator) word() string {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := g.r.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.word
		}
	}
	panic("differ: weights don't add up")
}

// draw adds a random step, or a few that belong together.
func (g *generator) draw() {
	conn := g.r.IntN(g.conns)
	if !g.open[conn] {
		g.connect(conn)
		return
	}
	word := g.word()
	if g.late() && g.chance(3) {
		word = pick(g, "deleteContainer", "sasl", "raw")
	}
	switch word {
	case "deleteContainer":
		if g.late() {
			g.steps = append(g.steps, g.request(conn, word))
		}
	case "connect":
		g.reconnect(conn)
	case "drop", "closeSession":
		g.add(conn, word)
		g.open[conn] = false
		g.over[conn] = word == "closeSession" && g.chance(90)
	case "mark", "ping", "whoAmI":
		g.add(conn, word)
	case "quota":
		g.quota(conn)
	case "storm":
		g.storm(conn)
	case "multi", "multiRead":
		g.steps = append(g.steps, g.multi(conn, word))
	case "raw":
		g.raw(conn)
	case "frame":
		g.add(conn, word,
			pick(g, "\xff\xff\xff\xff", "\x00\x10\x00\x00", "\x7f\xff\xff\xff", "\x00\x00\x00\x00", "\x00\x00\x00\x03abc",
				"\x00\x00\x00\x07abcdefg"))
		g.open[conn] = false
	case "auth":
		g.auth(conn)
	case "check":
		g.steps = append(g.steps, g.request(conn, word))
		g.open[conn] = false
	default:
		s := g.request(conn, word)
		g.damage(&s)
		g.steps = append(g.steps, s)
	}
}

// damage occasionally cuts a request short or makes it too long.
func (g *generator) damage(s *step) {
	switch g.r.IntN(150) {
	case 0:
		s.cut = 1 + g.r.IntN(12)
	case 1:
		s.more = strings.Repeat("z", 1+g.r.IntN(9))
	case 2:
		s.xid = pick(g, int32(1), 0x7fffffff, -8, -3, -100)
	}
}

func (g *generator) connect(conn int) {
	how := mostly(g, 8, connectNew, connectOld, connectReadOnly, connectNull)
	if len(g.steps) > 2*g.conns && !g.over[conn] && g.chance(70) {
		how = connectResume
	}
	if len(g.steps) > 2*g.conns && !g.over[conn] && g.chance(20) {
		g.add(conn, "connect", pick(g, connectWrong, connectShort), 300_000) // no connection uses that session
	}
	g.over[conn] = false
	g.add(conn, "connect", how, mostly(g, 10, 300_000, 1, 0, -1, 100_000_000, 61_000))
	g.open[conn] = true
}

func (g *generator) reconnect(conn int) {
	how := pick(g, connectResume, connectResume, connectGone, connectAhead, connectNew)
	if g.chance(3) {
		how = pick(g, connectWrong, connectShort) // Apache closes the seat's connection, so little can be compared afterwards
	}
	g.add(conn, "connect", how, 300_000)
}

// The identities that scripts use. The servers are configured with the hash of "super:test" as the superuser's.
const (
	worldAll  = "31 world anyone"
	superUser = "super:test"
)

var users = []string{"ann:secret", "bob:", "bob:x", "c:d:e"}

// digestID returns the id of a digest identity in an ACL.
func digestID(user string) string {
	name, _, _ := strings.Cut(user, ":")
	hash := sha1.Sum([]byte(user))
	return name + ":" + base64.StdEncoding.EncodeToString(hash[:])
}

func (g *generator) auth(conn int) {
	scheme, auth := "digest", any(pick(g, users...))
	if g.chance(12) {
		auth = superUser
	}
	switch g.r.IntN(14) {
	case 0:
		scheme = pick(g, "bogus", "", "world", "auth", "super", "sasl", "x509")
	case 1:
		auth = pick[any](g, "", "nocolon", ":", ":p", "u:")
	case 2:
		scheme = "ip"
	}
	s := g.add(conn, "auth", mostly(g, 10, 0, 1, -1, 100), scheme, auth)
	switch {
	case !g.late():
	case g.chance(10):
		s.cut = 1 + g.r.IntN(10)
	case g.chance(5):
		s.args[2] = value{null: true}
	}
	if scheme != "digest" && scheme != "ip" {
		g.open[conn] = false
	}
}

func (g *generator) acl() value {
	n := 1 + g.r.IntN(2)*g.r.IntN(3)
	if g.chance(70) {
		return toValue([]string{worldAll})
	}
	if g.late() && g.chance(20) {
		return value{null: true}
	}
	if g.chance(6) {
		return toValue([]string{})
	}
	var list []string
	for range n {
		list = append(list, fmt.Sprintf("%d %s", pick(g, 31, 31, 31, 1, 2, 4, 8, 16, 17, 15, 3, 0, 32, -1), g.identity()))
	}
	return toValue(list)
}

func (g *generator) identity() string {
	if g.late() && g.chance(12) {
		return pick(g, "- id", "world -", "auth -", "- -", "digest -")
	}
	if g.chance(10) {
		return pick(g, "bogus id", "world someone", "digest nocolon", "digest a:b:c", "digest u:", "ip 10.0.0.256",
			"ip 10.0.0.1/33",
			"ip x", "ip ", "ip ::1", "ip 1::2::3", "super ", "sasl u", "x509 CN=a", " ", "ip 10.1")
	}
	switch g.r.IntN(8) {
	case 0, 1:
		return "world anyone"
	case 2, 3:
		return "auth "
	case 4:
		return "ip " + pick(g, "127.0.0.1", "127.0.0.0/8", "10.0.0.1", "0.0.0.0/0", "127.0.0.1/32", "127.0.0.1/0")
	case 5:
		return "auth ignored"
	}
	return "digest " + digestID(pick(g, users...))
}

func (g *generator) data() value {
	switch g.r.IntN(40) {
	case 0, 1, 2:
		return value{null: true}
	case 3, 4, 5:
		return value{}
	case 6, 7:
		return value{text: strings.Repeat("m", 100+g.r.IntN(3000))}
	case 8:
		if g.chance(2) {
			return value{text: strings.Repeat("h", pick(g, 1_048_400, 1_048_576, 1_040_000))}
		}
	}
	return value{text: fmt.Sprint("d", g.r.IntN(1000))}
}

func (g *generator) version() int {
	return mostly(g, 45, -1, 0, 0, 0, 0, 1, 1, 2, 3, 7, -2, 0x7fffffff, -0x80000000)
}
