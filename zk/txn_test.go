package zk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// TestTxn commits every kind of step on Zooid's server.
func TestTxn(t *testing.T) {
	t.Parallel()
	everyStep(t, zktest.Start(t, zktest.Options{}).Connect())
}

// TestLiveTxn is TestTxn on the servers of the live suite.
func TestLiveTxn(t *testing.T) {
	t.Parallel()
	everyStep(t, liveServers(t))
}

func everyStep(t *testing.T, servers string) {
	ctx := t.Context()
	outside, err := zk.Open(ctx, servers, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	root, err := outside.Create(ctx, "/txn-", nil, zk.ModePersistentSequential, world)
	if err != nil {
		t.Fatal(err)
	}
	c, err := outside.Chroot(root)
	if err != nil {
		t.Fatal(err)
	}

	var first, again, child, container zk.Created
	var set zk.Stat
	txn := c.Txn().
		Create("/a", []byte("1"), zk.ModePersistent, world, &first, &again).
		Create("/a/s-", nil, zk.ModeEphemeralSequential, world, &child).
		Create("/c", nil, zk.ModeContainer, world, &container).
		Set("/a", []byte("22"), 0, &set).
		Check("/a", 1).
		Create("/gone", nil, zk.ModePersistent, world).
		Delete("/gone", 0)
	if txn.Len() != 7 {
		t.Errorf("Len is %d", txn.Len())
	}
	if first.Path != "" || set.Version != 0 {
		t.Error("results before Commit")
	}
	if err := txn.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if first.Path != "/a" || again != first || child.Path != "/a/s-0000000000" || container.Path != "/c" ||
		container.Stat.Czxid == 0 || set.Version != 1 || set.DataLength != 2 {
		t.Errorf("results %+v, %+v, %+v, %+v", first, child, container, set)
	}
	data, stat, err := c.Get(ctx, "/a")
	if err != nil || string(data) != "22" || stat.Version != set.Version || stat.Mzxid != set.Mzxid {
		t.Errorf("/a is %q %+v, %v; the transaction said %+v", data, stat, err, set)
	}
	if _, ok, err := c.Exists(ctx, "/gone"); ok || err != nil {
		t.Errorf("/gone exists: %v, %v", ok, err)
	}

	// One refused operation refuses all; the error names it, and no variable changes.
	before := child
	err = c.Txn().
		Create("/b", nil, zk.ModePersistent, world, &child).
		Set("/a", nil, 7, &set).
		Delete("/none", zk.AnyVersion).
		Commit(ctx)
	failed, ok := errors.AsType[*zk.MultiError](err)
	if !ok || failed.Index != 1 || failed.Op != "setData" || failed.Path != "/a" || !errors.Is(err, zk.ErrBadVersion) ||
		zk.MaybeApplied(err) {
		t.Errorf("error %v", err)
	}
	if text := err.Error(); !strings.Contains(text, "operation 1 (setData /a)") || !strings.Contains(text, " at ") {
		t.Errorf("error %q doesn't say which operation failed, or where", text)
	}
	if child != before || set.Version != 1 {
		t.Errorf("a refused transaction changed %+v and %+v", child, set)
	}
	if _, ok, err := c.Exists(ctx, "/b"); ok || err != nil {
		t.Errorf("/b exists: %v, %v", ok, err)
	}

	if err := c.Txn().Commit(ctx); err != nil {
		t.Errorf("an empty transaction: %v", err)
	}
}

// TestTxnArguments: arguments that no server would accept are refused before anything is sent, with the operation's
// index and path.
func TestTxnArguments(t *testing.T) {
	t.Parallel()
	c, err := zk.New("127.0.0.1:1", zk.Options{}) // nobody there: nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, test := range []struct {
		txn  *zk.Txn
		want string
	}{
		{c.Txn().Check("/a", 0).Delete("b", 0), "operation 1 (delete): invalid path"},
		{c.Txn().Create("/a", nil, zk.ModePersistent, nil), "operation 0 (create2)"},
		{c.Txn().CreateTTL("/a", nil, zk.ModePersistent, world, time.Second), "a TTL and a mode with TTL go together"},
		{c.Txn().CreateTTL("/a", nil, zk.ModePersistentWithTTL, world, 0), "TTL 0s"},
	} {
		if err := test.txn.Commit(ctx); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}
