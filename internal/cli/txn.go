package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// txnMax bounds the operations of one transaction, for a file read by mistake;
// the servers' limit is the request's size.
const txnMax = 100_000

// txnCommands are the commands that can be part of a transaction, in their own
// syntax.
var txnCommands = []string{"create", "set", "delete", "check"}

// checkCommand is check as a part of a transaction; it is no command by itself.
var checkCommand = command{name: "check", usage: "[-v version] path", min: 1, max: 2,
	flags: []flag{{"v", "version", "the data's version; any if left out"}}}

// runTxn applies several writes or none.
func runTxn(ctx context.Context, s *shell, a *args) error {
	parts, err := txnParts(a)
	if err != nil {
		return err
	}
	var ops []zk.MultiOp
	for i, words := range parts {
		op, err := txnOp(words)
		if err != nil {
			return fmt.Errorf("txn, operation %d: %w; nothing was sent", i, err)
		}
		ops = append(ops, op)
	}
	if len(ops) == 0 {
		return &usageError{a.cmd, ""}
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
		v := map[string]any{"op": parts[i][0], "path": path}
		if parts[i][0] == "set" {
			v["stat"] = toJSON(r.Stat)
		}
		s.out.show(v, func() { s.out.printf("%s %s\n", parts[i][0], s.out.name(path)) })
	}
	return nil
}

// txnParts returns the words of each operation: from the arguments, apart by ";",
// or from a file's lines. A quoted ";" is data.
func txnParts(a *args) (parts [][]string, err error) {
	if file, ok := a.flags["f"]; ok {
		return txnLines(file)
	}
	words, quoted := a.words, a.quoted
	if len(words) == 1 { // one quoted argument
		if words, quoted, err = splitQuoted(words[0]); err != nil {
			return nil, err
		}
	}
	var part []string
	for i, word := range words {
		if literal := i < len(quoted) && quoted[i]; word != ";" || literal {
			part = append(part, word)
			continue
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
		part = nil
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts, nil
}

func txnLines(file string) (parts [][]string, err error) {
	in := os.Stdin
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return nil, fmt.Errorf("txn -f: %w", err)
		}
		defer in.Close()
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		words, err := split(text)
		if err != nil {
			return nil, fmt.Errorf("txn -f %s: %w", file, err)
		}
		if parts = append(parts, words); len(parts) > txnMax {
			return nil, fmt.Errorf("txn -f %s: more than %d operations; nothing was sent", file, txnMax)
		}
	}
	return parts, lines.Err()
}

// txnOp reads one operation.
func txnOp(words []string) (zk.MultiOp, error) {
	if !slices.Contains(txnCommands, words[0]) {
		return zk.MultiOp{}, fmt.Errorf("%q can't be part of a transaction; want one of %s", words[0], strings.Join(txnCommands, ", "))
	}
	c, rest := find(words)
	if words[0] == checkCommand.name {
		c, rest = &checkCommand, words[1:]
	}
	a, err := c.parse(rest)
	if err != nil {
		return zk.MultiOp{}, err
	}
	switch words[0] {
	case "create":
		n, err := readCreate(a)
		if err != nil {
			return zk.MultiOp{}, err
		}
		if n.mode == zk.ModePersistentWithTTL || n.mode == zk.ModePersistentSequentialWithTTL {
			return zk.CreateTTLOp(n.path, n.data, n.mode, n.acl, n.ttl), nil
		}
		return zk.CreateOp(n.path, n.data, n.mode, n.acl), nil
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
