package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zooid-project/zooid/zk"
)

const (
	wordPatience = 5 * time.Second
	// wordReplyMax bounds a reply: cons has some 200 bytes for each of up to
	// 100,000 connections.
	wordReplyMax = 32 << 20
)

// fourLetterWord asks a server one of Apache's four-letter words.
func (s *shell) fourLetterWord(ctx context.Context, server, word string) (string, error) {
	reply, err := s.opt.access.ask(ctx, server, word)
	if err != nil {
		return "", fmt.Errorf("ask %s for %s: %w", server, word, err)
	}
	if strings.Contains(reply, "is not executed because it is not in the whitelist") {
		return "", failuref("add "+word+" to 4lw.commands.whitelist in its configuration", "ask %s for %s: the server doesn't allow it", server, word)
	}
	return reply, nil
}

func (a *access) ask(ctx context.Context, server, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordPatience)
	defer cancel()
	conn, err := a.dial(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	reply, err := io.ReadAll(io.LimitReader(conn, wordReplyMax))
	if err == nil && len(reply) == 0 {
		err = fmt.Errorf("it closed the connection without an answer")
	}
	return string(reply), err
}

// chroot returns that of the connect string, "" if it has none.
func (s *shell) chroot() string {
	parsed, err := zk.ParseConnectString(s.host)
	if err != nil {
		return "" // a client was made of it before
	}
	return parsed.Chroot
}

// servers returns those of the connect string.
func (s *shell) servers() []string {
	parsed, err := zk.ParseConnectString(s.host)
	if err != nil {
		return nil // a client was made of it before
	}
	return parsed.Servers
}
