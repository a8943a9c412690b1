package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// DynamicPath names the file next to a zoo.cfg that holds the membership of a version.
func DynamicPath(cfg string, version int64) string {
	return fmt.Sprintf("%s.dynamic.%x", cfg, uint64(version))
}

// NextDynamicPath names the file that holds a membership proposed, not yet known to be active.
func NextDynamicPath(cfg string) string { return cfg + ".dynamic.next" }

// BackupPath names the copy of zoo.cfg made before WriteStatic first changes it.
func BackupPath(cfg string) string { return cfg + ".bak" }

// LoadDynamic reads an active dynamic file. The version is the hexadecimal number after the last dot of its name, 0
// without one; a version key inside is an error, as in Apache.
func LoadDynamic(path string) (Members, error) {
	m, props, err := loadMembers(path)
	if err != nil {
		return Members{}, err
	}
	if i := slices.IndexFunc(props, func(p property) bool { return p.key == "version" }); i >= 0 {
		return Members{}, &Error{Code: "ZD-1006", File: path, Line: props[i].line, Key: "version", Value: props[i].value,
			Problem: "the version belongs in the name of a dynamic file, not inside; remove the line"}
	}
	m.Version = versionOf(path)
	return m, nil
}

// LoadNextDynamic reads the membership proposed when the server last ran, from the file next to the given zoo.cfg. The
// error is fs.ErrNotExist when there is none.
func LoadNextDynamic(cfg string) (Members, error) {
	m, _, err := loadMembers(NextDynamicPath(cfg))
	return m, err
}

func loadMembers(path string) (Members, []property, error) {
	content, err := ReadFile(path, fileMax)
	if err != nil {
		return Members{}, nil, &Error{
			Code: "ZD-1001", File: path, Problem: fmt.Sprintf("can't read the membership: %v", reason(err)), Cause: err,
		}
	}
	props, bad := parseProperties(content)
	if bad != nil {
		bad.File = path
		return Members{}, nil, bad
	}
	m, bad := membersOf(path, props, true)
	if bad != nil {
		return Members{}, nil, bad
	}
	return m, props, nil
}

// versionOf reads the version at the end of a dynamic file's name.
func versionOf(path string) int64 {
	i := strings.LastIndexByte(path, '.')
	v, err := strconv.ParseUint(path[i+1:], 16, 63)
	if i < 0 || err != nil {
		return 0
	}
	return int64(v)
}

// WriteDynamic stores a membership so that a crash leaves the old file or the new one. The lines are sorted as text, as
// Apache sorts them. The version line is written only into next files (withVersion). It blocks until the disk has it.
func WriteDynamic(path string, m Members, withVersion bool) error {
	lines := strings.Split(m.String(), "\n")
	if !withVersion {
		lines = lines[:len(lines)-1]
	}
	slices.Sort(lines)
	return writeFile(path, []byte(strings.Join(lines, "\n")))
}

// WriteStatic makes the zoo.cfg at cfg point to a dynamic file. It removes server, group and weight lines, peerType
// and an older dynamicConfigFile, and with dropClientPort also clientPort and clientPortAddress, which the membership
// then holds. Every other line stays as it is, comments too. With relativePaths=file, the dynamic file is named
// relative to the folder of cfg, so that the folder can be moved; otherwise by its absolute path. The first time, the
// previous file is kept at BackupPath. It blocks until the disk has it.
func WriteStatic(cfg, dynamic string, dropClientPort bool) error {
	content, err := ReadFile(cfg, fileMax)
	if err != nil {
		return fmt.Errorf("point %s to %s: %w", cfg, dynamic, err)
	}
	props, bad := parseProperties(content)
	if bad != nil {
		bad.File = cfg
		return bad
	}
	if _, err := os.Stat(BackupPath(cfg)); os.IsNotExist(err) {
		if err := writeFile(BackupPath(cfg), content); err != nil {
			return err
		}
	}
	dynamic, err = filepath.Abs(dynamic)
	if err != nil {
		return fmt.Errorf("point %s to %s: %w", cfg, dynamic, err)
	}
	folder, _, err := pathsBegin(props, cfg)
	if err == nil && folder != "" {
		dynamic, err = filepath.Rel(folder, dynamic)
	}
	if err != nil {
		return fmt.Errorf("point %s to %s: %w", cfg, dynamic, err)
	}
	drop := map[int]bool{}
	for _, p := range props {
		if isServerLine(p.key) || p.key == "peerType" || p.key == "dynamicConfigFile" ||
			dropClientPort && (p.key == "clientPort" || p.key == "clientPortAddress") {
			for line := p.line; line <= p.last; line++ {
				drop[line] = true
			}
		}
	}
	var b strings.Builder
	for i, line := range splitLines(string(content)) {
		if !drop[i+1] {
			b.WriteString(line + "\n")
		}
	}
	b.WriteString("dynamicConfigFile=" + escapeValue(dynamic) + "\n")
	return writeFile(cfg, []byte(b.String()))
}

// splitLines splits text at \n, \r\n and \r alike, as properties files end lines.
func splitLines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// escapeValue writes a value so that parseProperties reads it back.
func escapeValue(s string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		switch {
		case unit == '\\':
			b.WriteString(`\\`)
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&b, `\u%04x`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}

// fileMode lets others read a configuration; a zoo.cfg with secrets keeps its own mode, see writeFile.
const fileMode fs.FileMode = 0o644

// writeFile replaces a file as a whole. An existing file's mode is kept; a backup gets the mode of the file it copies.
func writeFile(path string, content []byte) error {
	mode := fileMode
	for _, like := range []string{path, strings.TrimSuffix(path, ".bak")} {
		if st, err := os.Stat(like); err == nil {
			mode = st.Mode().Perm()
			break
		}
	}
	if err := ReplaceFile(path, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReplaceFile durably replaces a file as a whole: new content next to it, synced, renamed over it, directory synced.
func ReplaceFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
