// Package config reads a server's configuration: zoo.cfg, -D properties, myid and the dynamic membership file, as
// Apache ZooKeeper reads them, once, into the plain structs of Config. Nothing is resolved, dialled or created.
//
// Every key Apache knows is a row of the table in keys.go, which says where it may be given, what values it takes, its
// default, and whether the server honours it, accepts it without effect, or refuses it and why. A key outside the table
// is a warning with the nearest known name; a value that can't be read is an error naming file, line, key and what is
// allowed. The membership text of /zookeeper/config and of reconfig requests is read and written here too.
package config

import (
	"time"
)

// Config holds all settings of a server. Load, Standalone and Default fill it completely, defaults included; it is not
// changed afterwards and is safe to share.
type Config struct {
	File     string    // the zoo.cfg it came from, or ""
	Warnings []Warning // those of the command line first, then by line; for the caller to log

	Client HostPort // plaintext client port; Port -1 when there is none, Host 0.0.0.0 for all interfaces
	Secure HostPort // TLS client port; Port -1 when there is none, Host 0.0.0.0 for all interfaces

	TickTime time.Duration // the unit of initLimit, syncLimit and the session timeouts that are not given
	Storage  Storage
	Sessions Sessions
	Limits   Limits
	Quorum   Quorum
	Tree     Tree
	Auth     Auth
	TLS      TLS // of the client ports

	RelativePaths string // where paths in zoo.cfg begin: workingDirectory, or file, for the folder that the file is in

	Profile string // default, a drop-in for Apache's server; or strict, which refuses to start with doors open

	FourLetter FourLetterWords
	Admin      Admin
	Log        Log
	Metrics    Metrics
	Audit      Audit
}

// Log is the server's own log, on standard error.
type Log struct {
	Format string        // text for people, or json
	Level  string        // debug, info, warn or error: the least level that is logged
	Slow   time.Duration // requests that take at least this long are logged, with the time of their stages; 0 logs none
}

// Audit is the audit log.
type Audit struct {
	Enabled   bool   // changes are logged with who makes them, as in Apache
	File      string // the audit log; without one it goes to standard error
	FileMiB   int    // a file that reaches this size is renamed, and a new one begun
	FilesKept int    // renamed files that are kept
	Format    string // text, which is Apache's, or json
	Reads     bool   // requests that change nothing are audited, too
	Logins    bool   // logins are audited, too
	Refusals  bool   // refused connections and requests are audited, too, and reads that an ACL forbids
	Hashes    bool   // changes have the SHA-256 of the data before and after
}

// Metrics is the endpoint for Prometheus.
type Metrics struct {
	Provider string // Apache's class for Prometheus opens the endpoint; mntr has the figures in any case
	Host     string // address of the endpoint
	// of the endpoint; 0 lets the system choose, -1 opens none; with httpsPort alone there is none
	Port          int
	SecurePort    int  // of the endpoint over TLS; if it equals httpPort, the port takes both
	TLS           TLS  // of SecurePort; stores that change are read again
	NeedAuth      bool // callers over TLS must show a certificate
	WantAuth      bool // callers are asked for one, which must be valid; without a trust store set both to false
	Runtime       bool // figures of Go's runtime and of the process are included
	CounterSuffix bool // counters' names end in _total, as in Apache 3.10
}

// PrometheusProvider is the Metrics.Provider that opens the endpoint.
const PrometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

// Storage says where data lies and when it is snapshotted and purged.
type Storage struct {
	DataDir         string        // snapshots, myid
	DataLogDir      string        // transaction log; DataDir unless given
	CreateDir       bool          // missing directories are made
	CreateDB        bool          // a server may start with an empty database
	SnapCount       int           // transactions between snapshots, 2 or more
	SnapSizeLimit   int64         // KiB of log between snapshots; 0 or less switches this trigger off
	SnapRetainCount int           // snapshots kept, 3 or more
	PurgeInterval   time.Duration // 0 never purges; otherwise a purge follows each snapshot
	FsyncWarning    time.Duration // a slower fsync is logged
	FsyncStall      time.Duration // a longer write of the log ends the server, whose clients find another one; 0 for never
}

// Sessions bounds session timeouts and says what kinds of session there are.
type Sessions struct {
	MinTimeout     time.Duration // shortest session timeout; -1 stands for 2 ticks
	MaxTimeout     time.Duration // longest session timeout; -1 stands for 20 ticks
	Local          bool          // sessions start local to their server
	LocalUpgrading bool          // a local session that creates an ephemeral becomes global
	ReadOnlyMode   bool          // a server cut off from the quorum serves reads to clients that accept it

	ApachePasswords bool // new sessions get the passwords that Apache derives from their ids, and survive a way back to it
}

