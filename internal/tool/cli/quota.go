package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// Where quotas live: as ordinary znodes below quotaRoot, at the path they limit.
const (
	quotaRoot   = "/zookeeper/quota"
	quotaLimits = "/zookeeper_limits"
	quotaStats  = "/zookeeper_stats"
)

// quota is the content of a limits znode; -1 is no limit. The form, with its
// stray "=", is Apache's.
type quota struct {
	count, bytes, countHard, bytesHard int64
}

var noQuota = quota{-1, -1, -1, -1}

// field returns the limit that a flag of setquota names.
func (q *quota) field(flag string) *int64 {
	switch flag {
	case "n":
		return &q.count
	case "b":
		return &q.bytes
	case "N":
		return &q.countHard
	case "B":
		return &q.bytesHard
	}
	panic("cli: no quota has the flag " + flag)
}

var quotaFlags = []string{"n", "b", "N", "B"}

func (q quota) String() string {
	return fmt.Sprintf("count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", q.count, q.bytes, q.bytesHard, q.countHard)
}

func parseQuota(text string) quota {
	q := noQuota
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if err != nil {
			continue // as Apache reads it: no limit
		}
		switch name {
		case "count":
			q.count = n
		case "bytes":
			q.bytes = n
		case "countHardLimit":
			q.countHard = n
		case "byteHardLimit":
			q.bytesHard = n
		}
	}
	return q
}

type quotaJSON struct {
	Path  string           `json:"path"`
	Quota map[string]int64 `json:"quota"`
	Stat  map[string]int64 `json:"stat"`
}

func (q quota) fields() map[string]int64 {
	return map[string]int64{
		"count": q.count, "bytes": q.bytes, "countHardLimit": q.countHard, "byteHardLimit": q.bytesHard,
	}
}

// quotaArgs returns the path a quota command is about, the path of its quota, and the only one of -n -b -N -B that was
// given, "" for none.
func (s *shell) quotaArgs(a *args) (path, at, limit string, err error) {
	path = a.arg(0)
	if s.chroot() != "" {
		return "", "", "", advice.Errorf("connect without the chroot and give the whole path",
			"%s %s: quotas lie outside of the chroot %s", a.cmd.name, path, s.chroot())
	}
	given := slices.DeleteFunc(slices.Clone(quotaFlags), func(f string) bool { return !a.has(f) })
	if len(given) > 1 {
		return "", "", "", a.usagef("%s: one of -n -b -N -B at a time, not -%s and -%s", a.cmd.name, given[0], given[1])
	}
	return path, quotaRoot + strings.TrimSuffix(path, "/"), strings.Join(given, ""), nil
}

// quotasOf counts the quotas of a place without a chroot; first is a path that has a quota.
func (s *shell) quotasOf(ctx context.Context, p *place) (n int, first string, err error) {
	w := s.walk(p.c, quotaRoot+strings.TrimSuffix(p.path, "/"))
	w.System = true
	for z, err := range w.All(ctx) {
		switch {
		case subtree.Gone(err):
			return n, first, nil
		case err != nil:
			return n, first, err
		case strings.HasSuffix(z.Path, quotaLimits):
			if n++; n == 1 {
				first = cmp.Or(strings.TrimSuffix(z.Path[len(quotaRoot):], quotaLimits), "/")
			}
		}
	}
	return n, first, nil
}

// leaveQuotas counts the quotas of a place that a copy of it leaves out, and prints a
// note about them.
func (s *shell) leaveQuotas(ctx context.Context, what string, from *place) int {
	if from.chroot != "" {
		s.out.Notef("%s: quotas lie outside of the chroot %s, and can't be seen here; %s's, if any, were left out",
			what, from.chroot, s.out.Name(from.label))
		return 0
	}
	n, first, err := s.quotasOf(ctx, from)
	switch {
	case err != nil:
		s.out.Notef("%s: it is unknown whether quotas were left out: %s", what, plainText(err))
	case n > 0:
		quotas := fmt.Sprintf("%d quotas were left out, the first", n)
		if n == 1 {
			quotas = "a quota was left out,"
		}
		s.out.Notef("%s: %s that of %s; listquota shows one, setquota sets one", what, quotas, s.out.Name(first))
	}
	return n
}

