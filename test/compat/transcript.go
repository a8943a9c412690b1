package compat

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	addressText = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	timeText    = regexp.MustCompile(`\b([cm]time)( ?= ?)(\d+|[A-Z][a-z]{2} [A-Z][a-z]{2} .*)`)
	zxidText    = regexp.MustCompile(`\b([cmp]?[zZ]xid)( ?[=:] ?)(-?(?:0x)?[0-9a-fA-F]+)`)
	ownerText   = regexp.MustCompile(`\b(owner|ephemeralOwner)( ?= ?)(0x[0-9a-f]+)`)
)

// normalise replaces values that may differ between two servers with the same behaviour. Zxids are replaced by their
// rank in the transcript, session ids by their order of appearance: which are equal, and which zxid is later, remains
// visible. 0 and -1, which mean "none", are kept.
func normalise(transcript string) string {
	transcript = addressText.ReplaceAllString(transcript, "ADDRESS")
	transcript = timeText.ReplaceAllString(transcript, "$1${2}TIME")

	zxids := map[int64]bool{}
	for _, m := range zxidText.FindAllStringSubmatch(transcript, -1) {
		if z, err := strconv.ParseInt(m[3], 0, 64); err == nil && z > 0 {
			zxids[z] = true
		}
	}
	ranked := slices.Sorted(maps.Keys(zxids))
	transcript = replaceGroup3(transcript, zxidText, func(text string) string {
		z, err := strconv.ParseInt(text, 0, 64)
		if err != nil || z <= 0 {
			return text
		}
		rank, _ := slices.BinarySearch(ranked, z)
		return fmt.Sprintf("ZXID%d", rank+1)
	})

	sessions := map[string]int{}
	return replaceGroup3(transcript, ownerText, func(text string) string {
		if text == "0x0" {
			return text
		}
		if sessions[text] == 0 {
			sessions[text] = len(sessions) + 1
		}
		return fmt.Sprintf("SESSION%d", sessions[text])
	})
}

// replaceGroup3 replaces the third group of each match, keeping the first and second.
func replaceGroup3(text string, pattern *regexp.Regexp, replacement func(string) string) string {
	return pattern.ReplaceAllStringFunc(text, func(match string) string {
		m := pattern.FindStringSubmatch(match)
		return m[1] + m[2] + replacement(m[3])
	})
}

// compareTranscripts calls run with a fresh server of each program, and fails the test with the difference between the
// two transcripts if there is one.
func compareTranscripts(t *testing.T, reference, subject Program, opts Options, run func(addr string) (string, error)) {
	t.Helper()
	folder := keptFolder(t)
	files := make([]string, 2)
	for i, p := range []Program{reference, subject} {
		server := Start(t, p, opts)
		transcript, err := run(server.Addr)
		if err != nil {
			t.Fatalf("running the script on %s: %v; it printed:\n%s", p.Name, err, transcript)
		}
		files[i] = filepath.Join(folder, []string{"reference ", "subject "}[i]+p.Name)
		if err := os.WriteFile(files[i], []byte(normalise(transcript)), 0o644); err != nil {
			t.Fatalf("keeping the transcript: %v", err)
		}
	}
	diff, err := exec.Command("diff", "-U", "10", files[0], files[1]).CombinedOutput()
	text, readErr := os.ReadFile(files[0])
	if readErr != nil {
		t.Fatalf("reading the transcript back: %v", readErr)
	}
	lines := strings.Count(string(text), "\n")
	if err != nil {
		t.Errorf("%s and %s differ (%v):\n%s", reference.Name, subject.Name, err, diff)
	}
	fmt.Printf("\n%s: %d lines on %s, same on %s: %v\n", t.Name(), lines, reference.Name, subject.Name, err == nil)
}
