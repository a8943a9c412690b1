package check

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
)

var (
	benchRequests = flag.Int("check.requests", 200_000, "how many requests BenchmarkCheck's histories have")
	keepFolder    = flag.String("check.keep", "", "the `folder` to leave BenchmarkCheck's histories in, for zooid check -ttl")
)

// BenchmarkCheck checks calm histories: of reads mostly, and of as many writes,
// the latter also with a server's log.
func BenchmarkCheck(b *testing.B) {
	for _, kind := range []struct {
		name              string
		mostlyReads, logs bool
	}{
		{name: "nine in ten reads", mostlyReads: true},
		{name: "half writes"},
		{name: "half writes and a log", logs: true},
	} {
		b.Run(kind.name, func(b *testing.B) {
			e := newEnsemble(1, 16)
			e.crashes, e.mostlyReads = false, kind.mostlyReads
			for _, c := range e.clients {
				c.mix.Wide = 20
			}
			h := e.run(*benchRequests)
			if kind.logs {
				h.Servers = []history.ServerLog{{Server: 1, Entries: e.log}}
			}
			file := written(b, h)
			if *keepFolder != "" {
				if err := os.WriteFile(filepath.Join(*keepFolder, strings.ReplaceAll(kind.name, " ", "-")), file,
					0o600); err != nil {
					b.Fatal(err)
				}
			}
			h, err := history.Parse(file)
			if err != nil {
				b.Fatal(err)
			}
			e = nil // its znodes are as many as the checker's own
			requests := 0
			b.ReportAllocs()
			for b.Loop() {
				r := Check(h, Options{ExtendedTypes: true})
				if !r.OK() {
					b.Fatal(r.Rules())
				}
				requests += r.Requests
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
