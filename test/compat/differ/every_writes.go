package differ

import (
	"fmt"
	"math"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// rawBodies returns a generator that sends an operation that no client sends, and the neighbouring codes.
func rawBodies(op jute.Op) func(b *book) {
	return func(b *book) {
		bodies := []string{"", "\x00", strings.Repeat("\x00", 40), strings.Repeat("\xff", 64), strings.Repeat("x", 4097)}
		if op == jute.OpCreateSession {
			bodies = []string{"\x00\x04\x93\xe0"} // a timeout, without which Apache's reply isn't certain
		}
		for i, body := range bodies {
			b.script(fmt.Sprintf("body %d", i), b.step(0, "raw", int(op), body), b.step(1, "ping"))
		}
		if op == jute.OpNotification {
			for _, code := range []int{10, 23, 99, 108, 127, -2, -9, math.MaxInt32, math.MinInt32} {
				b.script(fmt.Sprintf("code %d", code), b.step(0, "raw", code, strings.Repeat("\x00", 40)), b.step(1, "ping"))
			}
		}
	}
}

// createModes returns a generator that creates znodes in every mode, then children of them, and shows their parent.
func createModes(word string) func(b *book) {
	return func(b *book) {
		for flags := -1; flags <= 8; flags++ {
			create := func(path string) step {
				args := []any{path, "d", everybody, flags}
				if word == "createTTL" {
					args = append(args, 3_600_000)
				}
				return b.step(0, word, args...)
			}
			var steps []step
			for _, path := range []string{"~/new", "~/new", "~/new/a", "~/parent/", "~/parent/s-", "~/old/a", "~/none/a"} {
				steps = append(steps, create(path), b.step(1, "getChildren2", "~", false))
			}
			steps = append(steps, b.step(1, "create", "~/new/b", "", everybody, 0), b.step(1, "delete", "~/new", -1))
			steps = append(steps, b.looks()...)
			steps = append(steps, create("~/again"), b.step(0, "closeSession"))
			b.script(fmt.Sprintf("flags %d", flags), append(steps, b.looks()...)...)
			b.script(fmt.Sprintf("flags %d in a multi", flags),
				append([]step{b.multi(0, "multi", create("~/new"), create("~/parent/s-"), create("~/parent/s-"))}, b.looks()...)...)
		}
		if word != "createTTL" {
			return
		}
		for _, ttl := range []int64{math.MinInt64, -1, 0, 1, 0xfffffffffe, 0xffffffffff, 0x10000000000, math.MaxInt64} {
			for flags := range 7 {
				s := b.step(0, word, "~/ttl", "d", everybody, flags, ttl)
				b.script(fmt.Sprintf("time to live %d with flags %d", ttl, flags), s, b.step(1, "getChildren2", "~", false))
			}
		}
	}
}

// versions returns a generator that changes a znode at versions around its own, which is 0, 1 or 2.
func versions(word string) func(b *book) {
	return func(b *book) {
		for changes := range 3 {
			for _, version := range []int{math.MinInt32, -2, -1, 0, 1, 2, 3, math.MaxInt32} {
				var steps []step
				for range changes {
					steps = append(steps, b.step(1, "setData", "~/old", "y", -1), b.step(1, "setACL", "~/old", everybody, -1))
				}
				args := ordinary(word)
				args[len(args)-1] = version
				s := b.step(0, word, args...)
				if word == "setACL" {
					steps = append(steps, s)
				} else {
					steps = append(steps, b.multi(0, "multi", s, b.step(0, "create", "~/old/a", "", everybody, 0)),
						b.multi(0, "multi", s))
				}
				if word != "check" {
					steps = append(steps, s)
				}
				b.script(fmt.Sprintf("%d at %d", version, changes), append(steps, b.looks()...)...)
			}
		}
	}
}

// multis writes multis of each number of operations, which succeed, or fail at the first, a middle or a late one.
func multis(b *book) {
	for _, n := range sizeClasses {
		for _, fails := range []int{-1, 0, 33, 4095} {
			if fails >= n {
				continue
			}
			var subs []step
			for i := range n {
				path := fmt.Sprintf("~/parent/%d", i/4)
				sub := b.step(0, "create", path, "d", everybody, 0)
				switch i % 4 {
				case 1:
					sub = b.step(0, "setData", path, "e", 0)
				case 2:
					sub = b.step(0, "check", path, 1)
				case 3:
					sub = b.step(0, "delete", path, 1)
				}
				if i == fails {
					sub = b.step(0, "check", "~/missing", -1)
				}
				subs = append(subs, sub)
			}
			steps := []step{
				b.step(1, "getChildren", "~/parent", true), b.step(1, "addWatch", "~/parent/0", 0), b.multi(0, "multi", subs...),
			}
			b.script(fmt.Sprintf("%d operations, failing at %d", n, fails), append(steps, b.looks()...)...)
		}
	}
	for _, word := range words() {
		if word == "multi" || word == "multiRead" || word == "deleteContainer" {
			continue
		}
		sub := b.step(0, word, ordinary(word)...)
		s := b.multi(0, "multi", b.step(0, "create", "~/parent/a", "", everybody, 0), sub)
		s.kind.risky = true
		b.script("with "+word, append([]step{s}, b.looks()...)...)
	}
}

// entries writes and reads ACLs of every form by users with and without rights.
func entries(b *book) {
	for i, acl := range acls() {
		b.script(fmt.Sprint("list ", i), b.step(0, "auth", 0, "digest", "joe:secret"), b.step(0, "setACL", "~/old", acl, 0),
			b.step(0, "getACL", "~/old"), b.step(1, "getACL", "~/old"), b.step(1, "getData", "~/old", false),
			b.step(1, "setData", "~/old", "z", -1), b.step(1, "delete", "~/old", -1))
	}
}

// logins adds identities of each size and number, and shows them.
func logins(b *book) {
	who := func(steps ...step) []step { return append(steps, b.step(0, "whoAmI"), b.step(1, "whoAmI")) }
	for _, n := range append([]int{1000, 4095, 8191}, sizeClasses...) {
		user := b.step(0, "auth", 0, "digest", strings.Repeat("u", n)+":secret")
		b.script(fmt.Sprintf("user name of %d bytes", n), who(user)...)
		password := b.step(0, "auth", 0, "digest", "joe:"+strings.Repeat("p", n))
		b.script(fmt.Sprintf("password of %d bytes", n), who(password, password)...)
	}
	for _, n := range []int{1, 2, 62, 63, 64, 65} {
		var steps []step
		for i := range n {
			steps = append(steps, b.step(0, "auth", 0, "digest", fmt.Sprintf("u%d:p", i)))
		}
		steps = append(who(steps...), b.step(0, "create", "~/new", "", []string{"31 auth "}, 0), b.step(0, "getACL", "~/new"))
		b.script(fmt.Sprintf("%d users", n), steps...)
	}
	b.script("superuser", who(b.step(0, "auth", 0, "digest", superUser),
		b.step(0, "setACL", "~/old", []string{"1 digest a:b"}, -1),
		b.step(0, "setData", "~/old", "z", -1))...)
}
