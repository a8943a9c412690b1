//go:build unix

package main

import (
	"github.com/zooid-project/zooid/internal/tool/bench"
	"github.com/zooid-project/zooid/internal/tool/doctor"
	"github.com/zooid-project/zooid/internal/tool/status"
)

func commands() []command {
	return []command{
		{"server", "[zoo.cfg] [-D name=value]…", "run a server in the foreground", runServer},
		{"entrypoint", "[COMMAND…]", "run the server that a container's variables set up", runEntrypoint},
		{"health", "[-timeout 5s] zoo.cfg", "ask a server on this host whether it is ready", runHealth},
		{"drain", "[-auth SCHEME:CREDENTIAL] zoo.cfg", "move the work of this host's server to the others", runDrain},
		{"reload", "[-auth SCHEME:CREDENTIAL] zoo.cfg", "make this host's server reread its configuration", runReload},
		{"init", "[-dir DIR] [-tls] [HOST…]", "write the files of new servers", runInit},
		{"cert", "issue|renew|list|revoke …", "issue and revoke certificates", runCert},
		{"doctor", "[-json] zoo.cfg", "examine a server and its machine", doctor.Main},
		{"allow-join", "ID zoo.cfg", "let a server that has lost its data join again", runAllowJoin},
		{"found", "-why REASON zoo.cfg", "make a waiting server found the ensemble", runFound},
		{"skip-entry", "-why REASON zoo.cfg", "continue without a log entry that panics", runSkipEntry},
		{"recover", "[-new-ensemble] zoo.cfg", "make a new ensemble after a majority is lost", runRecover},
		{"cli", "[-server HOST…] [COMMAND…]", "read and change znodes", runCLI},
		{"limits", "list|get|set|delete …", "limit what clients may use, on all servers", runLimits},
		{"policy", "get|set|check|explain …", "limit who may do what, in addition to ACLs", runPolicy},
		{"status", "[-json] [zoo.cfg]", "show the state of the ensemble", status.Main},
		{"top", "[-bytes] zoo.cfg | HOST[:PORT]", "show what a server's clients ask for most", runTop},
		{"bench", "SCENARIO… | compare …", "measure a server's speed", bench.Main},
		{"check", "HISTORY…", "check recorded histories against the order rules", runCheck},
		{"digest", "USER:PASSWORD", "print the digest of a password for ACLs", runDigest},
		{"log", "[-json] DATADIR …", "show a data directory's transactions and damage", runLog},
		{"import", "APACHE_DATADIR DATADIR", "make a data directory from an Apache server's", migration("import")},
		{"export", "-to APACHE_DATADIR DATADIR|URL", "make a data directory for Apache ZooKeeper", migration("export")},
		{"migrate", "follow|switch|back|return|compare …", "move a running Apache ensemble here, and back", runMigrate},
		{"shadow", "-listen ADDRESS PRIMARY SHADOW", "replay the requests of Apache's clients to Zooid", migration("shadow")},
		{"explain", "[CODE]…", "explain an error's code, and what to do about it", runExplain},
		{"docs", "[-html] [PAGE [WORD…]] | CODE", "show a page of this version's documentation", runDocs},
		{"completion", "bash|zsh|fish", "print a completion script for a shell", runCompletion},
		{"version", "", "print the version", runVersion},
	}
}
