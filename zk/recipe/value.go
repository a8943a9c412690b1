package recipe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// A Value is data that several clients read and change. The znode holds exactly these data, as in Curator's SharedValue
// and DistributedAtomicValue. Each change is applied exactly once by a Ledger; see Ledger for lost connections and
// sessions. To follow the changes of others use NewNodeCache.
type Value struct {
	c      *zk.Client
	path   string
	opt    Options
	ledger *Ledger
}

// NewValue returns the value at path. The value is nil if the znode doesn't exist. NewValue sends no request.
func NewValue(c *zk.Client, path string, opt Options) *Value {
	return &Value{c, path, opt, ledgerBeside(c, path, opt)}
}

// VersionNone is the version of a value whose znode doesn't exist.
const VersionNone int32 = -2

// Get returns the value and its version, which is VersionNone if the znode doesn't exist.
func (v *Value) Get(ctx context.Context) ([]byte, int32, error) {
	data, stat, err := v.c.Get(ctx, v.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, VersionNone, nil
	}
	return data, stat.Version, err
}

// CompareAndSet replaces the value if its version is still the one that Get returned. With VersionNone it creates the
// znode; zk.AnyVersion matches every version of an existing one. The new version is the next number, 0 for a new znode.
// It fails with zk.ErrBadVersion if another client was faster, whether that client changed, deleted or created the
// znode. A znode that was deleted and created again counts as unchanged if it has the same version.
func (v *Value) CompareAndSet(ctx context.Context, version int32, data []byte) error {
	if version != VersionNone {
		_, err := v.ledger.Commit(ctx, zk.SetOp(v.path, data, version))
		if errors.Is(err, zk.ErrNoNode) {
			err = fmt.Errorf("recipe: set %s: it was deleted: %w", v.path, zk.ErrBadVersion)
		}
		return err
	}
	for tries := 1; ; tries++ {
		_, err := v.ledger.Commit(ctx, zk.CreateOp(v.path, data, zk.ModePersistent, v.opt.acl()))
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			return fmt.Errorf("recipe: set %s: it was created: %w", v.path, zk.ErrBadVersion)
		case errors.Is(err, zk.ErrNoNode) && tries <= ensureTries:
			if err := ensure(ctx, v.c, parentOf(v.path), v.opt.acl()); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// Set replaces the value whatever its version, and creates the znode if it is missing.
func (v *Value) Set(ctx context.Context, data []byte) error {
	_, err := v.Update(ctx, func([]byte) ([]byte, error) { return data, nil })
	return err
}

// contentionPauseMax bounds the pause before another attempt after other clients were faster. The pause begins with 1
// ms and doubles.
const contentionPauseMax = 64 * time.Millisecond

// Update replaces the value by the result of change and returns the new value. If another client changes the value
// meanwhile, Update calls change again with that value, after a pause of up to 64 ms, until ctx or the session ends. If
// change returns an error, Update writes nothing and returns the same error. old is nil if the znode doesn't exist, or
// if nil was written last; change may keep and modify it. A nil result makes the data null, and doesn't delete the
// znode.
func (v *Value) Update(ctx context.Context, change func(old []byte) ([]byte, error)) ([]byte, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, contentionPauseMax) {
		old, version, err := v.Get(ctx)
		if err != nil {
			if again(ctx, err) {
				continue
			}
			return nil, err
		}
		data, err := change(old)
		if err != nil {
			return nil, err
		}
		err = v.CompareAndSet(ctx, version, data)
		if !errors.Is(err, zk.ErrBadVersion) {
			return data, err
		}
		if !pause(ctx, wait) {
			return nil, fmt.Errorf("recipe: update %s: %w", v.path, ctx.Err())
		}
	}
}

// Close deletes the znode of the value's Ledger (see Ledger.Close). The value stays, and v may be used again.
func (v *Value) Close(ctx context.Context) error { return v.ledger.Close(ctx) }

// A Counter is a number that several clients change. It is stored in 8 bytes, big endian, as in Curator's
// DistributedAtomicLong. A counter that was never set is 0, as in Curator. An Add is applied exactly once, even if
// replies are lost; see Ledger.
type Counter struct{ value *Value }

// NewCounter returns the counter at path. It sends no request.
func NewCounter(c *zk.Client, path string, opt Options) *Counter {
	return &Counter{NewValue(c, path, opt)}
}

// Get returns the number. It is 0 if the znode doesn't exist or has no data. It fails if the znode has other data than
// 8 bytes.
func (n *Counter) Get(ctx context.Context) (int64, error) {
	data, _, err := n.value.Get(ctx)
	if err != nil {
		return 0, err
	}
	return n.decode(data)
}

// Add adds delta, which may be negative, and returns the sum. It pauses as Value.Update does if other clients are
// faster. Overflow wraps around as for an int64.
func (n *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	var sum int64
	_, err := n.value.Update(ctx, func(old []byte) ([]byte, error) {
		was, err := n.decode(old)
		sum = was + delta
		return binary.BigEndian.AppendUint64(nil, uint64(sum)), err
	})
	return sum, err
}

// Set replaces the number whatever it is, and creates the znode if it is missing.
func (n *Counter) Set(ctx context.Context, number int64) error {
	return n.value.Set(ctx, binary.BigEndian.AppendUint64(nil, uint64(number)))
}

// Close deletes the znode of the counter's Ledger (see Ledger.Close). The number stays, and n may be used again.
func (n *Counter) Close(ctx context.Context) error { return n.value.Close(ctx) }

func (n *Counter) decode(data []byte) (int64, error) {
	switch len(data) {
	case 0:
		return 0, nil
	case 8:
		return int64(binary.BigEndian.Uint64(data)), nil
	}
	return 0, fmt.Errorf("recipe: counter %s: the znode holds %d bytes, not the 8 of a counter; is it another recipe's?",
		n.value.path, len(data))
}
