package cli

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

// jsonWriter writes one object whose last member is a list, a line to a znode.
type jsonWriter struct {
	w     *bufio.Writer
	lines int
}

func newJSONWriter(w io.Writer) *jsonWriter { return &jsonWriter{w: bufio.NewWriter(w)} }

func (j *jsonWriter) head(h documentHead) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = fmt.Fprintf(j.w, "%s,\"znodes\":[", strings.TrimSuffix(string(text), "}"))
	}
	return err
}

func (j *jsonWriter) node(d documentNode) error {
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

func (j *jsonWriter) close() error {
	if _, err := j.w.WriteString("\n]}\n"); err != nil {
		return err
	}
	return j.w.Flush()
}

// jsonReader reads it, the members of the object in any order as long as the list
// comes last.
type jsonReader struct{ d *json.Decoder }

func newJSONReader(r io.Reader) *jsonReader { return &jsonReader{json.NewDecoder(r)} }

func (j *jsonReader) head() (h documentHead, err error) {
	if err := j.delim('{'); err != nil {
		return h, err
	}
	for {
		key, err := j.d.Token()
		if err != nil {
			return h, err
		}
		switch key {
		case "znodes":
			return h, errors.Join(h.check(), j.delim('['))
		case "format":
			err = j.d.Decode(&h.Format)
		case "root":
			err = j.d.Decode(&h.Root)
		case "time":
			err = j.d.Decode(&h.Time)
		default:
			err = fmt.Errorf("want format, root, time or znodes, not %v", key)
		}
		if err != nil {
			return h, err
		}
	}
}

func (j *jsonReader) delim(want json.Delim) error {
	token, err := j.d.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF // the end of the text isn't that of the list
	}
	if err == nil && token != want {
		err = fmt.Errorf("want %v, not %v, at byte %d", want, token, j.d.InputOffset())
	}
	return err
}

func (j *jsonReader) next() (d documentNode, err error) {
	if !j.d.More() {
		if err := errors.Join(j.delim(']'), j.delim('}')); err != nil {
			return d, fmt.Errorf("the end of the list: %w", err)
		}
		return d, io.EOF
	}
	err = j.d.Decode(&d)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return d, err
}

// yamlWriter writes a stream of documents: the head, then one for each znode. Each
// has its own encoder, as one encoder would hold them all in memory.
type yamlWriter struct{ w *bufio.Writer }

func newYAMLWriter(w io.Writer) *yamlWriter { return &yamlWriter{bufio.NewWriter(w)} }

func (y *yamlWriter) head(h documentHead) error { return y.document(h) }
func (y *yamlWriter) node(d documentNode) error { return y.document(d) }
func (y *yamlWriter) close() error              { return y.w.Flush() }

func (y *yamlWriter) document(v any) error {
	text, err := yaml.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(y.w, "---\n%s", text)
	}
	return err
}

type yamlReader struct{ d *yaml.Decoder }

func newYAMLReader(r io.Reader) *yamlReader {
	d := yaml.NewDecoder(r)
	d.KnownFields(true)
	return &yamlReader{d}
}

func (y *yamlReader) head() (h documentHead, err error) {
	if err := y.d.Decode(&h); err != nil {
		return h, err
	}
	return h, h.check()
}

func (y *yamlReader) next() (d documentNode, err error) {
	err = y.d.Decode(&d)
	return d, err
}

// tarWriter writes a file for each znode, below a folder for each znode, so that
// an archive can be unpacked and read. What a file can't say stands in its header,
// which is what an import goes by.
type tarWriter struct{ w *tar.Writer }

// The records of a header, and the name of the file with a znode's data.
const (
	tarRecord   = "ZOOID.znode" // the znode without its data, in JSON
	tarHead     = "ZOOID.head"  // the head, in JSON, of the first entry
	tarHeadFile = "_zooid"
	tarDataFile = "_data"
)

func newTarWriter(w io.Writer) *tarWriter { return &tarWriter{tar.NewWriter(w)} }

func (t *tarWriter) head(h documentHead) error {
	return t.entry(tarHeadFile, tarHead, h, nil, time.Time{})
}

func (t *tarWriter) node(d documentNode) error {
	data, err := d.bytes()
	if err != nil {
		return err
	}
	empty := ""
	if data != nil {
		d.Data, d.Base64 = &empty, nil // tells that there is data
	}
	return t.entry(strings.TrimPrefix(d.relative()+"/"+tarDataFile, "/"), tarRecord, d, data, d.mtime)
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

func (t *tarWriter) close() error { return t.w.Close() }

type tarReader struct{ r *tar.Reader }

func newTarReader(r io.Reader) *tarReader { return &tarReader{tar.NewReader(r)} }

func (t *tarReader) head() (h documentHead, err error) {
	entry, err := t.r.Next()
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal([]byte(entry.PAXRecords[tarHead]), &h); err != nil {
		return h, fmt.Errorf("its first entry %q is not that of an export", entry.Name)
	}
	return h, h.check()
}

func (t *tarReader) next() (d documentNode, err error) {
	entry, err := t.r.Next()
	if err != nil {
		return d, err
	}
	record, ok := entry.PAXRecords[tarRecord]
	if !ok {
		return d, fmt.Errorf("the entry %q has no record %s: it wasn't written by export", entry.Name, tarRecord)
	}
	if err := json.Unmarshal([]byte(record), &d); err != nil {
		return d, fmt.Errorf("the record of the entry %q: %w", entry.Name, err)
	}
	if entry.Size > documentMax {
		return d, fmt.Errorf("the entry %q has %d bytes; no znode has more than %d", entry.Name, entry.Size, documentMax)
	}
	data, err := io.ReadAll(t.r)
	if err == nil && d.Data != nil {
		text := string(data)
		d.Data = &text
	}
	return d, err
}
