package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// directorySize is how many znodes of a bulk load have the same parent.
const directorySize = 10000

// The digits of a bulk load's paths. With -root /b, paths are 25 bytes long for up to ten million znodes.
const (
	bulkDirDigits  = 3
	bulkNameDigits = 9
)

// bulkPath returns the path of znode i of a bulk load.
func (t *trial) bulkPath(i int) string {
	return fmt.Sprintf("%s/n%0*d", t.bulkDir(i/directorySize), bulkNameDigits, i)
}

func (t *trial) bulkDir(d int) string { return fmt.Sprintf("%s/d%0*d", t.base, bulkDirDigits, d) }

// bulkDirs creates the directories for n znodes.
func (t *trial) bulkDirs(ctx context.Context, n int) error {
	last := (n - 1) / directorySize
	if len(fmt.Sprint(last)) > bulkDirDigits {
		return usagef("-keys %d: a bulk load has at most %d znodes", n, directorySize*1000)
	}
	return t.prepare(ctx, last+1, func(b []byte, i uint64) ([]byte, wire.Kind) {
		return append(b, wire.CreateFrame(t.bulkDir(int(i)), nil)...), wire.KindWrite
	})
}

// bulkFrame returns a frame that can be made a request for any znode of a bulk load. build encodes the request for one
// path.
func (t *trial) bulkFrame(build func(path string) []byte) twiceNumbered {
	frame := build(t.bulkPath(0))
	dir := 4 + jute.RequestHeaderSize + 4 + len(t.base+"/d")
	return twiceNumbered{frame, dir, dir + bulkDirDigits + len("/n")}
}

// bulk creates the directories for -keys znodes. It returns the source that creates the znodes.
func (t *trial) bulk(ctx context.Context) (wire.Source, error) {
	if err := t.bulkDirs(ctx, t.keys); err != nil {
		return nil, err
	}
	return t.bulkCreates(0), nil
}

// bulkCreates returns a source that creates the znodes of a bulk load, starting with number first.
func (t *trial) bulkCreates(first uint64) wire.Source {
	data := t.value()
	create := t.bulkFrame(func(path string) []byte { return wire.CreateFrame(path, data) })
	return func(int) wire.Request {
		return func(b []byte, i uint64) ([]byte, wire.Kind) { return create.append(b, first+i), wire.KindWrite }
	}
}

// bulkAny returns a source that picks one of the first n znodes of a bulk load at random.
func (t *trial) bulkAny(n int, k wire.Kind, build func(path string) []byte) wire.Source {
	frame := t.bulkFrame(build)
	return func(conn int) wire.Request {
		rng := t.rng(conn)
		return func(b []byte, _ uint64) ([]byte, wire.Kind) { return frame.append(b, rng.Uint64N(uint64(n))), k }
	}
}

func (t *trial) bulkGets(n int) wire.Source {
	return t.bulkAny(n, 0, func(path string) []byte { return wire.GetFrame(path, false) })
}

func (t *trial) bulkSets(n int) wire.Source {
	data := t.value()
	return t.bulkAny(n, wire.KindWrite, func(path string) []byte { return wire.SetFrame(path, data) })
}

// After a load, a server may have work left, such as a snapshot or memory to clean up. The next measurement must not
// include it.
const (
	loadRest    = 3 * time.Second // the minimum pause
	loadRestMax = 2 * time.Minute // the maximum pause, for a server that is never idle
	idleShare   = .05             // of one processor: a server that uses less is idle
	idleLook    = 500 * time.Millisecond
)

// rest waits until the server is idle.
func (t *trial) rest(ctx context.Context) error {
	if err := pause(ctx, loadRest); err != nil {
		return err
	}
	return awaitIdle(ctx, loadRestMax, func() time.Duration { return t.measured.Cost().Server })
}

// awaitIdle checks twice a second how much processor time was used since the last check. It returns when that is nearly
// none, or after most.
func awaitIdle(ctx context.Context, most time.Duration, used func() time.Duration) error {
	for end, was := time.Now().Add(most), used(); time.Now().Before(end); {
		if err := pause(ctx, idleLook); err != nil {
			return err
		}
		now := used()
		if now-was < time.Duration(idleShare*float64(idleLook)) {
			return nil
		}
		was = now
	}
	return nil
}

func runLoad(ctx context.Context, t *trial) (result, error) {
	if t.rate > 0 {
		return result{}, usagef("%s ends when all znodes are there, so it takes no -rate", t.name)
	}
	before := t.measured.RssMiB()
	src, err := t.bulk(ctx)
	if err != nil {
		return result{}, err
	}
	t.ops = int64(t.keys)
	r, err := t.steady(ctx, src)
	if err != nil || len(t.measured) == 0 {
		return r, err
	}
	if err := t.rest(ctx); err != nil {
		return r, err
	}
	r.ServerRSS = t.measured.RssMiB()
	r.set("rss_before_mib", before)
	r.set("bytes_per_znode", (r.ServerRSS-before)*(1<<20)/float64(t.keys))
	return r, nil
}

// twiceNumbered is a frame of a bulk load. Its path has the numbers of the directory and of the znode.
type twiceNumbered struct {
	frame     []byte
	dir, name int // offsets of their first digits in frame
}

// append appends the frame for znode i.
func (n twiceNumbered) append(b []byte, i uint64) []byte {
	start := len(b)
	b = append(b, n.frame...)
	wire.PutDigits(b[start+n.dir:start+n.dir+bulkDirDigits], i/directorySize)
	wire.PutDigits(b[start+n.name:start+n.name+bulkNameDigits], i)
	return b
}
