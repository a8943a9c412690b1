package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// contents lists what a .deb or .rpm installs, one file per line, sorted by path, followed by the digests of its
// scripts: "0640 root root conf sha256:… /etc/zooid/zoo.cfg". It reads the files themselves, not only the package's
// metadata. Directories are omitted: an .rpm lists only those that it owns.
func contents(file string) (lines []string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("list a package: %w", err)
	}
	if strings.HasSuffix(file, ".rpm") {
		lines, err = rpmContents(b)
	} else {
		lines, err = debContents(b)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", file, err)
	}
	return lines, nil
}

// A packaged is a file in a package.
type packaged struct {
	path, user, group string
	mode              int64
	conf              bool
	body              []byte
}

// listed formats the list of files and scripts.
func listed(files []packaged, scripts map[string][]byte) (lines []string) {
	slices.SortFunc(files, func(a, b packaged) int { return strings.Compare(a.path, b.path) })
	for _, f := range files {
		kind := "file"
		if f.conf {
			kind = "conf"
		}
		lines = append(lines, fmt.Sprintf("%04o %s %s %s %s %s", f.mode, f.user, f.group, kind, digest(f.body), f.path))
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		lines = append(lines, fmt.Sprintf("script %s %s", digest(scripts[name]), name))
	}
	return lines
}

// debMembers reads an ar archive: each member has a header of 60 bytes, which starts at an even offset.
func debMembers(b []byte) (control, files []packaged, err error) {
	b, ok := bytes.CutPrefix(b, []byte("!<arch>\n"))
	if !ok {
		return nil, nil, errors.New("it is no archive of ar's")
	}
	for len(b) >= 60 {
		name, size := strings.TrimRight(string(b[:16]), " /"), strings.TrimSpace(string(b[48:58]))
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > len(b)-60 {
			return nil, nil, fmt.Errorf("member %s has %s bytes", name, size)
		}
		body := b[60 : 60+n]
		b = b[min(len(b), 60+n+n%2):]
		switch name {
		case "control.tar.gz":
			control, err = tarContents(body)
		case "data.tar.gz":
			files, err = tarContents(body)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return control, files, nil
}

func debContents(b []byte) ([]string, error) {
	control, files, err := debMembers(b)
	if err != nil {
		return nil, err
	}
	scripts := map[string][]byte{}
	var conf []string
	for _, f := range control {
		scripts[path.Base(f.path)] = f.body
		if path.Base(f.path) == "conffiles" {
			conf = strings.Fields(string(f.body))
		}
	}
	for i := range files {
		files[i].conf = slices.Contains(conf, files[i].path)
	}
	return listed(files, scripts), nil
}

func tarContents(b []byte) (files []packaged, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			files = append(files,
				packaged{path: path.Join("/", h.Name), user: h.Uname, group: h.Gname, mode: h.Mode & 0o7777, body: body})
		}
	}
}

// Tags in an .rpm's header, and flags in their values.
const (
	rpmPostinst, rpmPrerm, rpmPostrm                 = 1024, 1025, 1026
	rpmFileFlags, rpmFileUser, rpmFileGroup          = 1037, 1039, 1040
	rpmDirIndexes, rpmBasenames, rpmDirnames         = 1116, 1117, 1118
	rpmLeadBytes, rpmConfig, rpmNoReplace            = 96, 1, 1 << 4
	cpioRegular, cpioKind, cpioFields, cpioFieldHexs = 0o100000, 0o170000, 13, 8
)

// An rpmHeader has an index with 16 bytes per tag (tag, type, offset, count) and the store that the offsets refer to.
type rpmHeader struct{ index, store []byte }

// readRPMHeader reads the header at the start of b and returns its length.
func readRPMHeader(b []byte) (h rpmHeader, n int, err error) {
	if len(b) < 16 || !bytes.HasPrefix(b, []byte{0x8e, 0xad, 0xe8, 1}) {
		return h, 0, errors.New("there is no header")
	}
	tags, store := int64(binary.BigEndian.Uint32(b[8:])), int64(binary.BigEndian.Uint32(b[12:]))
	if 16+16*tags+store > int64(len(b)) {
		return h, 0, errors.New("a header is cut short")
	}
	n = int(16 + 16*tags + store)
	return rpmHeader{b[16 : 16+16*tags], b[16+16*tags : n]}, n, nil
}

