// Command pack makes the parts of a release that common tools can't make without a daemon or a download: man pages
// from the program's own help, HTML of the documentation, an OCI image of a static binary, and an SBOM of what was
// compiled into it. It makes a signed release of packages: repositories for apt and dnf, and signed checksums. The same
// input gives the same bytes. It also lists a package's files and scripts, so that a .deb and an .rpm can be compared.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const help = `usage: pack man PROGRAM DATE DIRECTORY
       pack html ROOT REF DIRECTORY
       pack image DIRECTORY ARCHITECTURE VERSION SECONDS FILE
       pack sbom PROGRAM VERSION
       pack fingerprint KEY SECONDS
       pack release KEY SECONDS DIRECTORY
       pack contents FILE.deb|FILE.rpm
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "man":
		return writeManPages(args[1], args[2], args[3])
	case len(args) == 4 && args[0] == "html":
		return writeHTML(args[1], args[2], args[3])
	case len(args) == 6 && args[0] == "image":
		at, err := timeOf(args[4])
		if err != nil {
			return err
		}
		return writeImage(args[1], args[2], args[3], at, args[5])
	case len(args) == 3 && args[0] == "sbom":
		return writeSBOM(os.Stdout, args[1], args[2])
	case len(args) == 3 && args[0] == "fingerprint":
		at, err := timeOf(args[2])
		if err != nil {
			return err
		}
		s, err := newSigner(args[1], []byte(os.Getenv("SIGNING_PASSPHRASE")), at)
		if err != nil {
			return err
		}
		fmt.Printf("%X\n", s.entity.PrimaryKey.Fingerprint)
		return nil
	case len(args) == 4 && args[0] == "release":
		at, err := timeOf(args[2])
		if err != nil {
			return err
		}
		return signRelease(args[1], []byte(os.Getenv("SIGNING_PASSPHRASE")), at, args[3])
	case len(args) == 2 && args[0] == "contents":
		lines, err := contents(args[1])
		if err != nil {
			return err
		}
		fmt.Println(strings.Join(lines, "\n"))
		return nil
	}
	return fmt.Errorf("wrong arguments\n%s", help)
}

// timeOf reads seconds since 1970.
func timeOf(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read a time: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
