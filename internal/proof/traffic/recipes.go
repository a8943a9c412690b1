package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// Recipes is the second generator of load: clients that act like real ones. Each does rounds of a lock, a queue and a
// counter in turn. Besides recording the history, it checks the recipes' own invariants: fencing tokens grow, no item
// is taken twice or lost, and the counter counts every acknowledged increment.
type Recipes struct {
	Addrs     []string
	Journal   *history.Journal
	Root      string
	Clients   int
	Rounds    int           // per client
	Duration  time.Duration // 0 means 1 minute
	DropEvery int           // rounds between two forced disconnects; 0 means never
	Timeout   time.Duration // of sessions; 0 means 10 s
	PerSecond float64       // bounds each client's rounds per second, on average; 0 means no bound

	ended    atomic.Bool
	deadline time.Time
	mu       sync.Mutex
	tokens   []int64        // fencing tokens in the order in which they were written to the guard
	put      map[string]int // by item: 1 if the put was acknowledged, 0 if unknown
	taken    map[string]int // by item: how often it was taken with an acknowledgement
	counted  int            // acknowledged increments
	perhaps  int            // unacknowledged increments
	maybe    map[string]bool
}

// Run runs the recipes. It returns an error that names every violated invariant, or says why the recipes couldn't be
// run.
func (r *Recipes) Run() error {
	r.Duration = cmp.Or(r.Duration, time.Minute)
	r.deadline = time.Now().Add(r.Duration)
	r.put, r.taken, r.maybe = map[string]int{}, map[string]int{}, map[string]bool{}
	first := r.actor(0)
	if err := r.prepare(first); err != nil {
		return err
	}
	if err := first.c.Close(); err != nil { // it would be idle until the end, and expire if its server stops
		return err
	}
	errs := make([]error, r.Clients)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = r.drive(r.actor(i + 1)) })
	}
	wg.Wait()
	r.deadline = time.Now().Add(min(r.Duration, restTime))
	last := r.actor(0)
	return errors.Join(errors.Join(errs...), r.verify(last), last.c.Close())
}

// An actor is one client of the recipes.
type actor struct {
	r      *Recipes
	name   string
	c      *Client
	woken  chan struct{} // a watch fired, or the connection ended
	serial int
	stray  bool // it may have left a place in the lock's line
}

func (r *Recipes) actor(i int) *actor {
	a := &actor{r: r, name: "actor" + strconv.Itoa(i), woken: make(chan struct{}, 1)}
	a.c = NewClient(r.Journal, ClientOptions{Timeout: r.Timeout, OnEvent: func(jute.WatcherEvent) {
		select {
		case a.woken <- struct{}{}:
		default:
		}
	}}, r.Addrs...)
	return a
}

func (r *Recipes) prepare(a *actor) error {
	for _, p := range []string{"", "/lock", "/queue", "/guard", "/counter"} {
		q := jute.CreateRequest{Path: r.Root + p, Data: []byte("0"), ACL: jute.WorldACL(jute.PermAll)}
		if err := created(a.do(jute.OpCreate, q.Append(nil))); err != nil {
			return fmt.Errorf("create %s for the recipes: %w", q.Path, err)
		}
	}
	return nil
}

// do sends a request, and connects first if necessary. An error means that the connection ended before the reply, or
// that the time is up.
func (a *actor) do(op jute.Op, body []byte) (*Call, error) {
	for {
		call, err := a.c.Send(op, body)
		if err == nil {
			if code := call.Wait(); call.Lost {
				return call, code
			}
			return call, nil
		}
		if err := a.c.Connect(); err != nil {
			if time.Now().After(a.r.deadline) {
				return nil, fmt.Errorf("%s: no server could be reached in time: %w", op, err)
			}
			if !errors.Is(err, ErrExpired) {
				time.Sleep(max(reconnectPause, newPace(a.r.PerSecond).interval))
			}
		}
	}
}

func (a *actor) value() []byte {
	a.serial++
	return fmt.Appendf(nil, "%s-%d", a.name, a.serial)
}

// End ends the recipes early: Run verifies the final state and returns.
func (r *Recipes) End() { r.ended.Store(true) }

func (r *Recipes) drive(a *actor) error {
	pace := newPace(r.PerSecond)
	for round := range r.Rounds {
		if pace.wait(); time.Now().After(r.deadline) || r.ended.Load() {
			break
		}
		if r.DropEvery > 0 && round%r.DropEvery == r.DropEvery-1 {
			a.c.Drop()
		}
		var err error
		switch round % 4 {
		case 0:
			err = a.lock()
		case 1:
			err = a.enqueue()
		case 2:
			err = a.dequeue()
		case 3:
			err = a.count()
		}
		if err != nil && !errors.Is(err, jute.ErrConnectionLoss) {
			return err
		}
	}
	if err := a.c.Close(); err != nil && !errors.Is(err, jute.ErrConnectionLoss) {
		return err
	}
	return nil
}

