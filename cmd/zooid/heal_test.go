package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestAsidesMax lets a server diverge once more than it sets its data aside by itself. The last
// time it keeps its data where it is and says what to do. Another failure sets nothing aside.
func TestAsidesMax(t *testing.T) {
	t.Parallel()
	opt := server.Options{DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	begin := func() {
		t.Helper()
		d, err := storage.Open(storage.Options{Dir: opt.DataDir, ClusterID: 7})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	hasData := func() bool {
		_, err := storage.ReadIdentity(storage.OS{}, opt.DataDir, "")
		return err == nil
	}
	begin()
	if healed, err := heal(opt, fmt.Errorf("it ends: %w", &server.FormerLifeError{Server: 1}), time.Unix(0, 0)); !healed ||
		err != nil || hasData() {
		t.Fatalf("data of a former life: healed %t, %v", healed, err)
	}
	former, err := filepath.Glob(filepath.Join(opt.DataDir, "aside-former-*"))
	if err != nil || len(former) != 1 {
		t.Fatalf("the data of a former life is in %v, %v", former, err)
	}
	if err := os.RemoveAll(former[0]); err != nil {
		t.Fatal(err)
	}
	begin()
	if healed, err := heal(opt, errors.New("the disk failed"), time.Unix(0, 0)); healed || err != nil || !hasData() {
		t.Fatalf("a failure that is no divergence: healed %t, %v", healed, err)
	}
	diverged := error(&server.DivergedError{Index: 5, Server: 1})
	for i := range asidesMax {
		if healed, err := heal(opt, diverged, time.Unix(int64(i), 0)); !healed || err != nil || hasData() {
			t.Fatalf("divergence %d: healed %t, %v", i+1, healed, err)
		}
		begin()
	}
	healed, err := heal(opt, diverged, time.Unix(asidesMax, 0))
	if healed || err == nil || !strings.Contains(err.Error(), "remove the folders aside-*") || !hasData() {
		t.Fatalf("divergence %d: healed %t, %v; its data is there: %t", asidesMax+1, healed, err, hasData())
	}
	asides, err := filepath.Glob(filepath.Join(opt.DataDir, "aside-*"))
	if err != nil || len(asides) != asidesMax {
		t.Fatalf("folders set aside: %v, %v", asides, err)
	}
	if err := os.RemoveAll(asides[0]); err != nil { // as the error says
		t.Fatal(err)
	}
	if healed, err := heal(opt, diverged, time.Unix(asidesMax+1, 0)); !healed || err != nil {
		t.Fatalf("after one was removed: healed %t, %v", healed, err)
	}
}

// TestHealedJoinsOnly: a server that has set its data aside by itself founds no ensemble, not even by an order that was
// given for its data. It joins one.
func TestHealedJoinsOnly(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{server.ErrOvertaken, &server.DivergedError{}, &server.FormerLifeError{}} {
		opt := server.Options{DataDir: t.TempDir(), ID: 3, Log: slog.New(slog.DiscardHandler)}
		d, err := storage.Open(storage.Options{Dir: opt.DataDir, ClusterID: 7})
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(d.Close(), newensemble.OrderFounding(opt.DataDir, "me", "its data counts"))
		if healed, healing := heal(opt, failure, time.Unix(0, 0)); !healed || err != nil || healing != nil {
			t.Fatalf("%v: healed %t, %v, %v", failure, healed, healing, err)
		}
		joins, err := joinsOnly(&config.Storage{DataDir: opt.DataDir, CreateDB: true})
		if !joins || err != nil || newensemble.FoundingOrdered(opt.DataDir) {
			t.Errorf("%v: joins only: %t, %v; ordered to found: %t", failure, joins, err,
				newensemble.FoundingOrdered(opt.DataDir))
		}
	}
}

// TestHealLeavesAnothersData: a server that has ended sets nothing aside on which another process has started since,
// and finishes no move there.
func TestHealLeavesAnothersData(t *testing.T) {
	t.Parallel()
	opt := server.Options{DataDir: t.TempDir(), ID: 3, Log: slog.New(slog.DiscardHandler)}
	other, err := storage.Open(storage.Options{Dir: opt.DataDir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	const holds = "another process holds"
	for _, failure := range []error{server.ErrOvertaken, &server.DivergedError{}, &server.FormerLifeError{}} {
		if healed, err := heal(opt, failure, time.Unix(0, 0)); healed || err == nil || !strings.Contains(err.Error(), holds) {
			t.Errorf("%v: healed %t, %v", failure, healed, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(opt.DataDir, "aside-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(opt.DataDir, "aside-x", "MOVING") // what a crash in the middle leaves
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := joinsOnly(&config.Storage{DataDir: opt.DataDir}); err == nil || !strings.Contains(err.Error(), holds) {
		t.Errorf("a move is finished: %v", err)
	}
	if _, err := server.Open(opt); err == nil || !strings.Contains(err.Error(), holds) {
		t.Errorf("a second server: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if !storage.InUse(opt.DataDir) {
		t.Error("the other server's data is moved")
	}
	if _, err := joinsOnly(&config.Storage{DataDir: opt.DataDir}); err != nil || storage.InUse(opt.DataDir) {
		t.Errorf("the move isn't finished later: %v", err)
	}
}
