package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// quorumRules reads the membership and myid and decides between an ensemble and a single server.
func (l *loader) quorumRules() {
	if q := &l.c.Quorum; q.BindRetries < 0 { // as at Apache
		const name = "electionPortBindRetry"
		l.warnAt("ZD-1024", l.given[name], name, "less than 0 is read as the default, "+l.keys[name].value)
		q.BindRetries, _ = strconv.Atoi(l.keys[name].value)
	}
	if !l.readMembers() {
		return
	}
	l.checkVoters()
	l.checkAddresses()
	l.readMyID()
	if len(l.errs) > 0 {
		return
	}
	l.joinClientPort("clientPort", &l.c.Client, func(m Member) HostPort { return m.Client })
	l.joinClientPort("secureClientPort", &l.c.Secure, func(m Member) HostPort { return m.Secure })
	l.checkRole()
	q := &l.c.Quorum
	if l.c.Client.Port < 0 && l.c.Secure.Port < 0 {
		if !q.Distributed {
			switch {
			case q.DynamicFile != "" && len(q.Members.Servers) == 0: // the client port was in it, too
				l.errs = append(l.errs, &Error{
					Code: "ZD-1006", File: q.DynamicFile, Problem: "it has no server lines, though dynamicConfigFile names it; restore it from a backup, or copy the other servers' lines",
				})
			case !l.anyServer || !l.portsByID():
				l.fail("ZD-1004", "clientPort", "missing; add clientPort=2181 or secureClientPort")
			}
			return
		}
		l.warn("ZD-1030", 0, "clientPort", "neither clientPort nor secureClientPort is given; this server serves no clients")
	}
	if !q.Distributed {
		return
	}
	if q.InitLimit == 0 {
		l.fail("ZD-1004", "initLimit", "missing; an ensemble needs it: add initLimit=10 (ticks)")
	}
	if q.SyncLimit == 0 {
		l.fail("ZD-1004", "syncLimit", "missing; an ensemble needs it: add syncLimit=5 (ticks)")
	}
}

// readMembers takes the membership from zoo.cfg or from the dynamic file, never from both.
func (l *loader) readMembers() bool {
	q := &l.c.Quorum
	if q.DynamicFile == "" {
		for _, p := range l.servers {
			if !l.checkServerLine(p) {
				return false
			}
		}
		members, err := membersOf(l.c.File, l.servers, false)
		if err != nil {
			l.errs = append(l.errs, err)
			return false
		}
		q.Members = members
		return true
	}
	for _, p := range l.servers {
		l.failAt("ZD-1005", setting{l.c.File, p.line, p.value}, p.key, fmt.Sprintf(
			"dynamicConfigFile is given too; server lines belong in %s then", q.DynamicFile))
	}
	members, err := LoadDynamic(q.DynamicFile)
	if err != nil {
		l.errs = append(l.errs, err)
	}
	q.Members = members
	if next, err := LoadNextDynamic(l.c.File); err == nil {
		q.NextMembers = &next
	} else if !errors.Is(err, fs.ErrNotExist) {
		l.errs = append(l.errs, err)
	}
	return len(l.errs) == 0
}

// checkServerLine refuses several addresses without multiAddress.enabled. Otherwise the mistake would show only
// when a network first fails.
func (l *loader) checkServerLine(p property) bool {
	if l.c.Quorum.MultiAddress || !strings.Contains(p.value, "|") {
		return true
	}
	l.failAt("ZD-1006", setting{l.c.File, p.line, p.value}, p.key, "several addresses need multiAddress.enabled=true")
	return false
}

// checkVoters decides whether the server is one of an ensemble, and warns of ensembles that tolerate too little.
func (l *loader) checkVoters() {
	q := &l.c.Quorum
	voters := q.Members.Voters()
	observers := len(q.Members.Servers) - voters
	q.Distributed = voters > 1 || !q.StandaloneEnabled
	const name = "server.N"
	switch {
	case voters == 0 && !q.StandaloneEnabled:
		l.fail("ZD-1006", "standaloneEnabled", "an ensemble needs at least one server line of a participant")
	case voters == 0 && observers > 0:
		l.fail("ZD-1006", name, "there are observers but no participant to follow")
	case voters == 1 && q.StandaloneEnabled && observers > 0:
		l.fail("ZD-1006", name, "observers need an ensemble; add participants, or set standaloneEnabled=false for an ensemble of one")
	case voters == 1 && q.StandaloneEnabled:
		l.warn("ZD-1032", 0, name, "one server only: it runs standalone; set standaloneEnabled=false for an ensemble that can grow")
	case q.Distributed && voters <= 2:
		l.warn("ZD-1025", 0, name, "the failure of one server stops the ensemble; three voters tolerate one failure")
	case q.Distributed && voters%2 == 0:
		l.warn("ZD-1025", 0, name,
			fmt.Sprintf("%d voters tolerate no more failures than %d do; take an odd number", voters, voters-1))
	}
}

