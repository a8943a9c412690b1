package rights

import (
	"context"
	"errors"
	"strings"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// Limited adds details to an error which says that writes, sent by c as one request, exceed a limit: which write, which
// limit, and where the limit is set. Servers don't tell these. c must have no chroot, since limits lie outside it.
func Limited(ctx context.Context, c *zk.Client, err error, writes ...zk.MultiOp) error {
	e, ok := errors.AsType[*zk.Error](err)
	if !ok || !errors.Is(err, zk.ErrQuotaExceeded) {
		return err
	}
	for _, w := range writes {
		of, set, readErr := limitsOf(ctx, c, w.Path)
		if readErr != nil {
			break
		}
		if which := exceeded(ctx, c, &set, &w); which != "" {
			return advice.Add(&zk.Error{Op: w.Op.String(), Path: w.Path, Server: e.Server, Err: zk.ErrQuotaExceeded},
				"the limit %s of %s refuses it; limits get %s shows it, limits set changes it", which, of, of)
		}
	}
	last := writes[len(writes)-1]
	return &zk.Error{Op: last.Op.String(), Path: last.Path, Server: e.Server, Err: zk.ErrQuotaExceeded}
}

// limitsOf returns the limits that apply to a path, and the path on which they are set: the longest ancestor with
// limits, or the path itself.
func limitsOf(ctx context.Context, c *zk.Client, path string) (of string, set limit.Set, err error) {
	for ; ; path = subtree.Parent(path) {
		data, _, err := c.Get(ctx, limit.Place{Scope: limit.Path, Path: path}.Znode())
		if err == nil {
			set, err = limit.Parse(limit.Path, string(data), limit.Set{})
			return path, set, err
		}
		if !subtree.Gone(err) || path == "/" {
			return path, limit.Set{}, err
		}
	}
}

// exceeded returns the limit that a write exceeds, "" if there is none.
func exceeded(ctx context.Context, c *zk.Client, l *limit.Set, w *zk.MultiOp) string {
	number := [limit.Kinds]int64{limit.Value: int64(len(w.Data))}
	if w.Op.IsCreate() {
		number[limit.Depth] = int64(strings.Count(w.Path, "/"))
		if st, ok, err := c.Exists(ctx, subtree.Parent(w.Path)); err == nil && ok {
			number[limit.Children] = int64(st.NumChildren) + 1
		}
	}
	return l.Exceeded(&number)
}
