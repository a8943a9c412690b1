package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A pair is one key of an object.
type pair struct {
	key   string
	value any
}

// An object is a JSON object that preserves the order of its keys.
type object []pair

// array is a JSON array.
type array []any

// set adds a key.
func (o *object) set(key string, value any) { *o = append(*o, pair{key, value}) }

// text encodes v in the layout of Apache's answers, which scripts parse by line: objects take a line per key, with a
// blank before the colon, and arrays stay on one line.
func text(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := write(&b, v, 0); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

const indent = "  "

func write(b *bytes.Buffer, v any, depth int) error {
	switch x := v.(type) {
	case object:
		return writeObject(b, x, depth)
	case array:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte(' ')
			if err := write(b, e, depth); err != nil {
				return err
			}
		}
		b.WriteString(" ]")
		return nil
	}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	b.Truncate(b.Len() - len("\n"))
	return nil
}

func writeObject(b *bytes.Buffer, o object, depth int) error {
	if len(o) == 0 {
		b.WriteString("{ }")
		return nil
	}
	b.WriteString("{")
	for i, p := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + strings.Repeat(indent, depth+1))
		if err := write(b, p.key, depth); err != nil {
			return err
		}
		b.WriteString(" : ")
		if err := write(b, p.value, depth+1); err != nil {
			return err
		}
	}
	b.WriteString("\n" + strings.Repeat(indent, depth) + "}")
	return nil
}
