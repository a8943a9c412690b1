package bench

import (
	"context"
	"time"
)

func runReady(ctx context.Context, t *trial) (result, error) {
	begin := time.Now()
	t.progress.note("waiting for the first read")
	if err := awaitRead(ctx, t.servers[0], readyMax); err != nil {
		return result{}, err
	}
	return result{Seconds: time.Since(begin).Seconds(), ServerRSS: t.measured.rssMiB()}, nil
}

// runRestart loads znodes, ends the server by -signal and times it from its
// start to the first read.
func runRestart(ctx context.Context, t *trial) (result, error) {
	if t.server == nil {
		return result{}, errNoServer
	}
	sig, err := parseSignal(t.signal)
	if err != nil {
		return result{}, err
	}
	src, err := t.bulk(ctx)
	if err != nil {
		return result{}, err
	}
	if err := t.prepare(ctx, t.keys, src(0)); err != nil {
		return result{}, err
	}
	t.progress.note("restarting")
	took, err := t.server.restart(ctx, sig)
	if err != nil {
		return result{}, err
	}
	t.measured = t.server.processes()
	r := result{Seconds: took.Seconds(), ServerRSS: t.measured.rssMiB()}
	r.set("znodes", float64(t.keys))
	return r, nil
}
