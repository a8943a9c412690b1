package main

import (
	"fmt"
	"io"
	"runtime/debug"
)

// version is Zooid's own; releases set it with -ldflags "-X main.version=…".
var version = "0.1.0-dev"

// protocolVersion is the release of Apache ZooKeeper whose protocol and
// behaviour Zooid's own follow. Tools read it as the first number of srvr and
// mntr, and some of them compare it.
const protocolVersion = "3.9.4"

// versionText is what srvr, stat, mntr and envi print, in Apache's form
// MAJOR.MINOR.MICRO-REVISION, built on DATE.
func versionText() string {
	revision, date := "unknown", "unknown date"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.time":
				date = s.Value
			}
		}
	}
	return fmt.Sprintf("%s-zooid-%s-%s, built on %s", protocolVersion, version, revision, date)
}

func runVersion(_ []string, stdout, _ io.Writer) int {
	fmt.Fprintln(stdout, "zooid", version, "speaks the protocol of Apache ZooKeeper", protocolVersion)
	return 0
}
