package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// clientsBytesMax bounds the part of wordclient.ClientsFile that is read.
const clientsBytesMax = 64 << 10

// membership reports servers of different histories, and servers that should vote and have no vote, according to the
// servers' own reports. The server lines say which servers to ask, never whose votes count.
func (e *examination) membership() {
	if !e.cfg.Quorum.Distributed {
		e.alone()
		return
	}
	of, order := map[string][]string{}, []string{}
	note := func(lineage, who string) {
		if lineage == "" {
			return
		}
		if of[lineage] == nil {
			order = append(order, lineage)
		}
		of[lineage] = append(of[lineage], who)
	}
	id, err := storage.ReadIdentity(storage.OS{}, e.cfg.Storage.DataDir, e.cfg.Storage.DataLogDir)
	if err == nil {
		e.report.Lineage = fmt.Sprintf("%016x", id)
		note(e.report.Lineage, "here")
	}
	own := e.told[e.cfg.Quorum.MyID]
	if e.waits() && errors.Is(err, fs.ErrNotExist) && own.mntr["zk_zooid_waits_for"] == "" {
		e.fault(e.cfg.LetIn(), "this server belongs to no ensemble yet: at %s it reports that it isn't serving, and its log names the servers it waits for (waiting=)",
			own.addr)
	}
	for _, id := range e.asked() {
		if id != e.cfg.Quorum.MyID {
			note(e.told[id].mntr["zk_zooid_lineage"], fmt.Sprintf("on server %d", id))
		}
	}
	elsewhere := e.foreign()
	for _, id := range slices.Sorted(maps.Keys(elsewhere)) {
		if e.told[id].mntr["zk_zooid_lineage"] == "" {
			note(elsewhere[id], fmt.Sprintf("on server %d", id))
		}
	}
	if len(order) > 1 {
		var parts []string
		for _, lineage := range order {
			parts = append(parts, lineage+" "+strings.Join(of[lineage], ", "))
		}
		e.fault("decide which data to keep; on each server of another lineage, run zooid recover -set-aside and start it: it joins",
			"the servers hold data of different lineages, which never mix: %s", strings.Join(parts, "; "))
	}
	e.sameID()
	e.beginnings()
	e.votes()
	e.nobody()
}

// beginnings reports servers that belong to no ensemble, with what each of them waits for, and servers that serve
// clients without the server lines.
func (e *examination) beginnings() {
	for _, id := range e.asked() {
		who, do := fmt.Sprintf("server %d", id), "follow its message; its log has the same one"
		if id == e.cfg.Quorum.MyID {
			who, do = "this server", "follow its message; "+e.cfg.LetIn()
		}
		a := e.told[id]
		if waits := a.mntr["zk_zooid_waits_for"]; waits != "" {
			e.fault(do, "%s belongs to no ensemble yet, and waits: %.2000s", who, terminal.OneLine(waits))
		}
		if a.standalone() {
			has := ""
			if a.mntr["zk_zooid_lineage"] != "" {
				has = fmt.Sprintf(", with the data of lineage %s (%s znodes)", a.mntr["zk_zooid_lineage"], a.mntr["zk_znode_count"])
			}
			e.fault("if its data is to be the ensemble's, stop it, give it the server lines, and start it; else set that data aside there (zooid recover -set-aside), and start it with the lines",
				"%s serves clients at %s alone, without the server lines%s", who, a.addr, has)
		}
	}
}

// standalone reports whether the server serves alone, without server lines.
func (a *answers) standalone() bool { return strings.Contains(a.srvr, "\nMode: standalone\n") }

// sameID reports that two servers have the same id, according to a server that refuses one of them, or to the refused
// one.
func (e *examination) sameID() {
	tell := func(who, what string) {
		if what != "" && what != "none" {
			e.fault(wordclient.SameIDAdvice, "%s says that two servers have the same id (ZD-3131): %.1000q", who, what)
		}
	}
	here := e.kept("zk_zooid_same_id")
	tell("this server", here)
	for _, id := range e.asked() {
		if what := e.told[id].mntr["zk_zooid_same_id"]; what != here {
			tell(fmt.Sprintf("server %d", id), what)
		}
	}
}

// kept returns the value that this server, while it runs, reports to mntr for a key, or "". A running server also
// writes some keys to a file, since mntr may not be permitted.
func (e *examination) kept(key string) string {
	f, err := os.Open(filepath.Join(e.cfg.Storage.DataDir, wordclient.ClientsFile))
	if err != nil || !e.running {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, clientsBytesMax)) // an unreadable file tells nothing
	_, value, _ := strings.Cut(string(text), key+"\t")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// foreign returns the servers that have told this server or another one that they are of another lineage, with their
