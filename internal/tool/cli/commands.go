package cli

import "slices"

// commands returns the table: zkCli's commands first, in their form, then those that
// only this shell has; each part is sorted.
func commands() []command { return slices.Concat(zkCliCommands(), ownCommands()) }

var (
	statFlag    = flag{"s", "", "also print the stat"}
	watchFlag   = flag{"w", "", "set a watch and print its event"}
	versionFlag = flag{"v", "version", "fail unless the data has this version"}
	noACLFlag   = flag{"noacl", "", "don't copy ACLs: the copies are open to everybody"}
	dryRunFlag  = flag{"dry-run", "", "print what would be done, without doing it"}
	formatFlag  = flag{"format", "json|yaml|tar", "the file's format, if its name doesn't show it"}
	quotaLimit  = []flag{
		{"n", "num", "znodes, a soft limit: the server's log warns"}, {"b", "bytes", "bytes, a soft limit"},
		{"N", "num", "znodes, a hard limit: refused with enforceQuota"}, {"B", "bytes", "bytes, a hard limit"},
	}
)

// switches returns a copy of flags in which none has a value.
func switches(flags []flag) []flag {
	out := slices.Clone(flags)
	for i := range out {
		out[i].value = ""
	}
	return out
}

// zkCliCommands returns the commands of Apache's shell.
func zkCliCommands() []command {
	return []command{
		{name: "addWatch", usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE",
			about: "set a persistent watch on a znode or a subtree", min: 1, max: 1, paths: firstPath, run: runAddWatch,
			flags: []flag{{"m", "mode", "PERSISTENT or PERSISTENT_RECURSIVE"}}},
		{name: "addauth", usage: "scheme auth", about: "add an identity, such as digest user:password", min: 2, max: 2,
			run: runAddAuth},
		{name: "close", about: "end the session", offline: true, run: runClose},
		{name: "config", usage: "[-c] [-w] [-s]", about: "print the ensemble's membership", run: runConfig,
			flags: []flag{{"c", "", "print only the version and the client addresses"}, watchFlag, statFlag}},
		{name: "connect", usage: "host:port", about: "open a new session, with that server or the same ones", max: 1,
			offline: true, run: runConnect},
		{name: "create", usage: "[-s] [-e] [-c] [-p] [-t ttl] path [data] [acl]", about: "create a znode", min: 1, max: 3,
			paths: firstPath, data: 1, check: checkCreate, run: runCreate,
			flags: []flag{{"s", "", "sequential: ten digits are appended"}, {"e", "", "ephemeral: it goes with this session"},
				{"c", "", "container: it goes after its last child"}, {"p", "", "make the parents that are missing, too"},
				{"t", "ttl", "goes this many ms after its last change, without children"}}},
		{name: "delete", usage: "[-v version] path", about: "delete a znode without children", min: 1, max: 2,
			paths: firstPath, run: runDelete,
			flags: []flag{versionFlag}},
		{name: "deleteall", usage: "path [-b batch size]", about: "delete a znode with everything below it", min: 1, max: 1,
			paths: firstPath, run: runDeleteAll,
			flags: []flag{{"b", "batch", "znodes per transaction (1000)"}, dryRunFlag}},
		{name: "delquota", usage: "[-n|-b|-N|-B] path", about: "remove a quota, or one limit of it", min: 1, max: 1,
			paths: firstPath, run: runDelQuota,
			flags: switches(quotaLimit)},
		{name: "get", usage: "[-s] [-w] [-b] [-x] path", about: "print a znode's data", min: 1, max: 2, paths: firstPath,
			check: checkOnePath, run: runGet,
			flags: []flag{{"b", "", "print the data in base64"}, statFlag, watchFlag, {"x", "", "print a hex dump"}}},
		{name: "getAcl", usage: "[-s] path", about: "print a znode's ACL", min: 1, max: 1, paths: firstPath, run: runGetACL,
			flags: []flag{statFlag}},
		{name: "getAllChildrenNumber", usage: "path", about: "print the number of znodes below a znode", min: 1, max: 1,
			paths: firstPath, run: runAllChildrenNumber},
		{name: "getEphemerals", usage: "path", about: "print this session's ephemeral znodes", max: 1, paths: prefixPath,
			run: runEphemerals},
		{name: "history", about: "print the last commands with their numbers", offline: true, run: runHistory},
		{name: "listquota", usage: "path", about: "print a quota and its use", min: 1, max: 1, paths: firstPath,
			run: runListQuota},
		{name: "ls", usage: "[-s] [-w] [-R] path", about: "print the names of a znode's children", min: 1, max: 2,
			paths: firstPath, check: checkOnePath, run: runLs,
			flags: []flag{{"R", "", "print every path below it, one per line"}, statFlag, watchFlag}},
		{name: "printwatches", usage: "on|off", about: "turn the printing of watch events on or off", max: 1, offline: true,
			run: runPrintWatches},
		{name: "quit", about: "end the session and leave", offline: true, run: runQuit},
		{name: "reconfig", usage: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
			about: "change the ensemble's membership", run: runReconfig,
			flags: []flag{{"add", "servers", "servers to add or change"}, {"remove", "ids", "ids of servers to remove"},
				{"members", "servers", "the whole new membership"}, {"file", "path", "a file with the whole new membership"},
				{"v", "version", "fail unless the configuration has this version, in hexadecimal"}, statFlag}},
		{name: "redo", usage: "cmdno", about: "run a command of the history again", min: 1, max: 1, offline: true,
			run: runRedo},
		{name: "removewatches", usage: "path [-c|-d|-a|-p|-r] [-l]", about: "remove this session's watches of a znode",
			min: 1, max: 1, paths: firstPath, run: runRemoveWatches,
			flags: []flag{{"a", "", "watches of all types, as without a flag"}, {"c", "", "watches of children"},
				{"d", "", "watches of data"},
				{"p", "", "persistent watches"}, {"r", "", "persistent recursive watches"},
				{"l", "", "accepted without effect: local watches are always removed"}}},
		{name: "set", usage: "path data [-s] [-v version] [-b]", about: "replace a znode's data", min: 2, max: 3,
			paths: firstPath, data: 1, run: runSet,
			flags: []flag{{"b", "", "the data is in base64"}, statFlag, versionFlag}},
		{name: "setAcl", usage: "[-s] [-v version] [-R] path acl", about: "replace a znode's ACL", min: 2, max: 2,
			paths: firstPath, check: checkSetACL, run: runSetACL,
			flags: []flag{
				{"R", "", "also set the ACLs below it"}, statFlag, {"v", "version", "fail unless the ACL has this version"},
			}},
		{name: "setquota", usage: "-n|-b|-N|-B val path", about: "limit the znodes or bytes below a znode", min: 1, max: 1,
			paths: firstPath, run: runSetQuota,
			flags: quotaLimit},
		{name: "stat", usage: "[-w] path", about: "print a znode's metadata", min: 1, max: 2, paths: firstPath,
			check: checkOnePath, run: runStat,
			flags: []flag{watchFlag}},
		{name: "sync", usage: "path", about: "wait until this server has all earlier writes", min: 1, max: 1,
			paths: firstPath, run: runSync},
		{name: "version", about: "print the shell's version", offline: true, run: runVersion},
		{name: "whoami", about: "print this session's identities", max: -1, run: runWhoAmI},
	}
}

