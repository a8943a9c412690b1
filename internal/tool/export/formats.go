package export

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// jsonWriter writes one object: the head, a list with one line per znode, and the end mark.
type jsonWriter struct {
	w     *bufio.Writer
	lines int
}

func newJSONWriter(w io.Writer) formatWriter { return &jsonWriter{w: bufio.NewWriter(w)} }

func (j *jsonWriter) head(h Head) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = fmt.Fprintf(j.w, "%s,\"znodes\":[", strings.TrimSuffix(string(text), "}"))
	}
	return err
}

func (j *jsonWriter) node(d Node) error {
	separator := ",\n"
	if j.lines == 0 {
		separator = "\n"
	}
	j.lines++
	if _, err := j.w.WriteString(separator); err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err == nil {
		_, err = j.w.Write(text)
	}
	return err
}

func (j *jsonWriter) close(e endMark) error {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = fmt.Fprintf(j.w, "\n],\"end\":%s}\n", text)
	}
	return errors.Join(err, j.w.Flush())
}

// jsonReader reads what jsonWriter writes. The list must come after the head and before the end mark.
type jsonReader struct {
	in *boundedReader
	d  *json.Decoder
}

func newJSONReader(r io.Reader) formatReader {
	in := &boundedReader{r: r}
	return &jsonReader{in: in, d: json.NewDecoder(in)}
}

func (j *jsonReader) head() (h Head, err error) {
	j.in.begin()
	if err := j.delim('{'); err != nil {
		return h, err
	}
	for left := h.members(); ; {
		token, err := j.token()
		if err != nil {
			return h, err
		}
		key, _ := token.(string)
		if key == "znodes" {
			return h, j.delim('[')
		}
		var into any
		if into, left, err = take(left, key); err != nil {
			return h, fmt.Errorf("at byte %d: %w", j.d.InputOffset(), err)
		}
		value, err := j.value()
		if err == nil {
			err = errors.Join(checkJSON(value), json.Unmarshal(value, into))
		}
		if err != nil {
			return h, fmt.Errorf("%s: %w", key, err)
		}
	}
}

// token returns the next token. The end of the text is an error, since the object must end first.
func (j *jsonReader) token() (json.Token, error) {
	token, err := j.d.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return token, err
}

func (j *jsonReader) value() (value json.RawMessage, err error) {
	err = j.d.Decode(&value)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return value, err
}

func (j *jsonReader) delim(want json.Delim) error {
	token, err := j.token()
	if err == nil && token != want {
		err = fmt.Errorf("want %v, not %v, at byte %d", want, token, j.d.InputOffset())
	}
	return err
}

func (j *jsonReader) next() (d Node, err error) {
	j.in.begin()
	if !j.d.More() {
		return d, io.EOF
	}
	at := j.d.InputOffset()
	value, err := j.value()
	if err == nil {
		err = strictJSON(value, d.members())
	}
	if err != nil {
		err = fmt.Errorf("at byte %d: %w", at, err)
	}
	return d, err
}

// end reads the rest after the last znode.
func (j *jsonReader) end() (*endMark, error) {
	j.in.begin()
	if err := j.delim(']'); err != nil {
		return nil, fmt.Errorf("the end of the list: %w", err)
	}
	var mark *endMark
	if j.d.More() {
		if token, err := j.token(); err != nil || token != "end" {
			return nil, errors.Join(fmt.Errorf("at byte %d: want the end mark, not %v", j.d.InputOffset(), token), err)
		}
		value, err := j.value()
		mark = new(endMark)
		if err == nil {
			err = strictJSON(value, mark.members())
		}
		if err != nil {
			return nil, fmt.Errorf("the end mark: %w", err)
		}
	}
	if err := j.delim('}'); err != nil {
		return nil, fmt.Errorf("the end: %w", err)
	}
	j.in.begin()
	return mark, readRest(io.MultiReader(j.d.Buffered(), j.in.r), func(b byte) bool {
		return b == ' ' || b == '\t' || b == '\r' || b == '\n'
	})
}

// yamlWriter writes a stream of documents: the head, then one for each znode. Each document has its own encoder, since
// one encoder would keep them all in memory.
type yamlWriter struct{ w *bufio.Writer }

func newYAMLWriter(w io.Writer) formatWriter { return &yamlWriter{bufio.NewWriter(w)} }

func (y *yamlWriter) head(h Head) error { return y.document(h) }
func (y *yamlWriter) node(d Node) error { return y.document(d) }

func (y *yamlWriter) close(e endMark) error {
	return errors.Join(y.document(e), y.w.Flush())
}

func (y *yamlWriter) document(v any) error {
	text, err := yaml.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(y.w, "---\n%s", text)
	}
	return err
}

type yamlReader struct {
	in   *boundedReader
	d    *yaml.Decoder
	mark *endMark
}

func newYAMLReader(r io.Reader) formatReader {
	in := &boundedReader{r: r}
	return &yamlReader{in: in, d: yaml.NewDecoder(in)}
}

// document returns the next document without conversion.
func (y *yamlReader) document() (n yaml.Node, err error) {
	y.in.begin()
	err = y.d.Decode(&n)
	return n, err
}

func (y *yamlReader) head() (h Head, err error) {
	n, err := y.document()
	if err == nil {
		err = strictYAML(&n, h.members())
	}
	return h, err
}

