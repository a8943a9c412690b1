package cli

import "slices"

// commands returns the table: zkCli's commands first, in their form, then those that
// only this shell has; each part is sorted.
func commands() []command { return slices.Concat(zkCliCommands(), ownCommands()) }

var (
	statFlag    = flag{"s", "", "print the stat, too"}
	watchFlag   = flag{"w", "", "leave a watch, whose event is printed"}
	versionFlag = flag{"v", "version", "fail unless the version is this"}
	noACLFlag   = flag{"noacl", "", "leave ACLs out: copies are open to everybody"}
	dryRunFlag  = flag{"dry-run", "", "say what would be done, and do nothing"}
	formatFlag  = flag{"format", "json|yaml|tar", "the file's format, if its name doesn't tell"}
	quotaLimit  = []flag{
		{"n", "num", "znodes, soft: a warning in the server's log"}, {"b", "bytes", "bytes, soft"},
		{"N", "num", "znodes, hard: refused with enforceQuota"}, {"B", "bytes", "bytes, hard"},
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
			about: "leave a watch that stays, on a znode or all below it", min: 1, max: 1, paths: firstPath, run: runAddWatch,
			flags: []flag{{"m", "mode", "PERSISTENT or PERSISTENT_RECURSIVE"}}},
		{name: "addauth", usage: "scheme auth", about: "add an identity, such as digest user:password", min: 2, max: 2,
			run: runAddAuth},
		{name: "close", about: "end the session", offline: true, run: runClose},
		{name: "config", usage: "[-c] [-w] [-s]", about: "print the ensemble's membership", run: runConfig,
			flags: []flag{{"c", "", "the version and the clients' addresses only"}, watchFlag, statFlag}},
		{name: "connect", usage: "host:port", about: "open a new session, there or with the same servers", max: 1,
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
			flags: []flag{{"b", "batch", "znodes to a transaction (1000)"}, dryRunFlag}},
		{name: "delquota", usage: "[-n|-b|-N|-B] path", about: "remove a quota, or one limit of it", min: 1, max: 1,
			paths: firstPath, run: runDelQuota,
			flags: switches(quotaLimit)},
		{name: "get", usage: "[-s] [-w] [-b] [-x] path", about: "print a znode's data", min: 1, max: 2, paths: firstPath,
			check: checkOnePath, run: runGet,
			flags: []flag{{"b", "", "data in base64"}, statFlag, watchFlag, {"x", "", "data as a hex dump"}}},
		{name: "getAcl", usage: "[-s] path", about: "print a znode's ACL", min: 1, max: 1, paths: firstPath, run: runGetACL,
			flags: []flag{statFlag}},
		{name: "getAllChildrenNumber", usage: "path", about: "print how many znodes are below one", min: 1, max: 1,
			paths: firstPath, run: runAllChildrenNumber},
		{name: "getEphemerals", usage: "path", about: "print this session's ephemeral znodes", max: 1, paths: prefixPath,
			run: runEphemerals},
		{name: "history", about: "print the last commands with their numbers", offline: true, run: runHistory},
		{name: "listquota", usage: "path", about: "print a quota and what is used of it", min: 1, max: 1, paths: firstPath,
			run: runListQuota},
		{name: "ls", usage: "[-s] [-w] [-R] path", about: "print the names of a znode's children", min: 1, max: 2,
			paths: firstPath, check: checkOnePath, run: runLs,
			flags: []flag{{"R", "", "all below it, a path to a line"}, statFlag, watchFlag}},
		{name: "printwatches", usage: "on|off", about: "print events of watches, or don't", max: 1, offline: true,
			run: runPrintWatches},
		{name: "quit", about: "end the session and leave", offline: true, run: runQuit},
		{name: "reconfig", usage: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
			about: "change the ensemble's membership", run: runReconfig,
			flags: []flag{{"add", "servers", "servers to add or change"}, {"remove", "ids", "ids of servers to remove"},
				{"members", "servers", "the whole new membership"}, {"file", "path", "a file with the whole new membership"},
				{"v", "version", "fail unless the configuration's version is this, in hexadecimal"}, statFlag}},
		{name: "redo", usage: "cmdno", about: "run a command of the history again", min: 1, max: 1, offline: true,
			run: runRedo},
		{name: "removewatches", usage: "path [-c|-d|-a|-p|-r] [-l]", about: "remove this session's watches of a znode",
			min: 1, max: 1, paths: firstPath, run: runRemoveWatches,
			flags: []flag{{"a", "", "of any type, as without a flag"}, {"c", "", "watches of children"},
				{"d", "", "watches of data"},
				{"p", "", "persistent watches"}, {"r", "", "persistent recursive watches"},
				{"l", "", "accepted; watches here always go"}}},
		{name: "set", usage: "path data [-s] [-v version] [-b]", about: "replace a znode's data", min: 2, max: 3,
			paths: firstPath, data: 1, run: runSet,
			flags: []flag{{"b", "", "data is base64"}, statFlag, versionFlag}},
		{name: "setAcl", usage: "[-s] [-v version] [-R] path acl", about: "replace a znode's ACL", min: 2, max: 2,
			paths: firstPath, check: checkSetACL, run: runSetACL,
			flags: []flag{
				{"R", "", "and that of everything below it"}, statFlag, {"v", "version", "fail unless the ACL's version is this"},
			}},
		{name: "setquota", usage: "-n|-b|-N|-B val path", about: "limit the znodes or bytes below a znode", min: 1, max: 1,
			paths: firstPath, run: runSetQuota,
			flags: quotaLimit},
		{name: "stat", usage: "[-w] path", about: "print a znode's metadata", min: 1, max: 2, paths: firstPath,
			check: checkOnePath, run: runStat,
			flags: []flag{watchFlag}},
		{name: "sync", usage: "path", about: "wait until this server has all that was written", min: 1, max: 1,
			paths: firstPath, run: runSync},
		{name: "version", about: "print the shell's version", offline: true, run: runVersion},
		{name: "whoami", about: "print the identities the server knows this session by", max: -1, run: runWhoAmI},
	}
}

