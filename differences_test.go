package zooid

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// ofApache matches what a statement about Apache ZooKeeper names.
	ofApache = regexp.MustCompile(`\b(?:Apache|Java)\b`)
	// contrasts matches the words by which a statement tells how Apache differs from Zooid.
	contrasts = regexp.MustCompile(`(?i)\b(?:unlike|differ(?:s|ent\w*)?)\b` +
		`|\bwhere Apache|\b(?:than|while) (?:in |at |with )?Apache|\bmixed\b|\balone\b` +
		`|Apache(?:'s)?(?: \w+){0,4} (?:doesn't|don't|isn't|aren't|can't|has no|have no|has none|hasn't|never|would|accepts|takes|` +
		`refuses|lets|reads|needs|only|ends|goes on|decides|begins?|expires?|closes?|answers?|writes?|by default)\b` +
		`|(?:doesn't|don't|isn't|aren't|can't|not|no|more|never)[^.;:]{0,40} Apache\b` +
		`|Apache[^.]{0,60}; here|\bhere[^.]{0,40}Apache`)
	// sentenceEnds matches the space between two sentences.
	sentenceEnds = regexp.MustCompile("[.:;!?]\\s+[A-Z`*\\[]")
	// opensItem matches the beginning of a list's item.
	opensItem = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
)

// sentences returns the sentences of a text, a paragraph, an item or a cell.
func sentences(text string) (all []string) {
	for {
		at := sentenceEnds.FindStringIndex(text)
		if at == nil {
			return append(all, text)
		}
		all, text = append(all, text[:at[0]+1]), text[at[1]-1:]
	}
}

// blocks returns the paragraphs, list items and table rows of a page, each in one line; code is left out.
func blocks(page string) (all []string) {
	code, open := false, false
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		switch fence := strings.HasPrefix(text, "```"); {
		case fence:
			code, open = !code, false
		case code || strings.HasPrefix(line, "    "):
			open = false
		case text == "" || strings.HasPrefix(text, "#"):
			open = false
		case !open || opensItem.MatchString(text) || strings.HasPrefix(text, "|"):
			all, open = append(all, text), true
		default:
			all[len(all)-1] += " " + text
		}
	}
	return all
}

// differencesIn returns what a page says about differences between Apache and Zooid: sentences that name Apache or Java
// with a word of contrast, the items of a list that such a sentence introduces, and the rows of a table with a column
// for Apache in which its cell isn't "the same".
func differencesIn(page string) (all []string) {
	introduced, column := false, -1
	for _, block := range blocks(page) {
		if strings.HasPrefix(block, "|") {
			cells := strings.Split(strings.Trim(block, "|"), "|")
			if at := slices.IndexFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "Apache ZooKeeper" }); at > 0 {
				column = at
			} else if column > 0 && column < len(cells) {
				if c := strings.TrimSpace(cells[column]); c != "the same" && c != "–" && strings.Trim(c, "-") != "" {
					all = append(all, strings.TrimSpace(cells[0])+" | "+c)
				}
				continue
			}
			for _, cell := range cells {
				all = append(all, contrasting(strings.TrimSpace(cell))...)
			}
			continue
		}
		column = -1
		if item := opensItem.FindString(block); item != "" && introduced {
			all = append(all, strings.TrimPrefix(block, item))
			continue
		}
		found := contrasting(block)
		introduced = len(found) > 0 && strings.HasSuffix(found[len(found)-1], ":") && strings.HasSuffix(block, ":")
		if introduced {
			found = found[:len(found)-1]
		}
		all = append(all, found...)
	}
	return all
}

func contrasting(text string) (found []string) {
	for _, s := range sentences(text) {
		if ofApache.MatchString(s) && contrasts.MatchString(s) {
			found = append(found, s)
		}
	}
	return found
}

// rowsOf returns the first cells of protocol.md's table.
func rowsOf(protocol string) (rows []string) {
	for line := range strings.Lines(protocol) {
		if cells := strings.Split(line, "|"); len(cells) == 7 {
			rows = append(rows, strings.TrimSpace(cells[1]))
		}
	}
	return rows
}

// untold returns a message for each difference that a page tells and protocol.md doesn't, as far as the table says.
// used counts the entries of the table that were needed.
func untold(name, page string, table []toldDifference, used map[string]int) (all []string) {
	for _, s := range differencesIn(page) {
		i := slices.IndexFunc(table, func(d toldDifference) bool { return strings.Contains(s, d.says) })
		if i < 0 {
			all = append(all, name+" tells of a difference from Apache, or seems to: "+s)
			continue
		}
		used[table[i].says]++
	}
	return all
}