// ownCommands returns the commands that zkCli doesn't have.
func ownCommands() []command {
	places := "path|host:port,…/path"
	copyFlags := []flag{noACLFlag}
	top := command{
		usage: "[-n rounds] [-i interval] [-k keys] [-bytes] [host[:port]]", max: 1,
		about:   "show the state of servers, or what a server's clients ask for most",
		offline: true, run: runTop,
		flags: []flag{
			{"n", "rounds", "how many times (on a terminal until Ctrl-C, else once)"},
			{"i", "interval", "time between rounds (2s)"},
			{"k", "keys", "how many paths, sessions, identities and operations (10)"},
			{"bytes", "", "rank by bytes a second instead of requests"},
		}}
	statTop := top
	top.name, statTop.name, statTop.about = "top", "stat top", "the same as top"
	return []command{
		{name: "4lw", usage: "word [host:port,…]", about: "send a four-letter word to each server; the word alone works, too",
			min: 1, max: 2, offline: true, run: runWord},
		{name: "acl explain", usage: "path", about: "explain who may do what with a znode, and what you may do", min: 1,
			max: 1, paths: firstPath, run: runExplain},
		{name: "cp", usage: "[-noacl] " + places + " " + places, about: "copy a subtree to an unused path; the copies are persistent znodes",
			min: 2, max: 2, paths: placePaths, run: between(runCp), flags: copyFlags},
		{name: "diff", usage: "[-noacl] " + places + " " + places, about: "compare two subtrees; exit code 4 if they differ",
			min: 2, max: 2, paths: placePaths, run: between(runDiff), flags: []flag{{"noacl", "", "don't compare ACLs"}}},
		{name: "du", usage: "[-s] [-d depth] [-n top] [-h] [path]", about: "add up bytes and znodes of each subtree", max: 1,
			paths: firstPath, run: runDu,
			flags: []flag{
				{"s", "", "print only the total"}, {"d", "depth", "maximum depth"}, {"n", "top", "print only the largest"},
				{"h", "", "print sizes with units"},
			}},
		{name: "exit", about: "the same as quit", offline: true, run: runQuit},
		{name: "export", usage: "[-format json|yaml|tar] [-noacl] [-dry-run] path [file[.gz]]", about: "write a subtree to a file, without ephemeral znodes",
			min: 1, max: 2, paths: firstPath, run: runExport,
			flags: []flag{formatFlag, {"noacl", "", "leave ACLs out"}, dryRunFlag}},
		{name: "find", usage: "[-name glob] [-path regexp] [-type kind] [-size n] [-children n] [-owner session] [-newer age] [-older age] [-maxdepth n] [path]",
			about: "print the znodes that match all flags; exit code 4 if none", max: 1, paths: firstPath, run: runFind,
			flags: []flag{{"name", "glob", "the last part of the path, a shell pattern"}, {"path", "regexp", "the whole path"},
				{"type", "kind", "persistent or ephemeral"}, {"size", "n", "bytes of data: n, +n for more, -n for less"},
				{"children", "n", "number of children, likewise"}, {"owner", "session", "ephemerals of a session, as 0x…"},
				{"newer", "age", "data changed within this time, such as 36h"}, {"older", "age", "data unchanged for this long"},
				{"maxdepth", "n", "maximum depth"}}},
		{name: "grep", usage: "[-i] [-F] [-l] [-c] regexp [path]",
			about: "print lines of data that match; exit code 4 if none", min: 1, max: 2, paths: secondPath, run: runGrep,
			flags: []flag{
				{"i", "", "ignore case"}, {"F", "", "plain text instead of a pattern"}, {"l", "", "print only paths"},
				{"c", "", "print the number of lines"},
			}},
		{name: "help", usage: "[command]", about: "list the commands, or explain one", max: 2, offline: true,
			run: runHelp},
		{name: "import", usage: "[-format json|yaml|tar] [-overwrite] [-noacl] [-unchecked] [-dry-run] file[.gz] [path]",
			about: "create the znodes of an exported file", min: 1, max: 2, paths: secondPath, run: runImport,
			flags: []flag{formatFlag, {"overwrite", "", "overwrite znodes that have other content"},
				{"noacl", "", "ignore ACLs"},
				{"unchecked", "", "accept a file without a valid checksum: edited, or of an older version"}, dryRunFlag}},
		{name: "limits delete", usage: "connection|address|identity|path",
			about: "remove limits; those of the servers' configuration then apply", min: 1, max: 1, run: runLimitsDelete},
		{name: "limits get", usage: "connection|address|identity|path", about: "print limits of clients", min: 1, max: 1,
			run: runLimitsGet},
		{name: "limits list", about: "print all limits that apply on all servers", run: runLimitsList},
		{name: "limits set", usage: "connection|address|identity|path limit=number…", about: "limit what clients may use on all servers, or below a znode",
			min: 2, max: -1, run: runLimitsSet},
		{name: "mirror", usage: "[-delete [-yes]] [-noacl] [-dry-run] " + places + " " + places, about: "make the second subtree like the first, writing only what differs",
			min: 2, max: 2, paths: placePaths, run: between(runMirror),
			flags: []flag{{"delete", "", "delete what only the second has"}, {"yes", "", "even more than 1000 or a tenth of it"},
				{"noacl", "", "leave ACLs alone"}, dryRunFlag}},
		{name: "mv", usage: "[-noacl] [-lossy] [-resume] " + places + " " + places,
			about: "rename a subtree; up to 1000 znodes in one transaction", min: 2, max: 2, paths: placePaths,
			run: between(runMv),
			flags: []flag{
				noACLFlag, {"lossy", "", "leave quotas behind, and restart sequence numbers"},
				{"resume", "", "continue a move that was interrupted"},
			}},
		{name: "policy check", usage: "file", about: "check the text of a policy", min: 1, max: 1, offline: true,
			run: runPolicyCheck},
		{name: "policy explain", usage: "path read|write|create|delete|admin [scheme:id…]", about: "print which line of the policy, or which ACL, decides for identities",
			min: 2, max: -1, paths: firstPath, run: runPolicyExplain},
		{name: "policy get", about: "print the policy", run: runPolicyGet},
		{name: "policy set", usage: "file", about: "set the policy: who may do what below a path, in addition to ACLs", min: 1,
			max: 1, run: runPolicySet},
		{name: "rm", usage: "[-r] [-f] path…", about: "delete, or deleteall with -r", min: 1, max: -1, paths: allPaths,
			run:   runRm,
			flags: []flag{{"r", "", "also delete everything below it"}, {"f", "", "ignore missing znodes"}}},
		{name: "session list", usage: "[-e]", about: "print the servers' sessions; needs the four-letter words cons and dump",
			offline: true, run: runSessionList,
			flags: []flag{{"e", "", "also print their ephemeral znodes"}}},
		statTop,
		top,
		{name: "tree", usage: "[-L depth] [-s] [path]", about: "draw a subtree", max: 1, paths: firstPath, run: runTree,
			flags: []flag{{"L", "depth", "maximum depth"}, {"s", "", "also print sizes"}}},
		{name: "txn", usage: "[-f file] create … ; set … ; delete … ; check …", about: "apply all writes or none",
			max: -1, raw: true, run: runTxn,
			flags: []flag{{"f", "file", "read the operations from a file, one per line; - is standard input"}}},
		{name: "watch", usage: "[-r] [-d] [-n events] [-t time] path", about: "print changes as they happen", min: 1, max: 1,
			paths: firstPath, run: runWatch,
			flags: []flag{
				{"r", "", "include everything below it"}, {"d", "", "also print new data"}, {"n", "events", "end after this many"},
				{"t", "time", "fail after this time"},
			}},
	}
}