func (y *yamlReader) next() (d Node, err error) {
	n, err := y.document()
	if err != nil {
		return d, err
	}
	if isMark(&n) {
		y.mark = new(endMark)
		if err := strictYAML(&n, y.mark.members()); err != nil {
			return d, fmt.Errorf("the end mark: %w", err)
		}
		return d, io.EOF
	}
	return d, strictYAML(&n, d.members())
}

// isMark reports whether n is the end mark and not a znode: no znode has the mark's key.
func isMark(n *yaml.Node) bool {
	return len(n.Content) == 1 && len(n.Content[0].Content) > 0 && n.Content[0].Content[0].Value == "znodes"
}

func (y *yamlReader) end() (*endMark, error) {
	if y.mark == nil {
		return nil, nil // the file ended without one
	}
	if n, err := y.document(); err == nil {
		return nil, fmt.Errorf("line %d: there is more after its end mark", n.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("after its end mark: %w", err)
	}
	return y.mark, nil
}

// tarWriter writes a folder with a data file for each znode, so that an archive can be unpacked and read. The entry's
// header has everything that a file can't express, and an import reads it.
type tarWriter struct{ w *tar.Writer }

// The records of a header, and the name of the file with a znode's data.
const (
	tarRecord   = "ZOOID.znode" // the znode without its data, in JSON
	tarHead     = "ZOOID.head"  // the head, in JSON, of the first entry
	tarEnd      = "ZOOID.end"   // the end mark, in JSON, of the last entry
	tarHeadFile = "_zooid"
	tarEndFile  = "_zooid_end"
	tarDataFile = "_data"
)

func newTarWriter(w io.Writer) formatWriter { return &tarWriter{tar.NewWriter(w)} }

func (t *tarWriter) head(h Head) error {
	return t.entry(tarHeadFile, tarHead, h, nil, time.Time{})
}

func (t *tarWriter) node(d Node) error {
	data, err := d.bytes()
	if err != nil {
		return err
	}
	empty := ""
	if data != nil {
		d.Data, d.Base64 = &empty, nil // says that there are data
	}
	err = t.entry(d.tarName(), tarRecord, d, data, d.mtime)
	if errors.Is(err, tar.ErrFieldTooLong) {
		return fmt.Errorf("the znode %.100q…: its path and ACL have %d bytes, more than a tar can hold (%w). Export as JSON or YAML",
			d.Path, len(d.Path)+len(strings.Join(d.ACL, "")), err)
	}
	return err
}

// tarName returns the name of the file with a znode's data.
func (d *Node) tarName() string {
	return strings.TrimPrefix(strings.TrimSuffix(d.Path, "/")+"/"+tarDataFile, "/")
}

func (t *tarWriter) entry(name, record string, v any, data []byte, at time.Time) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = t.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o600, ModTime: at,
		Format: tar.FormatPAX, PAXRecords: map[string]string{record: string(text)},
	})
	if err == nil {
		_, err = t.w.Write(data)
	}
	return err
}

func (t *tarWriter) close(e endMark) error {
	return errors.Join(t.entry(tarEndFile, tarEnd, e, nil, time.Time{}), t.w.Close())
}

type tarReader struct {
	in   io.Reader
	r    *tar.Reader
	mark *endMark
}

func newTarReader(r io.Reader) formatReader { return &tarReader{in: r, r: tar.NewReader(r)} }

// record parses the record of an entry, which must be of the given kind.
func record(entry *tar.Header, kind string, members []member) error {
	text, ok := entry.PAXRecords[kind]
	if !ok || entry.Typeflag != tar.TypeReg {
		return fmt.Errorf("the entry %q has no record %s: it wasn't written by export", entry.Name, kind)
	}
	if err := strictJSON([]byte(text), members); err != nil {
		return fmt.Errorf("the record of the entry %q: %w", entry.Name, err)
	}
	return nil
}

func (t *tarReader) head() (h Head, err error) {
	entry, err := t.r.Next()
	if err != nil {
		return h, err
	}
	return h, record(entry, tarHead, h.members())
}

func (t *tarReader) next() (d Node, err error) {
	entry, err := t.r.Next()
	if err != nil {
		return d, err
	}
	if entry.Name == tarEndFile {
		t.mark = new(endMark)
		if err := record(entry, tarEnd, t.mark.members()); err != nil {
			return d, err
		}
		return d, io.EOF
	}
	if err := record(entry, tarRecord, d.members()); err != nil {
		return d, err
	}
	switch {
	case entry.Name != d.tarName():
		return d, fmt.Errorf("the entry %q says that it is %q", entry.Name, d.Path)
	case entry.Size > recordMax:
		return d, fmt.Errorf("the entry %q has %d bytes; no znode has more than %d", entry.Name, entry.Size, recordMax)
	case d.Base64 != nil, d.Data == nil && entry.Size > 0, d.Data != nil && *d.Data != "":
		return d, fmt.Errorf("the record of the entry %q doesn't fit its %d bytes of data", entry.Name, entry.Size)
	}
	data, err := io.ReadAll(t.r)
	if err == nil && d.Data != nil {
		text := string(data)
		d.Data = &text
	}
	return d, err
}

func (t *tarReader) end() (*endMark, error) {
	if t.mark != nil {
		if entry, err := t.r.Next(); err == nil {
			return nil, fmt.Errorf("the entry %q stands after its end mark", entry.Name)
		} else if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("after its end mark: %w", err)
		}
	}
	return t.mark, readRest(t.in, func(b byte) bool { return b == 0 })
}