// value returns the bytes from a tag's value on, and the number of values.
func (h rpmHeader) value(tag uint32) (from []byte, count int) {
	for i := h.index; len(i) >= 16; i = i[16:] {
		if binary.BigEndian.Uint32(i) == tag {
			if at := int64(binary.BigEndian.Uint32(i[8:])); at < int64(len(h.store)) {
				return h.store[at:], int(binary.BigEndian.Uint32(i[12:]))
			}
		}
	}
	return nil, 0
}

func (h rpmHeader) texts(tag uint32) (all []string) {
	b, n := h.value(tag)
	for range min(n, len(b)) {
		text, rest, _ := bytes.Cut(b, []byte{0})
		all, b = append(all, string(text)), rest
	}
	return all
}

func (h rpmHeader) numbers(tag uint32) (all []uint32) {
	b, n := h.value(tag)
	for ; n > 0 && len(b) >= 4; n, b = n-1, b[4:] {
		all = append(all, binary.BigEndian.Uint32(b))
	}
	return all
}

// rpmMainHeader returns the header of a package, and where it starts and ends: behind a lead and a header with
// signatures, which ends at a multiple of eight. A cpio archive follows.
func rpmMainHeader(b []byte) (h rpmHeader, start, end int, err error) {
	if len(b) < rpmLeadBytes || !bytes.HasPrefix(b, []byte{0xed, 0xab, 0xee, 0xdb}) {
		return h, 0, 0, errors.New("it is no .rpm")
	}
	_, n, err := readRPMHeader(b[rpmLeadBytes:])
	if err != nil {
		return h, 0, 0, fmt.Errorf("signatures: %w", err)
	}
	start = min(len(b), rpmLeadBytes+(n+7)/8*8)
	h, n, err = readRPMHeader(b[start:])
	return h, start, start + n, err
}

func rpmContents(b []byte) ([]string, error) {
	h, _, end, err := rpmMainHeader(b)
	if err != nil {
		return nil, err
	}
	files, err := cpioContents(b[end:])
	if err != nil {
		return nil, err
	}
	names, dirs, of := h.texts(rpmBasenames), h.texts(rpmDirnames), h.numbers(rpmDirIndexes)
	users, groups, flags := h.texts(rpmFileUser), h.texts(rpmFileGroup), h.numbers(rpmFileFlags)
	if len(of) != len(names) || len(users) != len(names) || len(groups) != len(names) || len(flags) != len(names) {
		return nil, errors.New("its header tells not the same of all files")
	}
	told := map[string]int{}
	for i, name := range names {
		if int64(of[i]) >= int64(len(dirs)) {
			return nil, fmt.Errorf("%s is in no directory", name)
		}
		told[dirs[of[i]]+name] = i
	}
	for i := range files {
		f := &files[i]
		at, ok := told[f.path]
		if !ok {
			return nil, fmt.Errorf("its header doesn't tell of %s", f.path)
		}
		f.user, f.group, f.conf = users[at], groups[at], flags[at]&(rpmConfig|rpmNoReplace) == rpmConfig|rpmNoReplace
	}
	scripts := map[string][]byte{}
	for name, tag := range map[string]uint32{"postinst": rpmPostinst, "prerm": rpmPrerm, "postrm": rpmPostrm} {
		scripts[name] = []byte(strings.Join(h.texts(tag), ""))
	}
	return listed(files, scripts), nil
}

// cpioContents reads the "newc" format: a header of hexadecimal numbers, the name and the body, each padded to a
// multiple of four.
func cpioContents(b []byte) (files []packaged, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(z)
	head := make([]byte, 6+cpioFields*cpioFieldHexs)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, err
		}
		field := func(i int) int64 {
			n, parseErr := strconv.ParseInt(string(head[6+i*cpioFieldHexs:][:cpioFieldHexs]), 16, 64)
			err = errors.Join(err, parseErr)
			return n
		}
		mode, size, nameBytes := field(1), field(6), field(11)
		if err != nil || !bytes.HasPrefix(head, []byte("070701")) {
			return nil, fmt.Errorf("an entry begins with %q, %w", head, err)
		}
		name, err := padded(r, nameBytes, int64(len(head)))
		if err != nil {
			return nil, err
		}
		if string(name) == "TRAILER!!!\x00" {
			return files, nil
		}
		body, err := padded(r, size, 0)
		if err != nil {
			return nil, err
		}
		if mode&cpioKind == cpioRegular {
			files = append(files,
				packaged{path: path.Join("/", strings.TrimRight(string(name), "\x00")), mode: mode & 0o7777, body: body})
		}
	}
}

// padded reads n bytes after behind others, and the padding to a multiple of four.
func padded(r io.Reader, n, behind int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, n))
	if err == nil && int64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, r, (4-(n+behind)%4)%4)
	}
	return b, err
}
