package matrix

import (
	"fmt"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// preparedAtOnce is the number of operations in a multi that creates the cells' znodes.
const preparedAtOnce = 200

// A player plays cells on one server, with one connection for each kind of client.
type player struct {
	clients []*client // by identity; nil for TLS clients if the server has no TLS
	next    int       // number of the next cell
}

func newPlayer(at place) (*player, error) {
	p := &player{}
	for _, who := range identities() {
		if who.tls && at.secure == "" {
			p.clients = append(p.clients, nil)
			continue
		}
		c, err := connect(at, who)
		if err != nil {
			p.close()
			return nil, err
		}
		p.clients = append(p.clients, c)
	}
	_, err := p.clients[0].ask(single(node(cellsRoot, open())), nil)
	return p, err
}

func (p *player) close() {
	for _, c := range p.clients {
		if c != nil {
			c.close()
		}
	}
}

// answer is the outcome of a cell.
type answer struct {
	steps, after, events []string
}

func (a *answer) String() string {
	text := strings.Join(a.steps, "; ")
	if len(a.after) > 0 {
		text += "; afterwards " + strings.Join(a.after, "; ")
	}
	if len(a.events) > 0 {
		text += "; events " + strings.Join(a.events, ", ")
	}
	return text
}

// play plays cells, all at the same time.
func (p *player) play(cells []cell) ([]answer, error) {
	first := p.next
	p.next += len(cells)
	answers := make([]answer, len(cells))
	var prepare []jute.MultiOp
	steps := make([][]owned, len(p.clients)) // by identity
	var after []owned
	for i := range cells {
		root := rootOf(first + i)
		before, asked, then := cells[i].make(root)
		prepare = append(append(prepare, node(root, open())), before...)
		steps[cells[i].who] = append(steps[cells[i].who], own(i, asked)...)
		after = append(after, own(i, then)...)
	}
	if err := p.prepare(prepare); err != nil {
		return nil, err
	}
	err := p.each(func(who int) error {
		return askFor(p.clients[who], steps[who], first, cells, answers, func(a *answer) *[]string { return &a.steps })
	})
	if err != nil {
		return nil, err
	}
	if err := askFor(p.clients[0], after, first, cells, answers,
		func(a *answer) *[]string { return &a.after }); err != nil {
		return nil, err
	}
	// Events so far arrive before the answer to a request sent now.
	barrier := []owned{{0, step{jute.OpWhoAmI, nil}}}
	err = p.each(func(who int) error {
		return askFor(p.clients[who], barrier, first, cells, answers, func(*answer) *[]string { return new([]string) })
	})
	return answers, err
}

// prepare creates the cells' znodes.
func (p *player) prepare(ops []jute.MultiOp) error {
	var steps []step
	for len(ops) > 0 {
		n := min(preparedAtOnce, len(ops))
		steps = append(steps, multi(jute.OpMulti, ops[:n]...)...)
		ops = ops[n:]
	}
	answers, err := p.clients[0].ask(steps, func(jute.WatcherEvent) {})
	for _, a := range answers {
		if !strings.HasPrefix(a, "ok") || strings.Contains(a, "[error") {
			return fmt.Errorf("preparing cells: %.400s", a)
		}
	}
	return err
}

// each calls f for all kinds of clients concurrently.
func (p *player) each(f func(who int) error) error {
	errs := make([]error, len(p.clients))
	var running sync.WaitGroup
	for who := range p.clients {
		running.Go(func() { errs[who] = f(who) })
	}
	running.Wait()
	for who, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", identities()[who].name, err)
		}
	}
	return nil
}

// owned is a step that belongs to a cell.
type owned struct {
	cell int
	step
}

func own(cell int, steps []step) []owned {
	var all []owned
	for _, s := range steps {
		all = append(all, owned{cell, s})
	}
	return all
}

// askFor sends the steps of many cells on one connection, and assigns the answers and the events to the cells. A cell
// belongs to one kind of client, so no two connections get events for the same cell, except the superuser's, which
// sets no watches in other clients' cells.
func askFor(c *client, asked []owned, first int, cells []cell, answers []answer, list func(*answer) *[]string) error {
	steps := make([]step, len(asked))
	for i := range asked {
		steps[i] = asked[i].step
	}
	texts, err := c.ask(steps, func(e jute.WatcherEvent) {
		if at := cellOf(e.Path) - first; at >= 0 && at < len(answers) {
			answers[at].events = append(answers[at].events, fmt.Sprintf("%v of %s", e.Type, e.Path))
		}
	})
	for i, text := range texts {
		l := list(&answers[asked[i].cell])
		*l = append(*l, text)
	}
	if err != nil && len(texts) < len(asked) {
		return fmt.Errorf("%s: %w", cells[asked[len(texts)].cell].name, err)
	}
	return err
}