// lineages.
func (e *examination) foreign() map[int64]string {
	var lists []string
	for _, id := range e.asked() {
		if lineage := e.told[id].mntr["zk_zooid_lineage"]; lineage == e.report.Lineage {
			lists = append(lists, e.told[id].mntr["zk_zooid_foreign_servers"])
		}
	}
	lists = append(lists, e.kept("zk_zooid_foreign_servers"))
	of := map[int64]string{}
	for _, list := range lists {
		for one := range strings.SplitSeq(list, ",") {
			id, lineage, _ := strings.Cut(one, "=")
			n, err := strconv.ParseInt(id, 10, 64)
			if _, bad := strconv.ParseUint(lineage, 16, 64); err == nil && bad == nil {
				of[n] = lineage
			}
		}
	}
	return of
}

// waits reports whether a server that doesn't serve answers at this server's address, while no process has locked the
// directories: a server locks them only once it knows which ensemble's data they will hold.
func (e *examination) waits() bool {
	a, asked := e.told[e.cfg.Quorum.MyID]
	return asked && !e.running && a.state() == refuses
}

// votes compares the votes that count with the server lines.
func (e *examination) votes() {
	for _, id := range e.asked() {
		if lost := e.told[id].mntr["zk_zooid_lost_entry"]; lost != "" && lost != "0" {
			e.fault("put the right disk back; if that is gone, stop the server, run zooid recover -set-aside on it, and start it: it joins again",
				"server %d has acknowledged log entries up to %s but lacks them: an older copy of its disk was put back",
				id, lost)
		}
	}
	for _, id := range e.asked() {
		if rules := e.told[id].mntr["zk_zooid_rules_waiting"]; rules != "" && rules != "none" {
			e.warn("run the same program with the same authProvider lines on all servers, and start those that are down or remove them by reconfig; the leader shows the rule of each",
				"ACLs of a scheme wait until all servers have the same rule for it (ZD-3140); server %d says %.500q", id, rules)
		}
	}
	own := e.told[e.cfg.Quorum.MyID]
	if e.running && own.mntr["zk_zooid_waits_for"] == "" && own.state() == refuses {
		e.warn("its log shows whether it waits for others (waiting=), whether they take its secret (ZD-3105), why its leader refuses it, whether another server has its id (ZD-3126), and whether an old disk was put back (ZD-3136); zooid status shows the others",
			"this server runs but serves nobody: it waits to found or join an ensemble, has no quorum, or can't follow")
	}
	teller := e.teller()
	if teller == nil {
		return
	}
	votes, named, staged := wordclient.IDs(teller["zk_zooid_voters"]), wordclient.IDs(teller["zk_zooid_named_voters"]),
		wordclient.IDs(teller["zk_zooid_staged_voters"])
	if len(staged) > 0 {
		e.warn("start the servers that it adds, and check that they can be reached at the addresses in the server lines; if an address is wrong and no other server has a vote, correct it in zoo.cfg and restart this server",
			"a change of membership is under way: voters %s are asked for, the votes of %s count", text(staged), text(votes))
	}
	var lines []int64
	for _, m := range e.cfg.Quorum.Members.Servers {
		if !m.Observer {
			lines = append(lines, m.ID)
		}
	}
	if slices.Sort(lines); len(named) > 0 && !slices.Equal(lines, named) {
		e.warn("change the membership by zooid cli reconfig, or bring the server lines up to date",
			"the server lines name voters %s, but the membership in force, which counts, names %s", text(lines), text(named))
	}
	for _, id := range wordclient.IDs(teller["zk_zooid_unheard_voters"]) {
		if a, asked := e.told[id]; !asked || a.err != nil { // one that answers is just being heard
			e.warn("start it; until then the ensemble tolerates one failure less",
				"server %d has a vote, but the current leader has never heard from it", id)
		}
	}
	elsewhere := e.foreign()
	for _, id := range named {
		if elsewhere[id] != "" {
			continue // membership says it
		}
		if !slices.Contains(votes, id) && !slices.Contains(staged, id) {
			e.warn("if it runs, wait until it has caught up; if its data is lost, or belongs to a former ensemble, start it with an empty data directory: it joins; if it is gone permanently, remove it with zooid cli reconfig -remove",
				"server %d is named as a voter, but its vote doesn't count: the votes of %s do", id, text(votes))
		}
	}
}

// teller returns what the leader tells about the membership, or else any server that tells it.
func (e *examination) teller() (told map[string]string) {
	for _, id := range e.asked() {
		m := e.told[id].mntr
		a := e.told[id]
		if len(wordclient.IDs(m["zk_zooid_voters"])) > 0 && !a.standalone() &&
			(told == nil || m["zk_server_state"] == "leader") {
			told = m
		}
	}
	return told
}

func text(ids []int64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
}
