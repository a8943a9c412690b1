package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fileMax bounds a configuration file; the largest in use are a few KiB.
const fileMax = 1 << 20

// Load reads the zoo.cfg at path, the files it points to (myid, dynamicConfigFile) and the properties of defs: each
// name=value as after -D, with or without the -D. zoo.cfg wins over defs, as in Apache. It only reads; it blocks for
// the file system only. The error joins every *Error found.
func Load(path string, defs []string) (*Config, error) { return load(path, defs, false) }

// LoadAny reads a zoo.cfg as Load does, for tools that inspect an ensemble they don't belong to: the myid file may be
// missing or hold anything, and Quorum.MyID is -1 then.
func LoadAny(path string, defs []string) (*Config, error) { return load(path, defs, true) }

func load(path string, defs []string, anyServer bool) (*Config, error) {
	content, err := ReadFile(path, fileMax)
	if err != nil {
		return nil, &Error{
			File: path, Problem: fmt.Sprintf("can't read the configuration: %v", reason(err)), Cause: err, Code: "ZD-1001",
		}
	}
	l := newLoader(path)
	l.anyServer = anyServer
	props, bad := parseProperties(content)
	if bad != nil {
		bad.File = path
		return nil, bad
	}
	return l.run(props, defs)
}

// Standalone configures a single server from Apache's positional arguments: port, data directory and optionally
// tickTime in milliseconds and maxClientCnxns. In this form maxClientCnxns is 0, no limit, unless given, and tickTime
// is 3000. Properties of defs apply as in Load.
func Standalone(args, defs []string) (*Config, error) {
	if len(args) < 2 || len(args) > 4 {
		return nil, &Error{
			Code: "ZD-1009", Problem: fmt.Sprintf("%d arguments; allowed: a configuration file, or port dataDir [tickTime [maxClientCnxns]]",
				len(args)),
		}
	}
	props := []property{{key: "maxClientCnxns", value: "0"}}
	for i, name := range []string{"clientPort", "dataDir", "tickTime", "maxClientCnxns"}[:len(args)] {
		props = append(props, property{key: name, value: args[i]})
	}
	if len(args) == 4 {
		props = props[1:]
	}
	return newLoader("").run(props, defs)
}

// Default configures a server without any settings: it serves 127.0.0.1:2181 from the directory zooid-data in the
// working directory. Properties of defs apply as in Load.
func Default(defs []string) (*Config, error) {
	return newLoader("").run([]property{
		{key: "clientPort", value: "2181"},
		{key: "clientPortAddress", value: "127.0.0.1"},
		{key: "dataDir", value: "./zooid-data"},
	}, defs)
}

// ReadFile reads a whole file of settings. It fails if the file has more than most bytes, as one named by mistake may.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, most)
}

// ReadAll is ReadFile for an open file.
func ReadAll(f *os.File, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("it has more than %d bytes; is it the right file?", most)
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return content, err
}

// reason removes the path from a file error, as the message has it already.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// loader collects the settings of one configuration.
type loader struct {
	c     *Config
	keys  map[string]key
	names []string           // of keys, in table order
	given map[string]setting // by key as in zoo.cfg: the value that counts
	errs  []error

	servers []property // server, group and weight lines
	doubts  []doubt

	anyServer bool   // see LoadAny
	folder    string // where relative paths in zoo.cfg begin; "" for the working directory
}

// setting is a value, and where it came from.
type setting struct {
	file  string // "" for the command line
	line  int
	value string
}

func newLoader(file string) *loader {
	l := &loader{c: &Config{File: file}, keys: table(), given: map[string]setting{}}
	for _, k := range rows() {
		l.names = append(l.names, k.name)
		if k.field == nil || k.value == "" {
			continue
		}
		if _, err := k.assign(l.c, k.value); err != nil {
			panic(fmt.Sprintf("config: default %s=%s: %v", k.name, k.value, err))
		}
	}
	return l
}

