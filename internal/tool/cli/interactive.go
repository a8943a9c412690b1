package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/peterh/liner"

	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// notifyInterrupt returns a context that an interrupt ends.
func notifyInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt)
}

// interactive reads commands from the terminal until quit or Ctrl-D. Ctrl-C drops
// the line, or ends the command that runs.
func (s *shell) interactive(ctx context.Context) int {
	s.out.Errf("Connecting to %s\n", s.host)
	if code := s.start(ctx); code != 0 {
		return code
	}
	s.awaitFirst(ctx)
	s.out.Errf("Welcome to Zooid! help lists the commands, Tab completes, Ctrl-R searches the history, Ctrl-D leaves.\n")
	editor := liner.NewLiner()
	defer editor.Close()
	editor.SetCtrlCAborts(true)
	editor.SetTabCompletionStyle(liner.TabPrints)
	editor.SetWordCompleter(func(line string, pos int) (string, []string, string) {
		return s.complete(ctx, line, pos)
	})
	file := historyFile()
	if text, err := readHistory(file); err == nil {
		// If a line can't be read, the rest of the history is lost; the shell works all the same.
		_, _ = editor.ReadHistory(bytes.NewReader(text))
	}
	s.ask = editor.Prompt
	s.setRedraw(terminal.Redraw)
	defer s.setRedraw(nil)
	for !s.over {
		line, err := editor.Prompt(s.prompt())
		if errors.Is(err, liner.ErrPromptAborted) {
			continue
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.out.Messagef("reading a command: %v", err)
			}
			s.out.Errf("\n")
			break
		}
		if strings.TrimSpace(line) != "" && !secret(line) {
			editor.AppendHistory(line)
		}
		if err := keepHistory(file, line); err != nil {
			s.out.Messagef("keep the history: %v; ZOOID_HISTORY names another file, or nothing for none", err)
			file = ""
		}
		s.setRedraw(nil)
		running, stop := notifyInterrupt(ctx)
		s.line(running, line)
		stop()
		s.setRedraw(terminal.Redraw)
	}
	return s.exit
}

// firstPatience is how long the first prompt waits for a connection: long enough for a working server, and short enough
// that the user can type a line while none answers.
const firstPatience = time.Second

// awaitFirst waits for the first connection, so that the first prompt can show it.
func (s *shell) awaitFirst(ctx context.Context) {
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	if err := s.client.Wait(ctx); err != nil {
		s.out.Errf("%s; commands wait for up to %v\n", plainText(s.notConnected(s.host, err)), s.opt.timeout)
	}
}

func (s *shell) setRedraw(f func()) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.redraw = f
}
