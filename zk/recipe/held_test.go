package recipe

import (
	"context"
	"errors"
	"testing"
)

// What was learnt before a loss of the connection renews nothing after it.
func TestRenew(t *testing.T) {
	t.Parallel()
	h := &Held{base: t.Context(), path: "/m/x"}
	h.ctx, h.end = context.WithCancelCause(h.base)
	if ok, err := h.renew(0); !ok || err != nil || h.Context().Err() != nil {
		t.Errorf("renew what is sure: %v, %v", ok, err)
	}
	h.suspend()
	asked := h.losses
	h.suspend()
	if ok, err := h.renew(asked); ok || err != nil || context.Cause(h.Context()) != ErrSuspended {
		t.Errorf("renew by an old answer: %v, %v", ok, err)
	}
	if ok, err := h.renew(h.losses); !ok || err != nil || h.Context().Err() != nil {
		t.Errorf("renew by a fresh answer: %v, %v", ok, err)
	}
	h.finish(ErrLost)
	h.finish(ErrReleased)
	if ok, err := h.renew(h.losses); ok || !errors.Is(err, ErrLost) || context.Cause(h.Context()) != ErrLost {
		t.Errorf("renew what is lost: %v, %v", ok, err)
	}
}
