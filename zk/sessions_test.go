package zk_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// Work continues with the next session when one has expired, and its own errors end Run.
func TestSessionsRun(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := zk.NewSessions(func() (*zk.Client, error) {
		return zk.New(e.Connect(), zk.Options{SessionTimeout: 30 * time.Second})
	})
	defer s.Close()
	enough := errors.New("enough")
	var ids []int64
	err := s.Run(ctx, func(c *zk.Client) error {
		if err := c.Wait(ctx); err != nil {
			return err
		}
		if ids = append(ids, c.Session().ID); len(ids) == 3 {
			return enough
		}
		zktest.Expire(t, c, e.Connect())
		_, _, err := c.Exists(ctx, "/")
		return err
	})
	if err != enough || len(ids) != 3 || ids[0] == ids[1] || ids[1] == ids[2] {
		t.Errorf("sessions %x, %v", ids, err)
	}
	s.Close()
	if err := s.Run(ctx, func(*zk.Client) error { return nil }); !errors.Is(err, zk.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// There are pauses between sessions that end as soon as they have begun.
func TestSessionsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	c, ctx := opened(t, e, "", zk.Options{})
	dead := c.Session()
	c.Close()
	var opens atomic.Int32
	s := zk.NewSessions(func() (*zk.Client, error) {
		opens.Add(1)
		return zk.New(e.Connect(), zk.Options{SessionTimeout: 30 * time.Second, Resume: dead})
	})
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := s.Run(ctx, func(c *zk.Client) error { return c.Wait(ctx) })
	if n := opens.Load(); err == nil || n > 20 {
		t.Errorf("%d sessions in two seconds, %v", n, err)
	}
}