// checkAddresses refuses two server lines with one quorum address: one server would take itself for the other.
func (l *loader) checkAddresses() {
	type owned struct {
		id   int64
		addr HostPort
	}
	var all []owned
	for _, s := range l.c.Quorum.Members.Servers {
		for _, a := range s.Addrs {
			at := HostPort{a.Host, a.QuorumPort}
			for _, other := range all {
				if other.addr == at && other.id != s.ID {
					l.fail("ZD-1006", "server.N", "server.%d and server.%d have the same quorum address %s; give each server its own",
						other.id, s.ID, at)
				}
			}
			all = append(all, owned{s.ID, at})
		}
	}
}

// Server ids go into the top byte of session ids. With TTL znodes 0xff there means a time to live.
const (
	idMax        = 255
	idMaxWithTTL = 254
)

// portsByID reports whether the file myid, which is missing, would tell this server's client port: that of its line.
func (l *loader) portsByID() bool {
	c := l.c
	return c.Quorum.MyID < 0 && c.Client.Port < 0 && c.Secure.Port < 0 &&
		slices.ContainsFunc(c.Quorum.Members.Servers, func(m Member) bool { return !m.Client.IsZero() || !m.Secure.IsZero() })
}

// readMyID reads the myid file. A server of an ensemble must have one, and so must a single server whose client port
// is in a server line.
func (l *loader) readMyID() {
	q := &l.c.Quorum
	q.MyID = -1
	path := filepath.Join(l.c.Storage.DataDir, "myid")
	content, err := ReadFile(path, fileMax)
	fail := func(line int, format string, args ...any) {
		if l.anyServer {
			return
		}
		l.errs = append(l.errs, &Error{Code: "ZD-1007", File: path, Line: line, Problem: fmt.Sprintf(format, args...)})
	}
	if errors.Is(err, fs.ErrNotExist) {
		if q.Distributed || l.portsByID() {
			fail(0, "missing; write into it the number N of this server's server.N line, nothing else")
		}
		return
	}
	if err != nil {
		if !l.anyServer {
			l.errs = append(l.errs, &Error{Code: "ZD-1007", File: path, Cause: err,
				Problem: fmt.Sprintf("can't read this server's id: %v", reason(err))})
		}
		return
	}
	first, _, _ := strings.Cut(string(content), "\n")
	if !q.Distributed && trimJava(first) == "-1" {
		return // unset, as Apache calls it; a single server needs none
	}
	id, err := parseID(trimJava(first))
	if err != nil {
		fail(1, "%v", err)
		return
	}
	if id > idMaxWithTTL && l.c.Tree.TTL && q.Distributed {
		fail(1, "id %d is too large for TTL znodes; use an id up to %d or set extendedTypesEnabled=false", id, idMaxWithTTL)
	} else if id > idMax {
		l.c.Warnings = append(l.c.Warnings, Warning{Code: "ZD-1033", File: path, Line: 1, Text: fmt.Sprintf(
			"id %d is above %d, so session ids of different servers may begin alike", id, idMax)})
	}
	if _, ok := q.Members.Find(id); !ok && q.Distributed {
		fail(1, "id %d has no server line; the configuration has %s", id, memberIDs(q.Members))
		if l.anyServer {
			return
		}
	}
	q.MyID = id
}

// shownIDs bounds how many server ids a message lists.
const shownIDs = 20

func memberIDs(m Members) string {
	var ids []string
	for i, s := range m.Servers {
		if i == shownIDs {
			ids = append(ids, "more")
			break
		}
		ids = append(ids, fmt.Sprintf("server.%d", s.ID))
	}
	return alternatives(ids)
}

// joinClientPort combines the ports in zoo.cfg and in this server's line: the line wins, but must not contradict.
func (l *loader) joinClientPort(name string, port *HostPort, of func(Member) HostPort) {
	me, ok := l.c.Quorum.Members.Find(l.c.Quorum.MyID)
	if !ok {
		return
	}
	line := of(me)
	if line.IsZero() {
		if name == "clientPort" {
			l.c.Quorum.ClientFromStatic = port.Port >= 0
		}
		return
	}
	if port.Port >= 0 && (port.Port != line.Port || !isWildcard(port.Host) && port.Host != line.Host) {
		l.fail("ZD-1005", name, "%s differs from %s of server.%d; make them agree or drop it here", *port, line, me.ID)
		return
	}
	*port = line
}

// checkRole sets PeerType to the role in the server line.
func (l *loader) checkRole() {
	q := &l.c.Quorum
	me, ok := q.Members.Find(q.MyID)
	role := "participant"
	if ok && me.Observer {
		role = "observer"
	}
	if _, given := l.given["peerType"]; given && role != q.PeerType {
		l.warnAt("ZD-1031", l.given["peerType"], "peerType", "differs from the role in the server lines, which count: "+role)
	}
	q.PeerType = role
}