// ownCommands returns the commands that zkCli doesn't have.
func ownCommands() []command {
	places := "path|host:port,…/path"
	copyFlags := []flag{noACLFlag}
	top := command{
		usage: "[-n rounds] [-i interval] [-k keys] [-bytes] [host[:port]]", max: 1,
		about:   "show how servers do; of an admin server's host, what its clients ask for most",
		offline: true, run: runTop,
		flags: []flag{
			{"n", "rounds", "how many times (on a terminal until Ctrl-C, else once)"},
			{"i", "interval", "time between two (2s)"},
			{"k", "keys", "how many paths, sessions, identities and operations (10)"},
			{"bytes", "", "those with most bytes a second, not most requests"},
		}}
	statTop := top
	top.name, statTop.name, statTop.about = "top", "stat top", "the same as top"
	return []command{
		{name: "4lw", usage: "word [host:port,…]", about: "ask each server a four-letter word; the word alone does, too",
			min: 1, max: 2, offline: true, run: runWord},
		{name: "acl explain", usage: "path", about: "tell in words who may do what with a znode, and if you may", min: 1,
			max: 1, paths: firstPath, run: runExplain},
		{name: "cp", usage: "[-noacl] " + places + " " + places, about: "copy a subtree to where nothing is; copies are persistent znodes",
			min: 2, max: 2, paths: placePaths, run: between(runCp), flags: copyFlags},
		{name: "diff", usage: "[-noacl] " + places + " " + places, about: "compare two subtrees; exit code 4 if they differ",
			min: 2, max: 2, paths: placePaths, run: between(runDiff), flags: []flag{{"noacl", "", "don't compare ACLs"}}},
		{name: "du", usage: "[-s] [-d depth] [-n top] [-h] [path]", about: "add up bytes and znodes of each subtree", max: 1,
			paths: firstPath, run: runDu,
			flags: []flag{
				{"s", "", "the total only"}, {"d", "depth", "no deeper than this"}, {"n", "top", "the largest only, largest first"},
				{"h", "", "sizes in units"},
			}},
		{name: "exit", about: "the same as quit", offline: true, run: runQuit},
		{name: "export", usage: "[-format json|yaml|tar] [-noacl] [-dry-run] path [file[.gz]]", about: "write a subtree to a file, without ephemeral znodes",
			min: 1, max: 2, paths: firstPath, run: runExport,
			flags: []flag{formatFlag, {"noacl", "", "leave ACLs out"}, dryRunFlag}},
		{name: "find", usage: "[-name glob] [-path regexp] [-type kind] [-size n] [-children n] [-owner session] [-newer age] [-older age] [-maxdepth n] [path]",
			about: "print the znodes that all flags describe; exit code 4 if none", max: 1, paths: firstPath, run: runFind,
			flags: []flag{{"name", "glob", "the last part of the path, as in shells"}, {"path", "regexp", "the whole path"},
				{"type", "kind", "persistent or ephemeral"}, {"size", "n", "bytes of data: n, +n for more, -n for less"},
				{"children", "n", "number of children, likewise"}, {"owner", "session", "ephemerals of a session, as 0x…"},
				{"newer", "age", "data changed less than this ago, such as 36h"}, {"older", "age", "data unchanged for this long"},
				{"maxdepth", "n", "no deeper than this"}}},
		{name: "grep", usage: "[-i] [-F] [-l] [-c] regexp [path]",
			about: "print lines of data that match; exit code 4 if none", min: 1, max: 2, paths: secondPath, run: runGrep,
			flags: []flag{
				{"i", "", "either case"}, {"F", "", "plain text, no pattern"}, {"l", "", "paths only"},
				{"c", "", "count the lines"},
			}},
		{name: "help", usage: "[command]", about: "list the commands, or tell about one", max: 2, offline: true,
			run: runHelp},
		{name: "import", usage: "[-format json|yaml|tar] [-overwrite] [-noacl] [-unchecked] [-dry-run] file[.gz] [path]",
			about: "create the znodes of an exported file", min: 1, max: 2, paths: secondPath, run: runImport,
			flags: []flag{formatFlag, {"overwrite", "", "write over what is there with other content"},
				{"noacl", "", "ignore ACLs"},
				{"unchecked", "", "take a file without an end mark that fits: of an older version, or edited"}, dryRunFlag}},
		{name: "limits delete", usage: "connection|address|identity|path",
			about: "remove limits; those of the servers' configuration count", min: 1, max: 1, run: runLimitsDelete},
		{name: "limits get", usage: "connection|address|identity|path", about: "print limits of clients", min: 1, max: 1,
			run: runLimitsGet},
		{name: "limits list", about: "print all limits of clients that hold on all servers", run: runLimitsList},
		{name: "limits set", usage: "connection|address|identity|path limit=number…", about: "limit clients on all servers, or what is done below a znode",
			min: 2, max: -1, run: runLimitsSet},
		{name: "mirror", usage: "[-delete [-yes]] [-noacl] [-dry-run] " + places + " " + places, about: "make the second subtree like the first, writing only what differs",
			min: 2, max: 2, paths: placePaths, run: between(runMirror),
			flags: []flag{{"delete", "", "delete what only the second has"}, {"yes", "", "also more than 1000 or a tenth of it"},
				{"noacl", "", "leave ACLs alone"}, dryRunFlag}},
		{name: "mv", usage: "[-noacl] [-lossy] [-resume] " + places + " " + places,
			about: "rename a subtree; up to 1000 znodes in one transaction", min: 2, max: 2, paths: placePaths,
			run: between(runMv),
			flags: []flag{
				noACLFlag, {"lossy", "", "leave quotas behind, and begin sequence numbers anew"},
				{"resume", "", "go on with one that was ended halfway"},
			}},
		{name: "policy check", usage: "file", about: "check the text of a policy", min: 1, max: 1, offline: true,
			run: runPolicyCheck},
		{name: "policy explain", usage: "path read|write|create|delete|admin [scheme:id…]", about: "tell which line of the policy, or which ACL, decides for identities",
			min: 2, max: -1, paths: firstPath, run: runPolicyExplain},
		{name: "policy get", about: "print the policy", run: runPolicyGet},
		{name: "policy set", usage: "file", about: "put a policy in force: who may do what below a path, beside ACLs", min: 1,
			max: 1, run: runPolicySet},
		{name: "rm", usage: "[-r] [-f] path…", about: "delete, or deleteall with -r", min: 1, max: -1, paths: allPaths,
			run:   runRm,
			flags: []flag{{"r", "", "with everything below it"}, {"f", "", "it may be gone already"}}},
		{name: "session list", usage: "[-e]", about: "print the servers' sessions; needs the words cons and dump",
			offline: true, run: runSessionList,
			flags: []flag{{"e", "", "print their ephemeral znodes, too"}}},
		statTop,
		top,
		{name: "tree", usage: "[-L depth] [-s] [path]", about: "draw a subtree", max: 1, paths: firstPath, run: runTree,
			flags: []flag{{"L", "depth", "no deeper than this"}, {"s", "", "print sizes, too"}}},
		{name: "txn", usage: "[-f file] create … ; set … ; delete … ; check …", about: "apply several writes or none",
			max: -1, raw: true, run: runTxn,
			flags: []flag{{"f", "file", "read the operations from a file, one to a line; - is standard input"}}},
		{name: "watch", usage: "[-r] [-d] [-n events] [-t time] path", about: "print changes as they happen", min: 1, max: 1,
			paths: firstPath, run: runWatch,
			flags: []flag{
				{"r", "", "and everything below it"}, {"d", "", "print new data, too"}, {"n", "events", "end after so many"},
				{"t", "time", "fail if it takes longer"},
			}},
	}
}