// lock takes the lock, writes its fencing token, the czxid of its place in the line, to the guard, and releases the
// lock.
func (a *actor) lock() (err error) {
	dir := a.r.Root + "/lock"
	if a.stray {
		if err := a.leaveLine(dir); err != nil {
			return err
		}
	}
	a.stray = true
	defer func() { a.stray = err != nil }()
	q := jute.CreateRequest{
		Path: dir + "/" + a.name + "-", Data: a.value(), ACL: jute.WorldACL(jute.PermAll),
		Flags: jute.ModeEphemeralSequential,
	}
	call, err := a.do(jute.OpCreate2, q.Append(nil))
	if err != nil || call.Err != jute.OK {
		return err
	}
	var mine jute.Create2Response
	mine.Decode(jute.NewDecoder(call.Body))
	path := strings.Clone(mine.Path)
	for {
		ahead, err := a.ahead(dir, path)
		if err != nil {
			return err
		}
		if ahead == "" {
			break
		}
		w := jute.PathWatchRequest{Path: ahead, Watch: true}
		if call, err = a.do(jute.OpGetData, w.Append(nil)); err != nil {
			return err
		}
		if call.Err == jute.OK && !a.sleep() {
			return nil // time is up; the end of the session removes the place
		}
	}
	ops := []jute.MultiOp{
		{Op: jute.OpCheck, Path: path, Version: -1},
		{Op: jute.OpSetData, Path: a.r.Root + "/guard", Data: strconv.AppendInt(nil, mine.Stat.Czxid, 10), Version: -1},
		{Op: jute.OpDelete, Path: path, Version: -1},
	}
	if call, err = a.do(jute.OpMulti, jute.AppendMulti(nil, ops)); err != nil {
		return err
	}
	results, _ := jute.DecodeMultiResponse(jute.NewDecoder(call.Body))
	if len(results) == 3 && results[0].Op != jute.OpError {
		a.r.mu.Lock()
		a.r.tokens = append(a.r.tokens, results[1].Stat.Mzxid, mine.Stat.Czxid)
		a.r.mu.Unlock()
	}
	return nil
}