// Limits caps what clients may take.
type Limits struct {
	GlobalOutstanding  int           // requests in progress before reads from busy connections pause
	Memory             int64         // bytes that the server's memory account may come to; 0 is the default, -1 no limit
	MaxCnxns           int           // connections of the server; 0 or -1 has no limit
	MaxClientCnxns     int           // connections of one address; 0 or -1 has no limit
	ListenBacklog      int           // connections that wait to be accepted; -1 is the system's limit
	JuteMaxBuffer      int           // bytes of the largest request
	TLSHandshakes      int           // TLS handshakes at once, a tenth of them from one address; -1 has no limit
	SessionlessTimeout time.Duration // a connection without a session is closed after this
	TCPKeepAlive       bool          // the system probes client connections on which nothing moves
	Connection         string        // limits of each connection, where zooid limits sets none
	Address            string        // limits of each client address, likewise
	Identity           string        // limits of each identity that clients prove, likewise
	Path               string        // limits of each znode, likewise
}

// Quorum is what a server knows of its ensemble.
type Quorum struct {
	// Distributed is true when the server runs as one of an ensemble: more than one voter, or standaloneEnabled=false.
	Distributed bool
	// MyID is the number in the myid file, or -1 without one.
	MyID int64
	// Members is the configured membership, empty for a server without server lines.
	Members Members
	// ClientFromStatic is true when this server's client port comes from zoo.cfg alone, so that the membership text
	// leaves it out.
	ClientFromStatic bool
	DynamicFile      string // the file that held Members, or "" when zoo.cfg did
	// NextMembers was proposed but not known to be active when the server last ran; nil mostly.
	NextMembers *Members

	PeerType          string // participant or observer, by the server line if there is one
	InitLimit         int    // ticks for a follower to connect and catch up; only shown by conf
	SyncLimit         int    // ticks for which clients may stay on a server that has no leader
	StandaloneEnabled bool   // a single voter is no ensemble
	ReconfigEnabled   bool   // reconfig may change the membership
	RunningOnly       bool   // reconfig gives votes only to servers that run
	BindRetries       int    // how often a port whose host's name isn't known is tried again; 0 for ever
	ListenOnAllIPs    bool   // peers are listened for on all interfaces, not on the address of the server line
	MultiAddress      bool   // a server line may have several addresses
	TLS               QuorumTLS
	Secret            Secret // by which servers prove who they are
	SecretFile        string // holds such secrets, one a line; the first is the ensemble's, the others are accepted
}

// QuorumTLS is TLS between servers.
type QuorumTLS struct {
	Enabled         bool // servers talk mutual TLS to each other
	PortUnification bool // plain connections are accepted too
	TLS                  // the admin server uses these too
}

// Tree configures the behaviour of the znode tree.
type Tree struct {
	TTL               bool          // TTL znodes may be created
	EnforceQuota      bool          // a write above a hard quota is refused
	SkipACL           bool          // no ACL is checked
	ContainerInterval time.Duration // between looks for empty containers
	ContainersPerMin  int           // most containers deleted in a minute
	ContainerUnused   time.Duration // a container that never had children goes after this; 0 never
}

// Auth configures which clients are believed, and what is demanded of them.
type Auth struct {
	DigestEnabled bool   // the scheme digest exists
	DigestAlg     string // as java.security.MessageDigest names it
	// time between two checks of clients' credentials and of peers' certificates; 0 for none
	Recheck           time.Duration
	SuperDigest       Secret // user:BASE64(HASH(user:password)); empty for none
	X509SuperUser     string // a distinguished name
	SASLSuperUsers    []string
	SASLSuperPassword Secret // of the user super, instead of the one in the login file
	SASLAnyUser       string // the ACL id any SASL user matches
	// mechanisms by which clients may log in, if the login file has what they need
	SASLMechanisms                          []string
	KerberosRules                           string // rules that map principals to user names
	KerberosRemoveHost, KerberosRemoveRealm bool   // the host, or the realm, of a principal is left out of the identity
	SASLSection                             string // of the login configuration file
	LoginConfig                             string // path of the JAAS file
	AllowFailedSASL                         bool   // a client goes on after failed SASL
	// Schemes are those of the configured providers other than digest and ip: sasl, x509, ensemble.
	Schemes   []string
	Providers []string   // registered names of the configured providers of package authprovider, each once
	External  []External // schemes whose credentials a program or an endpoint judges, by name
	// time for the answer of such a program or endpoint (authProvider.SCHEME=exec:… or https://…)
	ExternalTimeout time.Duration
	// how long such an answer is reused for the same credential from the same address; 0 for never
	ExternalCache time.Duration
	// questions to one such program or endpoint at a time; half of them may be about one address
	ExternalConcurrency int
	CAFile              string // PEM certificates of the authorities for HTTPS endpoints; "" for the system's
	Bearer              Bearer // tokens, of the scheme bearer
	// names by which a client of the scheme ensemble may call this ensemble
	EnsembleNames  []string
	RequireSASL    bool     // clients must log in by SASL: short for enforce.auth.enabled with sasl alone
	Enforce        bool     // every connection must authenticate
	EnforceSchemes []string // by one of these
}

