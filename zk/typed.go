package zk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Codec turns values into the data of znodes, and back.
type Codec[T any] interface {
	// Encode returns a value's data, at most what servers take (jute.maxbuffer, 1 MiB by default).
	Encode(value T) ([]byte, error)
	// Decode returns the value of a znode's data, which it must not keep. Data is nil for a znode without any. An error
	// says that the data are of something else.
	Decode(data []byte) (T, error)
}

// JSON returns the codec of encoding/json. Members that T doesn't have are ignored, so that a later version of a
// program may add some. A znode without data has no value: decoding it is an error.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Encode(value T) ([]byte, error) { return json.Marshal(value) }

func (jsonCodec[T]) Decode(data []byte) (value T, err error) {
	return value, json.Unmarshal(data, &value)
}

// Typed reads and writes znodes whose data are values of one type. It is as cheap to make as to copy, and may be used
// concurrently. Package recipe has typed caches.
type Typed[T any] struct {
	c     *Client
	codec Codec[T]
}

// NewTyped returns a Typed for the znodes of a client, in the form of codec.
func NewTyped[T any](c *Client, codec Codec[T]) Typed[T] { return Typed[T]{c, codec} }

// DecodeError says that a znode's data are no value of the wanted type.
type DecodeError struct {
	Path string
	Err  error // what the codec says
}

// Error returns the path and what the codec says.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("zk: decode the data of %s: %v", e.Path, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode returns the value of data that were read from path, such as those of a cache. The error is a *DecodeError.
func (t Typed[T]) Decode(path string, data []byte) (value T, err error) {
	if value, err = t.codec.Decode(data); err != nil {
		var none T
		return none, &DecodeError{path, err}
	}
	return value, nil
}

// Get returns the value at path. If its data are of something else, the error is a *DecodeError, and the Stat is
// returned with it.
func (t Typed[T]) Get(ctx context.Context, path string) (value T, stat Stat, err error) {
	data, stat, err := t.c.Get(ctx, path)
	if err != nil {
		return value, stat, err
	}
	value, err = t.Decode(path, data)
	return value, stat, err
}

// GetW is Get that leaves a one-shot watch, also if the data are of something else.
func (t Typed[T]) GetW(ctx context.Context, path string) (value T, stat Stat, w *Watch, err error) {
	data, stat, w, err := t.c.GetW(ctx, path)
	if err != nil {
		return value, stat, w, err
	}
	value, err = t.Decode(path, data)
	return value, stat, w, err
}

// Create makes a znode with a value, as Client.Create does.
func (t Typed[T]) Create(ctx context.Context, path string, value T, mode CreateMode, acl []ACL) (string, error) {
	data, err := t.encode(path, value)
	if err != nil {
		return "", err
	}
	return t.c.Create(ctx, path, data, mode, acl)
}

// Set replaces the value at path, if version is that of the Stat it was read with, or AnyVersion.
func (t Typed[T]) Set(ctx context.Context, path string, value T, version int32) (Stat, error) {
	data, err := t.encode(path, value)
	if err != nil {
		return Stat{}, err
	}
	return t.c.Set(ctx, path, data, version)
}

// Pauses of Update before it tries again because another client was faster; they double from the least to the most.
const (
	updatePauseMin = time.Millisecond
	updatePauseMax = 100 * time.Millisecond
)

// Update replaces the value at path by what change makes of it, and returns the new one. If another client changes it
// meanwhile, it is read anew and change is called again, as often as it takes or until ctx ends. An error of change is
// returned as it is, and nothing is written. After a lost connection the error may be one of those that MaybeApplied
// reports; package recipe's Value changes data exactly once.
func (t Typed[T]) Update(ctx context.Context, path string,
	change func(old T) (T, error)) (value T, stat Stat, err error) {
	for pause := updatePauseMin; ; pause = min(2*pause, updatePauseMax) {
		old, read, err := t.Get(ctx, path)
		if err != nil {
			return value, stat, err
		}
		next, err := change(old)
		if err != nil {
			return value, stat, err
		}
		if stat, err = t.Set(ctx, path, next, read.Version); err == nil {
			return next, stat, nil
		} else if !errors.Is(err, ErrBadVersion) {
			return value, stat, err
		}
		if err := sleep(ctx, jitter(pause)); err != nil {
			return value, stat, fmt.Errorf("zk: update %s: others change it all the time: %w", path, err)
		}
	}
}

func (t Typed[T]) encode(path string, value T) ([]byte, error) {
	data, err := t.codec.Encode(value)
	if err != nil {
		return nil, fmt.Errorf("zk: encode the data of %s: %w", path, err)
	}
	return data, nil
}

// Time returns a Stat's Ctime or Mtime, which the leader's clock gave to the millisecond.
func Time(ms int64) time.Time { return time.UnixMilli(ms) }