func runListQuota(ctx context.Context, s *shell, a *args) error {
	path, at, _, err := s.quotaArgs(a)
	if err != nil {
		return err
	}
	s.out.Notef("absolute path is %s", at+quotaLimits)
	limits, _, err := s.client.Get(ctx, at+quotaLimits)
	if subtree.Gone(err) {
		return advice.Errorf("setquota sets one", "quota for %s does not exist.", path)
	}
	if err != nil {
		return err
	}
	stats, _, err := s.client.Get(ctx, at+quotaStats)
	if err != nil {
		return err
	}
	have := parseQuota(string(stats))
	v := quotaJSON{path, parseQuota(string(limits)).fields(), map[string]int64{"count": have.count, "bytes": have.bytes}}
	s.out.Show(v, func() {
		s.out.Printf("Output quota for %s %s\nOutput stat for %s %s\n", path, limits, path, stats)
	})
	return nil
}

func runSetQuota(ctx context.Context, s *shell, a *args) error {
	path, at, flag, err := s.quotaArgs(a)
	if err != nil {
		return err
	}
	if flag == "" {
		return a.usagef("setquota %s: want one of -n -b -N -B, the limit to set", path)
	}
	value, err := a.number(flag, 0)
	if err != nil {
		return err
	}
	if path == quotaRoot || strings.HasPrefix(path, quotaRoot+"/") {
		return fmt.Errorf("cannot set a quota under the path: %s", path)
	}
	if _, ok, err := s.client.Exists(ctx, path); err != nil {
		return err
	} else if !ok {
		return fmt.Errorf("%s does not exist.", path) //nolint:staticcheck // zkCli's words
	}
	if err := s.checkOtherQuotas(ctx, path); err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := s.changeLimit(ctx, at, flag, value)
		if subtree.Gone(err) {
			q := noQuota
			*q.field(flag) = value
			err = s.makeQuota(ctx, at, q)
		}
		if err == nil {
			break
		}
		if !subtree.Conflict(err) || try == quotaTries {
			return err
		}
	}
	return advice.Add(s.warnQuota(ctx, path, flag, value), "the limit was set, and what was written stays")
}

// quotaTries bounds the attempts to change a quota that others change at the same moment.
const quotaTries = 3

// changeLimit changes one limit of a quota. It fails if another client has changed the quota meanwhile.
func (s *shell) changeLimit(ctx context.Context, at, flag string, value int64) error {
	old, st, err := s.client.Get(ctx, at+quotaLimits)
	if err != nil {
		return err
	}
	q := parseQuota(string(old))
	*q.field(flag) = value
	if _, err = s.client.Set(ctx, at+quotaLimits, []byte(q.String()), st.Version); err != nil {
		return err
	}
	acl, err := s.aclLike(ctx, at+quotaLimits)
	if err != nil {
		return advice.Add(err, quotaStays)
	}
	_, err = s.client.Create(ctx, at+quotaStats, noUsage, zk.ModePersistent, acl)
	if errors.Is(err, zk.ErrNodeExists) { // the usual case; it is missing if a zkCli was interrupted
		return nil
	}
	return advice.Add(err, quotaStays)
}

// quotaStays is the hint for a quota command that fails after it has changed something.
const quotaStays = "what was written stays; run it again"

// noUsage is the content of a stats znode before the server counts.
var noUsage = []byte(quota{0, 0, -1, -1}.String())

// warnQuota warns if the usage exceeds the limit just set.
func (s *shell) warnQuota(ctx context.Context, path, flag string, limit int64) error {
	stats, _, err := s.client.Get(ctx, quotaRoot+strings.TrimSuffix(path, "/")+quotaStats)
	if err != nil {
		return err
	}
	have, what := parseQuota(string(stats)), "count"
	used := have.count
	if flag == "b" || flag == "B" {
		used, what = have.bytes, "bytes"
	}
	if limit >= 0 && used > limit {
		s.out.Messagef("[Warning]: the %s quota you create is less than the existing %s:%d", what, what, used)
	}
	return nil
}