// run applies defs and props to the defaults, then the rules that span keys.
func (l *loader) run(props []property, defs []string) (*Config, error) {
	for _, d := range defs {
		l.define(d)
	}
	l.findFolder(props)
	seen := map[string]int{}
	for _, p := range props {
		if first, dup := seen[p.key]; dup && !strings.HasPrefix(p.key, "server.") {
			l.warn("ZD-1023", p.line, p.key, fmt.Sprintf("given in line %d already; the last line counts", first))
		}
		seen[p.key] = p.line
		l.property(p)
	}
	l.settleDoubts()
	l.familyRules()
	if len(l.errs) == 0 {
		l.applyRules()
	}
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	slices.SortStableFunc(l.c.Warnings, l.byPlace)
	return l.c, nil
}

// findFolder finds out where relative paths begin, which may be said behind them.
func (l *loader) findFolder(props []property) {
	folder, said, err := pathsBegin(props, l.c.File)
	if err != nil {
		l.failAt("ZD-1002", setting{l.c.File, said.line, said.value}, said.key, err.Error())
	}
	l.folder = folder
}

// pathsBegin returns the folder in which relative paths of a zoo.cfg begin, "" for the working directory, and the
// property that says so.
func pathsBegin(props []property, file string) (folder string, said property, err error) {
	for _, p := range props {
		if p.key == "relativePaths" {
			said = p
		}
	}
	if said.value != besideFile || file == "" {
		return "", said, nil
	}
	folder, err = filepath.Abs(filepath.Dir(file))
	return folder, said, err
}

// byPlace orders warnings: first those of the command line, then those of zoo.cfg by line, then those of other files.
func (l *loader) byPlace(a, b Warning) int {
	rank := func(w Warning) int {
		switch w.File {
		case "":
			return 0
		case l.c.File:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Line, b.Line))
}

func (l *loader) warn(code string, line int, key, text string) {
	l.c.Warnings = append(l.c.Warnings, Warning{Code: code, File: l.c.File, Line: line, Key: key, Text: text})
}

// fail records an error about a key, at the place where the key was given, if any.
func (l *loader) fail(code, name, format string, args ...any) {
	s, ok := l.given[name]
	if !ok {
		s = setting{file: l.c.File}
	}
	l.failAt(code, s, name, fmt.Sprintf(format, args...))
}

func (l *loader) failAt(code string, s setting, name, problem string) {
	value := s.value
	if l.keys[name].kind == secret && value != "" {
		value = hidden
	}
	l.errs = append(l.errs, &Error{Code: code, File: s.file, Line: s.line, Key: name, Value: value, Problem: problem})
}

func (l *loader) warnAt(code string, s setting, key, text string) {
	l.c.Warnings = append(l.c.Warnings, Warning{Code: code, File: s.file, Line: s.line, Key: key, Text: text})
}

// property reads one line of zoo.cfg.
func (l *loader) property(p property) {
	s := setting{l.c.File, p.line, p.value}
	if p.wide {
		l.warnAt("ZD-1024", s, p.key, `bytes above 0x7f are read as ISO-8859-1, as Java does; write other characters as \uXXXX`)
	}
	if isServerLine(p.key) {
		l.serverLine(p)
		return
	}
	k, known := l.keys[p.key]
	switch {
	case p.key == "":
		l.warnAt("ZD-1024", s, "", "a line without a key; ignored")
	case known && k.where == onlyD:
		l.warnAt("ZD-1022", s, p.key,
			fmt.Sprintf("IGNORED: Apache reads this key from the command line only; give -D%s=value", p.key))
	case known:
		if k.kind == path && l.folder != "" && s.value != "" && !filepath.IsAbs(s.value) {
			s.value = filepath.Join(l.folder, s.value)
		}
		l.set(k, s)
	case l.family(p.key, s):
	case strings.HasPrefix(p.key, "zookeeper."):
		l.warnAt("ZD-1022", s, p.key,
			fmt.Sprintf("ignored: in a file Apache puts zookeeper. before every key itself; write %s", p.key[len("zookeeper."):]))
	default:
		l.warnUnknown(s, p.key, p.key, "")
	}
}

// serverLine takes a line of the membership. If a server is given twice the last line
// counts, as with all keys.
func (l *loader) serverLine(p property) {
	if i := slices.IndexFunc(l.servers, func(old property) bool { return old.key == p.key }); i >= 0 {
		l.warn("ZD-1023", p.line, p.key, fmt.Sprintf("given in line %d already; the last line counts", l.servers[i].line))
		l.servers = slices.Delete(l.servers, i, i+1)
	}
	l.servers = append(l.servers, p)
}

