package zooid

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var limitConstant = regexp.MustCompile("`(?:[a-z]+\\.)?([A-Za-z]\\w*)`")

// TestLimitsPage holds docs/limits.md against the code: each constant that a row
// names is there, and each test.
func TestLimitsPage(t *testing.T) {
	page, err := os.ReadFile("docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	code, tests := sources(t)
	words := map[string]bool{}
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
	for word := range strings.FieldsFuncSeq(code, between) {
		words[word] = true
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[0]) == "limit" {
			continue
		}
		rows++
		for _, m := range limitConstant.FindAllStringSubmatch(cells[0], -1) {
			if !words[m[1]] {
				t.Errorf("docs/limits.md names %s, which the code doesn't have:\n%s", m[1], line)
			}
		}
		for _, name := range namedTest.FindAllString(cells[4], -1) {
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("docs/limits.md names %s, which is no test:\n%s", name, line)
			}
		}
	}
	if rows < 50 {
		t.Errorf("docs/limits.md has %d rows that can be read; was its form changed?", rows)
	}
}

// serverPackages are those whose constants a client, a peer, a disk or a configuration can reach in a server.
var serverPackages = []string{
	"internal/admin", "internal/audit", "internal/auth", "internal/bearer", "internal/busiest", "internal/config",
	"internal/expiry", "internal/external", "internal/fourletter", "internal/kerberos", "internal/keystore",
	"internal/limit", "internal/lograte", "internal/memory", "internal/metrics", "internal/metrics/expose",
	"internal/policy", "internal/proposals", "internal/quorum", "internal/quorum/peer", "internal/quorum/peer/handshake",
	"internal/replica", "internal/sasl", "internal/scram", "internal/server", "internal/socket", "internal/storage",
	"internal/tree", "internal/turns", "internal/watch", "jute",
}

var limitName = regexp.MustCompile(`(Max|Timeout|Patience)$`)

// noLimits are the constants of serverPackages that are named like limits and have no row on the page, each with the
// reason.
var noLimits = map[string]string{
	"internal/admin.authTokensMax":         "the form of a header, not an amount",
	"internal/audit.spareBytesMax":         "memory that is kept for reuse",
	"internal/auth.uniqueScanMax":          "chooses between two ways to do the same",
	"internal/busiest.everyMax":            "how many requests a sample stands for at most: samplesMax has a row",
	"internal/busiest.identitiesMax":       "which of a client's identities are counted: KeysMax has a row",
	"internal/busiest.pendingMax":          "samples that are added to the tables at once",
	"internal/config.hostMax":              "a form: the longest name that DNS has",
	"internal/config.idMax":                "a form: server ids have a row",
	"internal/config.int32Max":             "the range of a key, which the row of ranges names",
	"internal/config.juteMaxBufferMax":     "the range of a key, which has a row as MaxFrameMax",
	"internal/config.nearestMax":           "which name an error message offers",
	"internal/config.offeredMax":           "how many names an error message offers",
	"internal/config.printableMax":         "how much of a value an error message repeats",
	"internal/config.ticksMax":             "the range of a key, which the row of ranges names",
	"internal/external.refusedBytesMax":    "how much of a refusal's reason a log line repeats",
	"internal/quorum.FrameKindMax":         "the last kind of frame",
	"internal/quorum.MessageSizeMax":       "where this server cuts what it sends",
	"internal/quorum.committedBytesMax":    "how much this server hands to itself at a time",
	"internal/quorum.handOffsMax":          "how often this server asks by itself",
	"internal/quorum/peer.DescriptorsMax":  "the sum of two limits that have rows",
	"internal/quorum/peer.redialMax":       "the pace of this server's own attempts",
	"internal/quorum/peer.snapshotRestMax": "the pace of this server's own snapshots",
	"internal/replica.checkedLenMax":       "of which queues checks of other builds look at each request",
	"internal/replica.pushBytesMax":        "which goroutine writes",
	"internal/replica.rowBytesMax":         "how much is encoded at a time",
	"internal/replica.slowPathMax":         "how much of a path a log line repeats",
	"internal/replica.watchStepMax":        "how much of one step counts, for the share that decision 083 gives to watches",
	"internal/server.closeRootTimeout":     "one attempt of this server's own, which is repeated",
	"internal/server.inputBytesMax":        "how large a buffer becomes for speed alone: unreadShare has a row",
	"internal/server.ownTimeout":           "a session of this server with itself",
	"internal/storage.bufferKeepMax":       "memory that is kept for reuse",
	"internal/storage.readSpanMax":         "how much is read at a time",
	"internal/storage.sparesMax":           "files that are kept for reuse",
	"internal/tree.FeatureLevelMax":        "the last feature level",
	"internal/tree.PrefetchMax":            "how many znodes are fetched at a time",
	"internal/tree.blockMax":               "a size of this server's own memory",
	"internal/tree.depthMax":               "a size of this server's own memory",
	"internal/tree.fineMax":                "a size of this server's own memory",
	"internal/tree.nameLenMax":             "the bits of a field, which no frame has room to exceed",
}

// TestEveryLimitHasARow: what is named like a limit in a package of the server has a row on docs/limits.md, or a
// reason here why it needs none.
func TestEveryLimitHasARow(t *testing.T) {
	page, err := os.ReadFile("docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		for _, m := range limitConstant.FindAllStringSubmatch(line, -1) {
			named[m[1]] = true
		}
	}
	seen, excused := 0, map[string]bool{}
	for _, dir := range serverPackages {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files (%v)", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, name := range constantsOf(t, file) {
				if !limitName.MatchString(name) || strings.HasPrefix(name, "Err") {
					continue
				}
				seen++
				if noLimits[dir+"."+name] != "" {
					excused[dir+"."+name] = true
				} else if !named[name] {
					t.Errorf("docs/limits.md has no row with `%s`, a constant of %s: add one, or say in noLimits why it needs none",
						name, file)
				}
			}
		}
	}
	for name := range noLimits {
		if !excused[name] {
			t.Errorf("noLimits has %s, which isn't there", name)
		}
	}
	if seen < 150 {
		t.Errorf("only %d constants are named like limits", seen)
	}
}

// constantsOf returns the names of a file's constants outside of functions.
func constantsOf(t *testing.T, file string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
