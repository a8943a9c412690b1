package main

// An attack is one thing that a hostile client or peer does until its context
// ends.
type attack struct {
	name  string
	about string
	// run attacks. It returns an error if a server did something wrong that only
	// the attacker sees; ending a connection isn't wrong.
	run func(*field) error

	// long attacks need minutes of preparation: CI leaves them out.
	long bool
	// peers says that the attack uses the peer port: it needs several servers.
	peers bool
	// restart says that a server is restarted during the attack.
	restart bool
	// large says that single requests, which the limits allow, cost as much as they may (largeCost).
	large bool
	needs
}

// needs are special requirements of an attack on the servers.
type needs struct {
	// inside says that the attacker knows the ensemble's secret. Such an attacker
	// may depose leaders and write in clients' names: the only test is that the
	// servers survive, and serve afterwards.
	inside bool
	// descriptors, if not 0, is the servers' limit on open files.
	descriptors int
	// memory, if not 0, is the servers' memory.limit (bytes).
	memory int64
	// sessions, if not 0, is how many sessions an address may have.
	sessions int
	// metrics, if not 0, is the port on which the only server tells its metrics.
	metrics int
}

// attacks are all attacks, ordered by their needs.
var attacks = []attack{
	{name: "operations", about: "every operation with extreme arguments, in every state of a session",
		run: attackOperations},
	{name: "pipelines", about: "as many requests as a connection takes, from many connections",
		run: attackPipelines},
	{name: "slow-readers", about: "large replies and notifications that are not read",
		run: attackSlowReaders},
	{name: "half-frames", about: "frames that are never completed, or come byte by byte",
		run: attackHalfFrames},
	{name: "connects", about: "connections that open and close, with and without a session",
		run: attackConnects},
	{name: "silence", about: "connections that say nothing, or lie about what they are going to say",
		run: attackSilence},
	{name: "greedy", about: "one identity that asks as fast as it is answered, on many connections",
		run: attackGreedy},
	{name: "saturation", about: "many clients, each with some requests under way, or with a schedule of its own",
		run: attackSaturation, long: true},
	{name: "words", about: "four-letter words, as fast as they are answered",
		run: attackWords},
	{name: "garbage", about: "random bytes, lengths that lie, another protocol's greeting",
		run: attackGarbage},
	{name: "watches", about: "watches by the hundred thousand",
		run: attackWatches},
	{name: "sessions", about: "made-up, moved and closed sessions",
		run: attackSessions},
	{name: "session-ids", about: "connects that ask for sessions which never were",
		run: attackSessionIDs},
	{name: "password", about: "other clients' sessions without their password",
		run: attackPassword},
	{name: "identities", about: "identities of a megabyte each, which go with every write",
		run: attackIdentities},
	{name: "auth-acls", about: "multis whose ACLs each stand for dozens of identities",
		run: attackAuthACLs},
	{name: "multiread", about: "small requests for replies of gigabytes",
		run: attackMultiRead},
	{name: "counting", about: "requests that count or list a large subtree",
		run: attackCounting},
	{name: "long-acls", about: "multis and multiReads of znodes with long ACLs, by somebody with many identities",
		run: attackLongACLs, large: true},
	{name: "deep-paths", about: "paths of half a million parts",
		run: attackDeepPaths},
	{name: "quotas", about: "quotas of a large subtree that come and go",
		run: attackQuotas},
	{name: "deep-ephemerals", about: "sessions that end with thousands of ephemerals far down",
		run: attackDeepEphemerals},
	{name: "unread-lists", about: "lists of 16 MB for many connections, which read nothing, or little",
		run: attackUnreadLists, needs: needs{memory: littleMemory}},
	{name: "unread-syncs", about: "syncs of a path of a megabyte on many connections, whose replies nobody reads",
		run: attackUnreadSyncs, needs: needs{memory: littleMemory}},
	{name: "unread-watches", about: "watches that are set again on a path of a megabyte, whose notifications nobody reads",
		run: attackUnreadWatches, needs: needs{memory: littleMemory}},
	{name: "unread-multis", about: "multis that create and delete a znode with a name of half a megabyte, unread as well",
		run: attackUnreadMultis, large: true, needs: needs{memory: littleMemory}},
	{name: "left-writes", about: "four megabytes of writes on many connections that leave at once and come back",
		run: attackLeftWrites, large: true, needs: needs{memory: littleMemory}},
	{name: "long-ephemerals", about: "sessions that end with many ephemerals below a path of a megabyte",
		run: attackLongEphemerals, large: true, needs: needs{memory: littleMemory}},
	{name: "long-words", about: "four-letter words with answers of 8 MiB, from many connections, which read nothing",
		run: attackLongWords, needs: needs{memory: littleMemory}},
	{name: "slow-requests", about: "requests of a megabyte from many connections, whose ends come byte by byte",
		run: attackSlowRequests, needs: needs{memory: littleMemory}},
	{name: "set-watches", about: "watches by the million, set again on many connections that come and go",
		run: attackSetWatches, needs: needs{memory: littleMemory}},
	{name: "piled-sessions", about: "sessions of one address that their clients leave at once",
		run: attackPile, needs: needs{sessions: pileLimit}},
	{name: "reconfig", about: "memberships that name addresses of others",
		run: attackReconfig},
	{name: "collisions", about: "names that collide in a table whose key can be guessed",
		run: attackCollisions, long: true, peers: true},
	{name: "peer-garbage", about: "random bytes, half hellos and floods at the peer port",
		run: attackPeerGarbage, peers: true},
	{name: "peer-silence", about: "idle connections to the peer port of servers with few descriptors",
		run: attackPeerSilence, peers: true, needs: needs{descriptors: 1024}},
	{name: "peer-hellos", about: "hellos and join questions in other servers' names",
		run: attackPeerHellos, peers: true},
	{name: "peer-joins", about: "join questions in the name of a server that restarts",
		run: attackPeerJoins, peers: true, restart: true},
	{name: "peer-raft", about: "raft messages, forwarded requests and frames of a server that lies",
		run: attackPeerRaft, peers: true},
	{name: "peer-inside", about: "the same by one who knows the ensemble's secret",
		run: attackPeerInside, peers: true, needs: needs{inside: true}},
}

// attackNamed returns the attack with a name, nil if there is none.
func attackNamed(name string) *attack {
	for i := range attacks {
		if attacks[i].name == name {
			return &attacks[i]
		}
	}
	return nil
}
