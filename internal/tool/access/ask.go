package access

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/wordclient"
)

const (
	wordPatience = 5 * time.Second
	// wordReplyMax bounds a reply: cons has some 200 bytes for each of up to
	// 100,000 connections.
	wordReplyMax = 32 << 20
)

// Ask sends a four-letter word to a server and returns the reply. An empty reply is an error, except for wchc and wchp
// of a server without watches.
func (a *Access) Ask(ctx context.Context, server, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordPatience)
	defer cancel()
	reply, err := wordclient.Word(ctx, a.Dial, server, word, wordReplyMax)
	if errors.Is(err, wordclient.ErrNoAnswer) && (word == "wchc" || word == "wchp") {
		err = nil
	}
	return reply, err
}

// A Word is a four-letter word that Apache's and Zooid's servers answer.
type Word struct{ Name, About string }

// Words returns the four-letter words.
func Words() []Word {
	return []Word{
		{"conf", "the configuration"}, {"cons", "connections and their sessions"},
		{"crst", "reset the figures of connections"},
		{"dirs", "bytes of snapshots and log"}, {"dump", "sessions and ephemeral znodes"}, {"envi", "the environment"},
		{"gtmk", "the trace mask"}, {"hash", "digests of the tree"}, {"isro", "rw, or ro from a server without quorum"},
		{"mntr", "figures for monitoring"}, {"ruok", "imok from a running server"}, {"srst", "reset the figures of srvr"},
		{"srvr", "mode, latency, znodes"}, {"stat", "srvr and the clients"}, {"wchc", "watches by session"},
		{"wchp", "watches by path"}, {"wchs", "the number of watches"},
	}
}

// IsWord reports whether text is a four-letter word.
func IsWord(text string) bool {
	return slices.ContainsFunc(Words(), func(w Word) bool { return w.Name == text })
}
