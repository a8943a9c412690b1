// Command pack makes the parts of a release that common tools can't make without a daemon or a download: man pages
// from the program's own help, HTML of the documentation, an OCI image of a static binary, and an SBOM of what was compiled into it. The same
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
		seconds, err := strconv.ParseInt(args[4], 10, 64)
		if err != nil {
			return fmt.Errorf("read the time of the image: %w", err)
		}
		return writeImage(args[1], args[2], args[3], time.Unix(seconds, 0).UTC(), args[5])
	case len(args) == 3 && args[0] == "sbom":
		return writeSBOM(os.Stdout, args[1], args[2])
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
