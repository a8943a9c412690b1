package bench

import (
	"context"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
)

func runReady(ctx context.Context, t *trial) (result, error) {
	begin := time.Now()
	t.progress.note("waiting for the first read")
	if err := servers.AwaitRead(ctx, t.servers[0], servers.ReadyMax); err != nil {
		return result{}, err
	}
	return result{Seconds: time.Since(begin).Seconds(), ServerRSS: t.measured.RssMiB()}, nil
}

// runRestart loads znodes as runLoad does, ends the server with -signal, and measures the time from its start to the
// first read.
func runRestart(ctx context.Context, t *trial) (result, error) {
	if t.server == nil {
		return result{}, errNoServer
	}
	sig, err := parseSignal(t.signal)
	if err != nil {
		return result{}, err
	}
	r, err := runLoad(ctx, t)
	if err != nil {
		return result{}, err
	}
	t.progress.note("restarting")
	if err := t.server.Restart(ctx, sig); err != nil {
		return result{}, err
	}
	t.measured = t.server.Processes()
	r.set("restart_s", t.server.Took.Seconds())
	r.set("restarted_rss_mib", t.measured.RssMiB())
	return r, nil
}

// runIdle measures a server that was just started and receives no requests: the duration of the start, and after -warm
// its processor time over -time and its memory.
func runIdle(ctx context.Context, t *trial) (result, error) {
	if t.server == nil {
		return result{}, errNoServer
	}
	t.progress.note("idle")
	if err := pause(ctx, t.warm); err != nil {
		return result{}, err
	}
	start, begin := t.measured.Cost(), time.Now()
	if err := pause(ctx, t.time); err != nil {
		return result{}, err
	}
	var r result
	used := t.measured.Cost().Minus(start)
	r.setTime(time.Since(begin))
	r.ServerRSS = t.measured.RssMiB()
	r.set("start_s", t.server.Took.Seconds())
	r.set("idle_cpu_percent", 100*used.Server.Seconds()/r.Seconds)
	return r, nil
}
