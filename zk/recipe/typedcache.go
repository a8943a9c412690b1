package recipe

import (
	"errors"

	"github.com/zooid-project/zooid/zk"
)

// A TypedCache is a Cache whose znodes hold values of one type.
type TypedCache[T any] struct {
	*Cache
	codec zk.Codec[T]
}

// NewTypedCache returns a view of a Cache. The caller must still Close the Cache. Values are decoded at each call.
func NewTypedCache[T any](k *Cache, codec zk.Codec[T]) TypedCache[T] { return TypedCache[T]{k, codec} }

// Value returns the value of the znode at path. ok is false if the cache has no such znode. If the data can't be
// decoded, the error is a *zk.DecodeError.
func (k TypedCache[T]) Value(path string) (value T, ok bool, err error) {
	node, ok := k.Get(path)
	if !ok {
		return value, false, nil
	}
	value, err = k.decode(path, node.Data)
	return value, true, err
}

// Values returns the values of all znodes by path, as of one moment of the cache. It omits znodes whose data can't be
// decoded; the error joins a *zk.DecodeError for each.
func (k TypedCache[T]) Values() (map[string]T, error) {
	values, failed := map[string]T{}, []error(nil)
	for path, node := range k.Snapshot() {
		value, err := k.decode(path, node.Data)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		values[path] = value
	}
	return values, errors.Join(failed...)
}

func (k TypedCache[T]) decode(path string, data []byte) (T, error) {
	value, err := k.codec.Decode(data)
	if err != nil {
		var none T
		return none, &zk.DecodeError{Path: path, Err: err}
	}
	return value, nil
}
