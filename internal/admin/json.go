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
// blank before the colon, and arrays, also []string and []int64, stay on one line.
func text(v any) ([]byte, error) {
	var b writer
	b.values = json.NewEncoder(&b.Buffer)
	b.values.SetEscapeHTML(false)
	if err := b.write(v, 0); err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return b.Bytes(), nil
}

// A writer writes JSON to its buffer.
type writer struct {
	bytes.Buffer
	values *json.Encoder // writes to the buffer, too
}

func (b *writer) write(v any, depth int) error {
	switch x := v.(type) {
	case object:
		return b.writeObject(x, depth)
	case array:
		return writeArray(b, x, depth)
	case []string: // a long list as an array would take three times the memory
		return writeArray(b, x, depth)
	case []int64:
		return writeArray(b, x, depth)
	}
	if err := b.values.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - len("\n"))
	return nil
}

func writeArray[E any](b *writer, list []E, depth int) error {
	b.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		if err := b.write(e, depth); err != nil {
			return err
		}
	}
	b.WriteString(" ]")
	return nil
}

const indent = "  "

func (b *writer) writeObject(o object, depth int) error {
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
		if err := b.write(p.key, depth); err != nil {
			return err
		}
		b.WriteString(" : ")
		if err := b.write(p.value, depth+1); err != nil {
			return err
		}
	}
	b.WriteString("\n" + strings.Repeat(indent, depth) + "}")
	return nil
}
