package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// unreleased is the version of a build of no release.
const unreleased = "0.2.0-dev"

// version is Zooid's own where -ldflags "-X main.version=…" set it, as releases do; zooidVersion returns it anywhere.
var version string

// revision is set by -ldflags "-X main.revision=…" where the build has no record of version control.
var revision = "unknown"

// buildDate is set by -ldflags "-X main.buildDate=2006-01-02"; without it the date of the commit stands in.
var buildDate = ""

// protocolVersion is the release of Apache ZooKeeper whose protocol and behaviour Zooid's own follow. Tools read it as
// the first number of srvr and mntr, and some of them compare it.
const protocolVersion = "3.9.5"

// versionText returns the version that srvr, stat, mntr and envi print, in Apache's form MAJOR.MINOR.MICRO-REVISION,
// built on DATE. There is always a date, because clients parse it.
func versionText() string {
	revision, date := revision, "1970-01-01"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.time":
				date, _, _ = strings.Cut(s.Value, "T")
			}
		}
	}
	if buildDate != "" {
		date = buildDate
	}
	return fmt.Sprintf("%s-zooid-%s-%s, built on %s 00:00 UTC", protocolVersion, zooidVersion(), revision, date)
}

// zooidVersion returns the version of Zooid: the one that is stamped, or that of the module that the go command
// downloaded and built, as `go install …@v0.2.0` does. A build in a clone has no sum of the module, and the version
// that Go gives it is a guess by the clone's tags.
func zooidVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return unreleased
}

const versionHelp = `usage: zooid version

Prints the version of zooid, and the version of Apache ZooKeeper whose protocol it speaks.
`

// runVersion prints the version.
func runVersion(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, versionHelp)
		return 0
	}
	if len(args) > 0 {
		fmt.Fprint(stderr, versionHelp)
		return 2
	}
	fmt.Fprintln(stdout, "zooid", zooidVersion(), "speaks the protocol of Apache ZooKeeper", protocolVersion)
	return 0
}
