//go:build unix

package main

import (
	"github.com/zooid-project/zooid/internal/bench"
	"github.com/zooid-project/zooid/internal/doctor"
	"github.com/zooid-project/zooid/internal/moving"
	"github.com/zooid-project/zooid/internal/status"
)

func commands() []command {
	return []command{
		{"server", "[zoo.cfg] [-D name=value]…", "run a server in the foreground", runServer},
		{"entrypoint", "[COMMAND…]", "what the image runs: the server of a container's variables", runEntrypoint},
		{"health", "[-timeout 5s] zoo.cfg", "ask a server on this host if it is ready (for containers)", runHealth},
		{"drain", "[-auth SCHEME:CREDENTIAL] zoo.cfg", "let other servers take over from the one on this host", runDrain},
		{"reload", "[-auth SCHEME:CREDENTIAL] zoo.cfg", "make the server on this host read its configuration again",
			runReload},
		{"init", "[-dir DIR] [-tls] [HOST…]", "write the files of new servers", runInit},
		{"cert", "issue|renew|list|revoke …", "certificates of servers and applications", runCert},
		{"doctor", "[-json] zoo.cfg", "examine a server and its machine", doctor.Main},
		{"allow-join", "ID zoo.cfg", "let in a server that has lost its data", runAllowJoin},
		{"found", "-why REASON zoo.cfg", "make a server that waits for others found the ensemble", runFound},
		{"skip-entry", "-why REASON zoo.cfg", "go on without a log entry that panics", runSkipEntry},
		{"recover", "[-new-ensemble] zoo.cfg", "go on without a majority that is lost for good", runRecover},
		{"cli", "[-server HOST…] [COMMAND…]", "look at and change znodes", runCLI},
		{"limits", "[-server HOST…] list|get|set|delete …", "what clients may take, on all servers", runLimits},
		{"policy", "[-server HOST…] get|set|check|explain …", "who may do what below a path, beside ACLs", runPolicy},
		{"status", "[-json] [zoo.cfg]", "the ensemble at a glance", status.Main},
		{"top", "[-bytes] [-json] zoo.cfg | HOST[:PORT]", "what a server's clients ask for most", runTop},
		{"bench", "SCENARIO… | compare …", "measure a server's speed", bench.Main},
		{"check", "HISTORY…", "check recorded histories against the order rules", runCheck},
		{"digest", "USER:PASSWORD", "print the digest of a password, for ACLs and superDigest", runDigest},
		{"log", "[-json] DATADIR …", "show the transactions of a data directory, and if it is whole", runLog},
		{"import", "APACHE_DATADIR DATADIR", "make a data directory of an Apache ZooKeeper server's", moving.Import},
		{"export", "-to APACHE_DATADIR DATADIR|URL", "make a data directory for Apache ZooKeeper", mover.Export},
		{"migrate", "follow|switch|back|return|compare …", "move a running Apache ensemble here, and back", runMigrate},
		{"shadow", "-listen ADDRESS PRIMARY SHADOW", "play the requests of Apache's clients to Zooid too", moving.Shadow},
		{"explain", "[CODE]…", "what an error's code means, and what to do", runExplain},
		{"docs", "[-html] [PAGE [WORD…]] | CODE", "show a page of this version's documentation", runDocs},
		{"completion", "bash|zsh|fish", "print what makes a shell complete zooid's commands", runCompletion},
		{"version", "", "print the version", runVersion},
	}
}
