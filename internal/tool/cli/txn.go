package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/zk"
)

// txnMax bounds the operations of one transaction, in case a file is read by mistake;
// the servers' limit is the request's size.
const txnMax = 100_000

// txnCommands are the commands that can be part of a transaction, in their own
// syntax.
var txnCommands = []string{"create", "set", "delete", "check"}

// checkCommand is check as a part of a transaction; it is not a command by itself.
var checkCommand = command{name: "check", usage: "[-v version] path", min: 1, max: 2,
	flags: []flag{{"v", "version", "the data's version; without it, any"}}}

// runTxn applies several writes, all or none.
func runTxn(ctx context.Context, s *shell, a *args) error {
	parts, err := s.txnParts(ctx, a)
	if err != nil {
		return err
	}
	var ops []zk.MultiOp
	data := 0
	for i, part := range parts {
		op, err := s.txnOp(ctx, part)
		if data += len(op.Data); err == nil && data > s.requestMax() {
			err = fmt.Errorf("with it they have more than %d bytes, the most that a request may have (jute.maxbuffer)",
				s.requestMax())
		}
		if err != nil {
			return fmt.Errorf("txn, operation %d: %w; nothing was sent", i, err)
		}
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return &usageError{cmd: a.cmd}
	}
	results, err := s.client.Multi(ctx, ops...)
	if err != nil {
		return err
	}
	for i, r := range results {
		path := ops[i].Path
		if r.Path != "" {
			path = r.Path
		}
		v := map[string]any{"op": parts[i].words[0], "path": path}
		if parts[i].words[0] == "set" {
			v["stat"] = screen.ToJSON(r.Stat)
		}
		s.out.Show(v, func() { s.out.Printf("%s %s\n", parts[i].words[0], s.out.Name(path)) })
	}
	return nil
}

// txnPart is the words of one operation.
type txnPart struct {
	words  []string
	quoted []bool // which of words were; it may be shorter
}

// txnParts returns the operations: from the arguments, separated by ";", or from a
// file's lines. A quoted ";" is data.
func (s *shell) txnParts(ctx context.Context, a *args) (parts []txnPart, err error) {
	if file, ok := a.flags["f"]; ok {
		return s.txnLines(ctx, file)
	}
	words, quoted := a.words, a.literal
	if len(words) == 1 { // one quoted argument
		if words, quoted, err = splitQuoted(words[0]); err != nil {
			return nil, err
		}
	}
	var part txnPart
	for i, word := range words {
		literal := i < len(quoted) && quoted[i]
		if word != ";" || literal {
			part.words, part.quoted = append(part.words, word), append(part.quoted, literal)
			continue
		}
		if len(part.words) > 0 {
			parts = append(parts, part)
		}
		part = txnPart{}
	}
	if len(part.words) > 0 {
		parts = append(parts, part)
	}
	return parts, nil
}

func (s *shell) txnLines(ctx context.Context, file string) (parts []txnPart, err error) {
	in, err := s.openInput(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("txn -f: %w", err)
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		words, quoted, err := splitQuoted(text)
		if err != nil {
			return nil, fmt.Errorf("txn -f %s: %w", file, err)
		}
		if parts = append(parts, txnPart{words, quoted}); len(parts) > txnMax {
			return nil, fmt.Errorf("txn -f %s: more than %d operations; nothing was sent", file, txnMax)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("txn -f %s: %w; nothing was sent", file, err)
	}
	return parts, nil
}

// txnOp reads one operation.
func (s *shell) txnOp(ctx context.Context, part txnPart) (zk.MultiOp, error) {
	name := part.words[0]
	if !slices.Contains(txnCommands, name) {
		return zk.MultiOp{}, fmt.Errorf("%q can't be part of a transaction; want one of %s", name,
			strings.Join(txnCommands, ", "))
	}
	c, _ := find(part.words)
	if name == checkCommand.name {
		c = &checkCommand
	}
	a, err := c.parse(part.words[1:], part.quoted[1:])
	if err != nil {
		return zk.MultiOp{}, err
	}
	if c.data > 0 && len(a.words) > c.data {
		if a.data, err = s.value(ctx, a, c.data); err != nil {
			return zk.MultiOp{}, err
		}
	}
	switch name {
	case "create":
		n, err := readCreate(a)
		if err != nil {
			return zk.MultiOp{}, err
		}
		if n.parents {
			return zk.MultiOp{}, errors.New("create -p can't be part of a transaction; name the parents before it")
		}
		return n.op(), nil
	case "set":
		version, err := a.version(2)
		if err != nil {
			return zk.MultiOp{}, err
		}
		data, err := readData(a)
		return zk.SetOp(a.arg(0), data, version), err
	case "delete":
		version, err := a.version(1)
		return zk.DeleteOp(a.arg(0), version), err
	}
	version, err := a.version(1)
	return zk.CheckOp(a.arg(0), version), err
}
