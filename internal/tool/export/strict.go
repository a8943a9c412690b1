package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// member is one key of a record, and the destination of its value.
type member struct {
	key  string
	into any // *string, **string, *[]string or *int
}

func (h *Head) members() []member {
	return []member{{"format", &h.Format}, {"root", &h.Root}, {"time", &h.Time}}
}

func (d *Node) members() []member {
	return []member{{"path", &d.Path}, {"data", &d.Data}, {"base64", &d.Base64}, {"acl", &d.ACL}}
}

func (e *endMark) members() []member {
	return []member{{"znodes", &e.Znodes}, {"sha256", &e.SHA256}}
}

// take returns the destination of the value of a key, and the members without it.
func take(members []member, key string) (into any, left []member, err error) {
	i := slices.IndexFunc(members, func(m member) bool { return m.key == key })
	if i < 0 {
		return nil, members, fmt.Errorf("the key %q is unknown here, or is given twice", key)
	}
	return members[i].into, slices.Delete(slices.Clone(members), i, i+1), nil
}

// strictJSON parses an object. Unlike encoding/json it accepts each key only once and in its exact spelling, and no
// null: a misspelt key must not look like a missing one.
func strictJSON(text []byte, members []member) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return errors.Join(fmt.Errorf("want an object, not %.40s", text), err)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // the decoder accepts no other keys
		var into any
		if into, members, err = take(members, key); err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return fmt.Errorf("the value of %q: %w", key, err)
		}
		if err := checkJSON(value); err != nil {
			return fmt.Errorf("the value of %q: %w", key, err)
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("the value of %q: %w", key, err)
		}
	}
	_, err := d.Token()
	return err
}

// checkJSON refuses empty lists and null, also in a list.
func checkJSON(value json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(value))
	for empty := true; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case token == nil:
			return errors.New("it is null; leave the key out for none")
		case token == json.Delim(']') && empty:
			return errors.New("the list is empty; leave the key out for none")
		}
		empty = token == json.Delim('[')
	}
}

// strictYAML parses a mapping in the same strict way: each key once, and plain text as values.
func strictYAML(n *yaml.Node, members []member) error {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want keys with values", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		into, left, err := take(members, key.Value)
		if err == nil {
			members = left
			err = checkYAML(value, into)
		}
		if err == nil {
			err = value.Decode(into)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", key.Line, err)
		}
	}
	return nil
}

// checkYAML refuses a value of another kind than into accepts. The yaml package would convert some of them to text, and
// null to nothing.
func checkYAML(value *yaml.Node, into any) error {
	switch into.(type) {
	case *[]string:
		if value.Kind != yaml.SequenceNode || len(value.Content) == 0 {
			return errors.New("want a list that is not empty; leave the key out for none")
		}
		for _, entry := range value.Content {
			if err := checkYAML(entry, new(string)); err != nil {
				return err
			}
		}
		return nil
	case *int:
		if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!int" {
			return errors.New("want a number")
		}
		return nil
	}
	if value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" {
		return errors.New("want text; quotes make text of true, null and numbers")
	}
	return nil
}

// recordMax bounds one record of a file. It is several times a server's limit, since text and base64 are longer than
// the data.
const recordMax = 64 << 20

// boundedReader fails when a record is larger than recordMax. begin starts the next record.
type boundedReader struct {
	r    io.Reader
	left int
}

func (b *boundedReader) begin() { b.left = recordMax }

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("a record is larger than %d bytes, the maximum for a znode", recordMax)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// readRest returns an error unless the rest of r is blank, as blank defines it.
func readRest(r io.Reader, blank func(byte) bool) error {
	part := make([]byte, 4<<10)
	for {
		n, err := r.Read(part)
		if slices.ContainsFunc(part[:n], func(b byte) bool { return !blank(b) }) {
			return errors.New("there is more after its end")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after its end: %w", err)
		}
	}
}
