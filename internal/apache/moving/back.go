//go:build unix

package moving

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// A backRun is a run of zooid migrate back.
type backRun struct {
	backFlags
	program *Program
}

func (r *backRun) arguments(words []string) error {
	if err := r.observed(!r.check); err != nil {
		return err
	}
	return r.zooCfg(words)
}

func (r *backRun) run(ctx context.Context, s cli.Streams) (int, error) {
	cfg, err := config.LoadAny(r.file, nil)
	if err != nil {
		return exitFailed, err
	}
	if r.check {
		return r.program.checkBack(cfg, s.Out)
	}
	var mu sync.Mutex
	r.o.Say = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(s.Err, time.Now().Format(time.DateTime), terminal.OneLine(terminal.Visible(text)))
	}
	if err := r.listen(cfg, r.program); err != nil {
		return exitFailed, err
	}
	defer socket.CloseListener(r.o.Election)
	defer socket.CloseListener(r.o.Quorum)
	done, err := back.Run(ctx, r.o)
	if err != nil {
		return exitFailed, err
	}
	if done.Strangers > 0 {
		fmt.Fprintf(s.Out, "%d sessions have passwords issued by Zooid, which Apache refuses: their clients see them expire\n",
			done.Strangers)
	}
	fmt.Fprintln(s.Out, done)
	return exitDone, nil
}