// leaveLine deletes the client's places in the line.
func (a *actor) leaveLine(dir string) error {
	w := jute.PathWatchRequest{Path: dir}
	call, err := a.do(jute.OpGetChildren, w.Append(nil))
	if err != nil {
		return err
	}
	for _, name := range jute.NewDecoder(call.Body).Strings() {
		if strings.HasPrefix(name, a.name+"-") {
			q := jute.PathVersionRequest{Path: dir + "/" + name, Version: -1}
			if _, err := a.do(jute.OpDelete, q.Append(nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ahead returns the path just before mine in the line, "" if there is none.
func (a *actor) ahead(dir, mine string) (string, error) {
	w := jute.PathWatchRequest{Path: dir}
	call, err := a.do(jute.OpGetChildren, w.Append(nil))
	if err != nil {
		return "", err
	}
	number := mine[len(mine)-10:]
	best, found := "", false
	for _, name := range jute.NewDecoder(call.Body).Strings() {
		n := name[max(0, len(name)-10):]
		found = found || dir+"/"+name == mine
		if n < number && (best == "" || n > best[len(best)-10:]) {
			best = name
		}
	}
	if !found {
		return "", jute.ErrConnectionLoss // the session ended meanwhile; this isn't the servers' error
	}
	if best == "" {
		return "", nil
	}
	return dir + "/" + best, nil
}

// sleep waits for an event, but only for a while, since the event may have been sent to a connection that is gone. It
// returns false when the time is up.
func (a *actor) sleep() bool {
	select {
	case <-a.woken:
	case <-time.After(100 * time.Millisecond):
	}
	return time.Now().Before(a.r.deadline)
}

func (a *actor) enqueue() error {
	item := a.value()
	q := jute.CreateRequest{
		Path: a.r.Root + "/queue/item-", Data: item, ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModePersistentSequential,
	}
	call, err := a.do(jute.OpCreate, q.Append(nil))
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	switch {
	case err == nil && call.Err == jute.OK:
		a.r.put[string(item)] = 1
	case err != nil:
		a.r.put[string(item)] = 0
	}
	return err
}

func (a *actor) dequeue() error {
	dir := a.r.Root + "/queue"
	w := jute.PathWatchRequest{Path: dir}
	call, err := a.do(jute.OpGetChildren, w.Append(nil))
	if err != nil {
		return err
	}
	names := jute.NewDecoder(call.Body).Strings()
	slices.Sort(names)
	for _, name := range names {
		w.Path = dir + "/" + name
		if call, err = a.do(jute.OpGetData, w.Append(nil)); err != nil {
			return err
		}
		if call.Err != jute.OK {
			continue
		}
		item := string(jute.NewDecoder(call.Body).Buffer())
		q := jute.PathVersionRequest{Path: w.Path, Version: 0}
		call, err = a.do(jute.OpDelete, q.Append(nil))
		a.r.mu.Lock()
		switch {
		case err != nil:
			a.r.maybe[item] = true
		case call.Err == jute.OK:
			a.r.taken[item]++
		}
		a.r.mu.Unlock()
		if err != nil || call.Err == jute.OK {
			return err
		}
	}
	return nil
}

// count increments the counter by compare-and-set.
func (a *actor) count() error {
	w := jute.PathWatchRequest{Path: a.r.Root + "/counter"}
	for time.Now().Before(a.r.deadline) {
		call, err := a.do(jute.OpGetData, w.Append(nil))
		if err != nil {
			return err
		}
		var g jute.GetDataResponse
		g.Decode(jute.NewDecoder(call.Body))
		n, err := strconv.Atoi(string(g.Data))
		if err != nil {
			return fmt.Errorf("the counter holds %q: %w", g.Data, err)
		}
		q := jute.SetDataRequest{Path: w.Path, Data: strconv.AppendInt(nil, int64(n+1), 10), Version: g.Stat.Version}
		call, err = a.do(jute.OpSetData, q.Append(nil))
		if err == nil && call.Err == jute.ErrBadVersion {
			continue
		}
		a.r.mu.Lock()
		if err != nil {
			a.r.perhaps++
		} else if call.Err == jute.OK {
			a.r.counted++
		}
		a.r.mu.Unlock()
		return err
	}
	return nil
}

// verify reads the final state and checks the recipes' invariants.
func (r *Recipes) verify(a *actor) error {
	var errs []error
	w := jute.PathWatchRequest{Path: r.Root + "/counter"}
	call, err := a.do(jute.OpGetData, w.Append(nil))
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(jute.NewDecoder(call.Body).Buffer()))
	if n < r.counted || n > r.counted+r.perhaps {
		errs = append(errs,
			fmt.Errorf("the counter is %d after %d acknowledged increments and %d unknown ones", n, r.counted, r.perhaps))
	}
	w.Path = r.Root + "/queue"
	if call, err = a.do(jute.OpGetChildren, w.Append(nil)); err != nil {
		return err
	}
	left := map[string]bool{}
	for _, name := range jute.NewDecoder(call.Body).Strings() {
		w.Path = r.Root + "/queue/" + name
		if call, err = a.do(jute.OpGetData, w.Append(nil)); err != nil {
			return err
		}
		left[string(jute.NewDecoder(call.Body).Buffer())] = true
	}
	return errors.Join(append(errs, r.verifyQueue(left), r.verifyTokens())...)
}

func (r *Recipes) verifyQueue(left map[string]bool) error {
	var errs []error
	for _, item := range slices.Sorted(maps.Keys(r.put)) {
		switch {
		case r.taken[item] > 1:
			errs = append(errs, fmt.Errorf("item %s was taken %d times", item, r.taken[item]))
		case r.taken[item] == 1 && left[item]:
			errs = append(errs, fmt.Errorf("item %s was taken and is still in the queue", item))
		case r.put[item] == 1 && r.taken[item] == 0 && !left[item] && !r.maybe[item]:
			errs = append(errs, fmt.Errorf("item %s was put, nobody took it, and it is gone", item))
		}
	}
	return errors.Join(errs...)
}

// verifyTokens checks that actors that wrote to the guard later had later tokens.
func (r *Recipes) verifyTokens() error {
	type passage struct{ at, token int64 }
	var list []passage
	for i := 0; i+1 < len(r.tokens); i += 2 {
		list = append(list, passage{r.tokens[i], r.tokens[i+1]})
	}
	slices.SortFunc(list, func(a, b passage) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(list); i++ {
		if list[i].token <= list[i-1].token {
			return fmt.Errorf("the guard was passed with token %#x and then with %#x: two held the lock", list[i-1].token,
				list[i].token)
		}
	}
	return nil
}