// isServerLine reports whether a key belongs to the membership, which Apache decides by its first letters.
func isServerLine(key string) bool {
	return strings.HasPrefix(key, "server.") || strings.HasPrefix(key, "group") || strings.HasPrefix(key, "weight")
}

// jvmNames are prefixes of the properties and options that launch scripts pass for Java and its logging.
var jvmNames = []string{
	"java.", "javax.", "jdk.", "sun.", "com.sun.", "user.", "file.", "line.", "os.", "log4j", "logback", "slf4j",
	"org.slf4j",
	"org.apache.logging", "org.eclipse.jetty", "org.jboss.", "io.netty.", "zookeeper.log.", "zookeeper.root.logger",
	"zookeeper.console.threshold", "zookeeper.log4j", "zookeeper.tracelog", "-", "X", "visualvm.",
}

// define reads one property of the command line. Names and values may hold secrets, so an unknown value is never shown.
func (l *loader) define(def string) {
	def = strings.TrimPrefix(def, "-D")
	name, value, _ := strings.Cut(def, "=")
	s := setting{value: value}
	short, prefixed := strings.CutPrefix(name, "zookeeper.")
	shown := "-D" + name
	exact, isExact := l.keys[name]
	k, known := l.keys[short]
	switch {
	case isExact && (exact.where == onlyD || exact.plainD):
		l.set(exact, s)
	case prefixed && known && k.where == asProp:
		l.set(k, s)
	case prefixed && l.family(short, s):
	case prefixed && known && k.where == inFile:
		l.warnAt("ZD-1022", s, shown, fmt.Sprintf("ignored: Apache reads %s from zoo.cfg only", short))
	case prefixed && known:
		l.warnAt("ZD-1022", s, shown,
			fmt.Sprintf("ignored: Apache reads this property without the zookeeper. before it; give -D%s=value", short))
	case isExact && exact.where == asProp:
		l.warnAt("ZD-1022", s, shown, fmt.Sprintf("ignored: Apache reads -Dzookeeper.%s, or %s in zoo.cfg", name, name))
	case isExact:
		l.warnAt("ZD-1022", s, shown, fmt.Sprintf("ignored: Apache reads %s from zoo.cfg only", name))
	case isForJVM(name):
		if strings.HasPrefix(def, "-") {
			shown = name
		}
		l.warnAt("ZD-1027", s, shown, "ignored: it is for a Java virtual machine or its logging")
	default:
		l.warnUnknown(s, shown, short, "-Dzookeeper.")
	}
}

func isForJVM(name string) bool {
	return slices.ContainsFunc(jvmNames, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (l *loader) warnUnknown(s setting, shown, name, prefix string) {
	text := "unknown key, ignored"
	if near := nearest(name, l.names); near != "" {
		if l.keys[near].where != asProp {
			prefix = strings.TrimSuffix(prefix, "zookeeper.")
		}
		text += "; did you mean " + prefix + near + "?"
	}
	l.warnAt("ZD-1020", s, shown, text)
}

// set assigns a value to a row of the table.
func (l *loader) set(k key, s setting) {
	if old, dup := l.given[k.name]; dup && old.file == "" && s.file != "" && old.value != s.value {
		l.warnAt("ZD-1023", s, k.name, "given with -D too; the file counts")
	}
	l.given[k.name] = s
	if k.refuses(s.value) {
		l.doubt("ZD-1003", s, k.name, "refused: "+k.refused)
		return
	}
	note, err := k.assign(l.c, s.value)
	switch {
	case err != nil && (k.unused == "" || k.where == inFile || k.oneOf != nil):
		l.doubt("ZD-1002", s, k.name, err.Error())
	case k.unused != "" && !strings.EqualFold(s.value, k.value):
		l.warnAt("ZD-1021", s, k.name, "accepted without effect: "+k.unused)
	case note != "":
		l.warnAt("ZD-1024", s, k.name, note)
	}
}