// TestDifferencesAreInProtocolPage: what a page tells of a difference from Apache is a row of docs/protocol.md, too, or
// toldDifferences says why it is none. Each key that ends the start is in docs/protocol.md by its name.
func TestDifferencesAreInProtocolPage(t *testing.T) {
	protocol, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	table, rows, used := toldDifferences(), rowsOf(string(protocol)), map[string]int{}
	for _, page := range pages(t) {
		outside := !strings.HasPrefix(page, "docs/") && strings.Contains(page, "/")
		if outside || slices.Contains([]string{"protocol.md", "testing.md", "CHANGELOG.md", "CONTRIBUTING.md", "mutants.md",
			"071-apaches-files.md", "075-the-switch.md", "076-the-way-back.md", "077-shadow.md", "091-mine-whole-and-quiet.md",
			"092-proofs-of-a-switch.md"}, filepath.Base(page)) {
			continue // the list itself; the pages about tests, past versions, the code, and how Apache's data are moved
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range untold(page, string(text), table, used) {
			t.Error(s + "\nadd a row to docs/protocol.md if it has none, and a line to toldDifferences")
		}
	}
	for _, d := range table {
		if used[d.says] == 0 {
			t.Errorf("no page says %q any more: remove it from toldDifferences", d.says)
		}
		for _, row := range d.rows {
			if !slices.Contains(rows, row) {
				t.Errorf("docs/protocol.md has no row %q, which %q needs", row, d.says)
			}
		}
		if len(d.rows) == 0 && d.why == "" {
			t.Errorf("%q has neither a row nor a reason", d.says)
		}
	}
	refused := 0
	configuration, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(configuration), "\n## Refused\n")
	for line := range strings.Lines(section) {
		if key, ok := strings.CutPrefix(line, "| `"); ok {
			key, _, _ = strings.Cut(key, "`")
			if refused++; !strings.Contains(string(protocol), key) {
				t.Errorf("the server doesn't start with %s, and docs/protocol.md doesn't say it", key)
			}
		}
	}
	if len(used) < 30 || refused < 10 {
		t.Errorf("%d statements and %d refused keys were found; has the form of the pages changed?", len(used), refused)
	}
}

// TestDifferencesAreFound: each form of a statement is found, and what is in the table isn't reported.
func TestDifferencesAreFound(t *testing.T) {
	table := []toldDifference{{says: "Apache's moon", why: "planted"}}
	for text, want := range map[string]int{
		"Clients wait. Unlike Apache, the server\nanswers with a song.":                       1,
		"It sings where Apache's server is silent.":                                           1,
		"| key | what |\n|---|---|\n| `a` | Apache never does this; it sings here |":          1,
		"What differs from Apache:\n\n- it sings\n- it\n  dances\n\nAnd more.":                2,
		"| | Zooid | Apache ZooKeeper |\n|---|---|---|\n| a | b | the same |\n| c | d | no |": 1,
		"Apache's moon differs.":                               0,
		"As in Apache, a server listens.":                      0,
		"    zooid server zoo.cfg # unlike Apache\n":           0,
		"```\nunlike Apache\n```\nThe other server is Apache.": 0,
	} {
		if got := untold("a page", text, table, map[string]int{}); len(got) != want {
			t.Errorf("%q: %d statements, want %d: %q", text, len(got), want, got)
		}
	}
}

// A toldDifference is a statement about a difference on some page, given by some of its words, and either the rows of
// docs/protocol.md that tell it or the reason why it needs none.
type toldDifference struct {
	says string
	rows []string
	why  string
}