// makeQuota creates both znodes of a quota, or neither; the stats make the server count. An
// interrupted zkCli may have left stats without limits. The znodes have the ACL of the root of
// quotas: everybody's by default, and the superusers' with security.profile=strict.
func (s *shell) makeQuota(ctx context.Context, at string, q quota) error {
	acl, err := s.aclLike(ctx, quotaRoot)
	if err != nil {
		return err
	}
	wrote := false
	tell := func(err error) error {
		if wrote {
			return advice.Add(err, quotaStays)
		}
		return err
	}
	for i := len(quotaRoot) + 1; i < len(at); i++ {
		if end := strings.IndexByte(at[i:], '/'); end >= 0 {
			i += end
		} else {
			i = len(at)
		}
		_, err := s.client.Create(ctx, at[:i], nil, zk.ModePersistent, acl)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return tell(err)
		}
		wrote = wrote || err == nil
	}
	ops := []zk.MultiOp{zk.CreateOp(at+quotaLimits, []byte(q.String()), zk.ModePersistent, acl)}
	_, left, err := s.client.Exists(ctx, at+quotaStats)
	if err != nil {
		return tell(err)
	}
	if left {
		ops = append(ops, zk.DeleteOp(at+quotaStats, zk.AnyVersion))
	}
	_, err = s.client.Multi(ctx, append(ops, zk.CreateOp(at+quotaStats, noUsage, zk.ModePersistent, acl))...)
	return tell(err)
}

// checkOtherQuotas fails if a znode above or below path has a quota: only one znode on a path may have one, since the
// servers count only for the deepest.
func (s *shell) checkOtherQuotas(ctx context.Context, path string) error {
	for above := subtree.Parent(path); above != "/"; above = subtree.Parent(above) {
		if _, ok, err := s.client.Exists(ctx, quotaRoot+above+quotaLimits); err != nil {
			return err
		} else if ok {
			return advice.Errorf("delquota "+above+" removes that one", "%s has a parent %s which has a quota", path, above)
		}
	}
	if path == "/" {
		return nil
	}
	w := s.walk(s.client, quotaRoot+path)
	w.System = true
	err := w.Each(ctx, func(n *subtree.Znode) error {
		of := strings.TrimSuffix(n.Path[len(quotaRoot):], quotaLimits)
		if strings.HasSuffix(n.Path, quotaLimits) && of != path {
			return advice.Errorf("delquota "+of+" removes that one", "%s has a child %s which has a quota", path, of)
		}
		return nil
	})
	if subtree.Gone(err) {
		return nil
	}
	return err
}

func runDelQuota(ctx context.Context, s *shell, a *args) error {
	path, at, flag, err := s.quotaArgs(a)
	if err != nil {
		return err
	}
	_, st, err := s.client.Get(ctx, at+quotaLimits)
	if subtree.Gone(err) {
		if err := s.pruneQuotas(ctx, at); err != nil { // left over from an interrupted command
			return err
		}
		return fmt.Errorf("Quota does not exist for %s", path) //nolint:staticcheck // zkCli's words
	}
	if err != nil {
		return err
	}
	if flag == "" {
		return s.removeQuota(ctx, at, st.Version)
	}
	for try := 1; ; try++ {
		err := s.changeLimit(ctx, at, flag, -1)
		if err == nil || !subtree.Conflict(err) || try == quotaTries {
			return err
		}
	}
}

// removeQuota deletes the znodes of a quota whose limits have a version.
func (s *shell) removeQuota(ctx context.Context, at string, version int32) error {
	ops := []zk.MultiOp{zk.DeleteOp(at+quotaLimits, version)}
	_, counted, err := s.client.Exists(ctx, at+quotaStats)
	if err != nil {
		return err
	}
	if counted {
		ops = append(ops, zk.DeleteOp(at+quotaStats, zk.AnyVersion))
	}
	if _, err := s.client.Multi(ctx, ops...); err != nil {
		return err
	}
	return advice.Add(s.pruneQuotas(ctx, at), "the quota is removed; its empty parents are left, and delquota removes them")
}

// pruneQuotas deletes the znodes on the path to a deleted quota, except those that
// another quota needs: those have children.
func (s *shell) pruneQuotas(ctx context.Context, at string) error {
	for ; at != quotaRoot; at = subtree.Parent(at) {
		err := s.client.Delete(ctx, at, zk.AnyVersion)
		if errors.Is(err, zk.ErrNotEmpty) {
			return nil
		}
		if err != nil && !subtree.Gone(err) {
			return err
		}
	}
	return nil
}