// External is a scheme whose credentials a program or an endpoint judges.
type External struct {
	Scheme  string
	Target  string // exec:/path, or a URL
	Matches string // the rule by which the scheme's ids match (authprovider.FindRule); "" for equality
}

// Bearer says which tokens (JWT) are accepted, as sent by addauth bearer TOKEN.
type Bearer struct {
	Issuer   string   // the claim iss of a token; setting it enables the scheme bearer
	Audience []string // a token is for one of these, by its claim aud
	// the issuer's public keys, a JSON Web Key Set: a file or an https URL; "" for the URL in the issuer's
	// OpenID configuration
	Keys        string
	Algorithms  []string      // by which a token may be signed
	IDClaim     string        // the claim with the client's id in ACLs; dots separate the names of nested objects
	GroupsClaim string        // the claim with its groups, which are the ids group/NAME; "" for none
	SuperUsers  []string      // ids that are superusers
	ClockSkew   time.Duration // how far off the issuer's clock may be
}

// TLS is the key material and rules of one kind of port.
type TLS struct {
	Keys             Store
	Trust            Store
	Protocol         string   // "" for the best one
	EnabledProtocols []string // versions of TLS; none for TLS 1.2 and 1.3
	CipherSuites     []string // by their names in Java; none for those of Go
	ClientAuth       string   // none, want or need
	// a certificate must name the host; false also switches off the check of the connecting side
	HostnameVerification     bool
	PeerHostnameVerification bool // of the connecting side
	ReverseDNS               bool // a host known only by its address may be looked up to find its name
	CommonName               bool // a certificate without names of hosts may name one by its common name
	// certificates are refused that the lists at their distribution points revoke, or whose list can't be fetched
	CRL bool
	// certificates are refused that their OCSP responder revokes, or whose status can't be found out
	OCSP    bool
	CRLFile string // a file with revocation lists, in PEM, which is read again for each certificate
	// a file with the issuer's OCSP answer about the server's certificate, in DER, for clients that ask for it
	StapleFile          string
	DetectionTimeout    time.Duration // to tell TLS from plain on a shared port
	PortUnification     bool          // TLS and plain on the client port
	DropHandshakesEarly bool          // refuse handshakes while not serving
}

// Store is a key or trust store.
type Store struct {
	Location     string // the file
	Password     Secret // of the file and its keys
	PasswordPath string // a file that holds the password and wins over Password
	Type         string // JKS, PEM, PKCS12, BCFKS, or "" to go by the file's extension
}

// Admin is the HTTP server of commands and pages.
type Admin struct {
	Enabled         bool          // it runs
	Host            string        // where it listens; beyond this host only with TLS or admin.plainRemote
	Port            int           // 0 lets the system choose
	HostNames       []string      // further names by which callers, and Prometheus, reach this host over plain HTTP
	CommandURL      string        // the path before the commands
	IdleTimeout     time.Duration // a connection without a request is closed after this
	PortUnification bool          // TLS and plain on its port, with the ssl.quorum stores
	ForceHTTPS      bool          // only TLS
	NeedClientAuth  bool          // callers over TLS must show a certificate of the trust store
	PlainRemote     bool          // callers on other hosts may come without TLS
	Snapshot        bool          // the command snapshot is available
	Restore         bool          // the command restore is available
	RateInterval    time.Duration // between two snapshots
	DrainTimeout    time.Duration // a drain that takes longer has failed
}

// FourLetterWords is the whitelist of four-letter words.
type FourLetterWords struct {
	All   bool
	Words []string // srvr is always among them
}
