package zk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Codec converts values to the data of znodes and back. Several goroutines may call its methods at once.
type Codec[T any] interface {
	// Encode returns a value's data, which may share its memory. Servers accept up to jute.maxbuffer bytes, usually 1 MiB.
	Encode(value T) ([]byte, error)
	// Decode returns the value of a znode's data. It must not keep data, which may be nil. An error means that the data
	// don't have the form of the codec.
	Decode(data []byte) (T, error)
}

// JSON returns a codec that uses encoding/json. It ignores members that T doesn't have, so that later versions of a
// program may add some. Decoding a znode without data is an error.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Encode(value T) ([]byte, error) { return json.Marshal(value) }

func (jsonCodec[T]) Decode(data []byte) (value T, err error) {
	return value, json.Unmarshal(data, &value)
}

// Typed reads and writes znodes whose data are values of one type. It is cheap to make and to copy, and several
// goroutines may use it at once. If the codec can't encode a value, the error wraps the codec's, and nothing is sent.
// Package recipe has typed caches.
type Typed[T any] struct {
	c     *Client
	codec Codec[T]
}

// NewTyped returns a Typed for the znodes of client c, which uses codec.
func NewTyped[T any](c *Client, codec Codec[T]) Typed[T] { return Typed[T]{c, codec} }

// DecodeError says that a znode's data aren't a value of the wanted type.
type DecodeError struct {
	Path string
	Err  error // the codec's error
}

// Error returns the path and the codec's error.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("zk: decode the data of %s: %v", e.Path, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode returns the value of data that were read from path, for example by a cache. The error is a *DecodeError.
func (t Typed[T]) Decode(path string, data []byte) (value T, err error) {
	if value, err = t.codec.Decode(data); err != nil {
		var none T
		return none, &DecodeError{path, err}
	}
	return value, nil
}

// Get returns the value at path. If the data can't be decoded, the error is a *DecodeError, and the Stat is valid.
func (t Typed[T]) Get(ctx context.Context, path string) (value T, stat Stat, err error) {
	data, stat, err := t.c.Get(ctx, path)
	if err != nil {
		return value, stat, err
	}
	value, err = t.Decode(path, data)
	return value, stat, err
}

// GetW is like Get and sets a one-shot watch, also if the data can't be decoded.
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

// Set replaces the value at path if its data version is version. AnyVersion matches every version.
func (t Typed[T]) Set(ctx context.Context, path string, value T, version int32) (Stat, error) {
	data, err := t.encode(path, value)
	if err != nil {
		return Stat{}, err
	}
	return t.c.Set(ctx, path, data, version)
}

// Pauses before Update tries again because another client was faster. They double from the least to the most.
const (
	updatePauseMin = time.Millisecond
	updatePauseMax = 100 * time.Millisecond
)

// Update replaces the value at path with the result of change and returns the new value. If another client changes the
// znode meanwhile, Update reads it again and calls change again, until it succeeds, or ctx or the session ends. It
// fails with ErrNoNode if there is no such znode, and with a *DecodeError if its data can't be decoded. If change
// fails, Update writes nothing and returns the error unchanged. After a lost connection MaybeApplied may hold for the
// error; package recipe's Value applies each change exactly once.
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

// Time converts a Stat's Ctime or Mtime, which is the leader's clock in milliseconds since 1970, to a local time.Time.
func Time(ms int64) time.Time { return time.UnixMilli(ms) }
