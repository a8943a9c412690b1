package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/peterh/liner"
)

// notifyInterrupt returns a context that an interrupt ends.
func notifyInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt)
}

// interactive reads commands from the terminal until quit or Ctrl-D. Ctrl-C drops
// the line, or ends the command that runs.
func (s *shell) interactive(ctx context.Context) int {
	fmt.Fprintf(s.out.errs, "Connecting to %s\n", s.host)
	if code := s.start(ctx); code != 0 {
		return code
	}
	fmt.Fprintln(s.out.errs, "Welcome to Zooid! help lists the commands, Tab completes, Ctrl-D leaves.")
	editor := liner.NewLiner()
	defer editor.Close()
	editor.SetCtrlCAborts(true)
	editor.SetTabCompletionStyle(liner.TabPrints)
	editor.SetWordCompleter(func(line string, pos int) (string, []string, string) {
		return s.complete(ctx, line, pos)
	})
	file := historyFile()
	loadHistory(editor, file)
	s.setRedraw(redrawPrompt)
	defer s.setRedraw(nil)
	for !s.over {
		line, err := editor.Prompt(s.prompt())
		if errors.Is(err, liner.ErrPromptAborted) {
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.out.messagef("reading a command: %v", err)
			}
			fmt.Fprintln(s.out.errs)
			break
		}
		if keepable(line) {
			editor.AppendHistory(line)
		}
		s.setRedraw(nil)
		running, stop := notifyInterrupt(ctx)
		s.line(running, line)
		stop()
		s.setRedraw(redrawPrompt)
	}
	saveHistory(editor, file, s.out)
	return s.exit
}

func (s *shell) setRedraw(f func()) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.redraw = f
}