func toldDifferences() []toldDifference {
	at := func(says string, rows ...string) toldDifference { return toldDifference{says: says, rows: rows} }
	none := func(says, why string) toldDifference { return toldDifference{says: says, why: why} }
	const (
		pointer  = "it leads to the list"
		same     = "it says what is the same"
		moved    = "it is about Apache's files and servers while data is moved"
		inside   = "it is about how the program is built; clients and operators see no difference"
		measured = "it is a measurement"
	)
	return []toldDifference{
		// README.md and docs/README.md
		at("servers can't be mixed in one ensemble", "server lines that name servers of the other kind"),
		none("every known difference from Apache ZooKeeper", pointer),
		none("what differs from Apache ZooKeeper", pointer),
		// docs/comparison.md
		at("a full disk, memory at its limit", "writes on a full disk", "memory near its limit (`memory.limit`, by default 70 % of the machine's or the control group's)"),
		none("a majority of disks lost for good", "Apache has no command for it"),
		none("a million znodes of 100 bytes", measured),
		none("agreement | Zab", inside),
		none("clients speak |", same),
		none("in production |", "it is about users"),
		at("losing a leader |", "clients when the leader is lost"),
		at("membership | reconfig", "reconfig that names a new voter which doesn't run"),
		at("metrics | by mntr", "Prometheus endpoint", "words and metrics of the JVM"),
		at("who may do what | ACLs", "mechanisms of SASL", "authentication providers"),
		at("plug-ins in Java", "keys that prevent the start", "authentication providers"),
		at("reads | the same, but `sync`", "`sync`, then a read"),
		none("runs as | Java", inside),
		at("servers prove who they are to each other |", "how servers prove who they are"),
		none("tested by |", "it is about tests"),
		at("weights and groups of voters", "hierarchical quorums (`group.N`, `weight.N`)"),
		// docs/configuration.md
		at("A value other than Apache's default leaves a warning", "keys without effect, unknown keys"),
		at("A key without effect causes a warning", "keys without effect, unknown keys",
			"values of keys that don't have the key's form"),
		none("as Apache reads", same),
		at("`autopurge.purgeInterval`", "`autopurge.purgeInterval`"),
		at("`datadir.autocreate=false`", "db.autocreate=false"),
		none("`dynamicConfigFile` may be written", same),
		at("`initLimit` is required", "`initLimit`", "a server that is cut off or hangs"),
		at("`skipACL`, `enforceQuota` and", "keys that decide what a request does (`skipACL`, `enforceQuota`, `extendedTypesEnabled`) on servers that differ"),
		at("`ssl.crl` and `ssl.ocsp` (and", "revocation of certificates (`ssl.crl`, `ssl.ocsp`)"),
		none("`ssl.hostnameVerification=false` also", same),
		none("`ssl.ocspStapleFile`", "the key is Zooid's own"),
		at("`ssl.quorum.hostnameVerification`: a", "certificates between servers"),
		// docs/migration.md
		none("that connection is passed on to Apache only", moved),
		at("passwords that Apache refuses", "passwords of sessions"),
		none("nothing in it is an Apache server's", moved),
		none("A difference with a known reason", moved),
		at("A volume with Apache's data isn't served", "a data directory of Apache"),
		none("whose ACL Apache has lost", moved),
		none("It does the same with Apache's servers", moved),
		none("Alone on two cores", measured),
		at("Apache would start without them, too", "values of keys that don't have the key's form"),
		none("Apache's digest … differs", moved),
		none("`TestHistories`", moved),
		at("plain znodes in Apache, without effect", "`/zookeeper/limits`", "`/zookeeper/policy`",
			"authentication providers"),
		at("Sequence numbers above 2147483647", "sequence numbers above 2147483647"),
		none("Apache takes them for ephemeral znodes", moved),
		none("as when an Apache ensemble elects", moved),
		none("Other things that Apache can't represent", moved),
		none("Two events have no form", moved),
		none("Znodes of more than 1 MiB", moved),
		none("full read-out", moved),
		none("keeps Apache servers up to date", moved),
		none("no reply differs from Zooid's", same),
		none("when it wrote the digest", moved),
		// docs/monitoring.md, docs/performance.md, docs/troubleshooting.md
		at("add what Apache doesn't audit", "audit log"),
		at("a line with the operation `restore`, which Apache doesn't have", "audit lines"),
		none("Five rounds of", measured),
		none("neither Zooid nor Apache knows", same),
		none("Neither Zooid nor Apache ZooKeeper has", same),
		at("A TLS setting for the servers works differently", "protocols and suites of TLS that Java has"),
		at("A TLS setting for clients works differently", "protocols and suites of TLS that Java has"),
		at("A TLS setting for the admin server works differently", "protocols and suites of TLS that Java has"),
		at("A TLS setting for the metrics works differently", "protocols and suites of TLS that Java has"),
		none("Apache reads some keys only from zoo.cfg", same),
		at("in surprising ways", "values of keys that don't have the key's form"),
		none("Apache's servers may have accepted writes since", moved),
		at("permissions that the ACL of / grants to everybody", "who may use `snapshot`, `restore` and `shed_connections` of the admin server"),
		none("as in Apache's images", same),
		// docs/decisions
		at("Mixed ensembles with Apache's servers", "server lines that name servers of the other kind"),
		at("TLS 1.2 and 1.3 are on, where Apache has", "TLS suites of TLS 1.2"),
		at("not as local as at Apache", "local session that has written"),
		none("Apache's local sessions are no different", same),
		at("A new voter that doesn't run is accepted", "reconfig that names a new voter which doesn't run"),
		none("works with Apache's servers", same),
		none("whose arguments are Apache's", same),
		at("Most commands ask for no credential", "where the admin server listens"),
		at("Apache writes those of failed requests as they are", "audit log"),
		at("*One server at a time*, as Apache", "admin command restore"),
		none("Apache's has none), nothing else happens", moved),
		at("In Apache only the leader decides", "authentication providers"),
		at("DIGEST-MD5 ignores it, as in Apache", "mechanisms of SASL"),
		at("under the name that the client asks for", "a Kerberos principal that no rule of auth_to_local names"),
		none("as Apache does by default (`request_throttle_drop_stale`)", same),
		at("Apache begins with two of three", "the first start of an ensemble"),
		at("Apache begins without it", "the first start of an ensemble"),
		none("start in the working directory as there", "the key is Zooid's own"),
	}
}
