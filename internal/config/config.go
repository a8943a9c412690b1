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

	Client HostPort // port and address for plaintext clients; port -1 for none, address 0.0.0.0 for all interfaces
	Secure HostPort // port and address for TLS clients; port -1 for none, address 0.0.0.0 for all interfaces

	TickTime time.Duration // the unit of initLimit and syncLimit, and of the default session timeouts
	Storage  Storage
	Sessions Sessions
	Limits   Limits
	Quorum   Quorum
	Tree     Tree
	Auth     Auth
	TLS      TLS // of the client ports

	RelativePaths string // base of relative paths in zoo.cfg: workingDirectory, or file for the folder of zoo.cfg

	Profile string // default, a drop-in for Apache's server; or strict, which refuses to start with insecure settings

	FourLetter FourLetterWords
	Admin      Admin
	Log        Log
	Metrics    Metrics
	Audit      Audit
}

// Log is the server's own log, on standard error.
type Log struct {
	Format string        // text for people, or json
	Level  string        // lowest level that is logged: debug, info, warn or error
	Slow   time.Duration // requests that take at least this long are logged with the times of their stages; 0 logs none
}

// Audit is the audit log.
type Audit struct {
	Enabled   bool   // changes are logged with the identities that make them, as in Apache
	File      string // file of the audit log; without one, it goes to standard error
	FileMiB   int    // a file that reaches this size is renamed, and a new one is started
	FilesKept int    // number of renamed files that are kept
	Format    string // text (Apache's format) or json
	Reads     bool   // requests that change nothing are audited too
	Logins    bool   // logins are audited too
	Refusals  bool   // refused connections and requests, and reads that an ACL forbids, are audited too
	Hashes    bool   // lines about changes contain the SHA-256 of the data before and after
}

// Metrics is the endpoint for Prometheus.
type Metrics struct {
	Provider string // Apache's class for Prometheus opens the endpoint; mntr has the figures with every class
	Host     string // address of the endpoint
	// port of the endpoint; 0 lets the system choose, -1 opens none; none is opened if only httpsPort is set
	Port          int
	SecurePort    int  // TLS port of the endpoint; if it equals httpPort, the port accepts both
	TLS           TLS  // of SecurePort; changed stores are read again
	NeedAuth      bool // callers over TLS must show a certificate
	WantAuth      bool // callers are asked for a valid certificate; without a trust store, set both keys to false
	Runtime       bool // the figures of Go's runtime and of the process are included
	CounterSuffix bool // names of counters end in _total, as in Apache 3.10
}

// PrometheusProvider is the Metrics.Provider that opens the endpoint.
const PrometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

// Storage says where data is, and when snapshots are written and purged.
type Storage struct {
	DataDir         string        // folder of the snapshots and of the file myid
	DataLogDir      string        // folder of the transaction log; dataDir by default
	CreateDir       bool          // missing directories are created
	CreateDB        bool          // a server may start with an empty database
	SnapCount       int           // number of transactions between snapshots, at least 2
	SnapSizeLimit   int64         // KiB of log between snapshots; 0 or less turns this trigger off
	SnapRetainCount int           // number of snapshots kept, at least 3
	PurgeInterval   time.Duration // 0 turns purging off; otherwise a purge follows each snapshot
	FsyncWarning    time.Duration // an fsync that takes longer is logged
	FsyncStall      time.Duration // a log write that takes longer ends the server; clients change to another; 0 for never
}

// Sessions bounds session timeouts and configures the kinds of session.
type Sessions struct {
	MinTimeout     time.Duration // shortest session timeout; -1 means 2 ticks
	MaxTimeout     time.Duration // longest session timeout; -1 means 20 ticks
	Local          bool          // new sessions are local to their server
	LocalUpgrading bool          // a local session that creates an ephemeral znode becomes global
	ReadOnlyMode   bool          // a server without a quorum serves reads to clients that accept read-only mode

	ApachePasswords bool // new sessions get Apache's passwords, and so survive a move back to Apache
}

// Limits bounds what clients may use.
type Limits struct {
	GlobalOutstanding  int           // number of requests in progress beyond which busy connections are not read
	Memory             int64         // bytes of the server's memory account; 0 for the default, -1 for no limit
	MaxCnxns           int           // connections to the server; 0 or -1 for no limit
	MaxClientCnxns     int           // connections from one address; 0 or -1 for no limit
	ListenBacklog      int           // connections that wait to be accepted; -1 for the system's limit
	JuteMaxBuffer      int           // size of the largest request, in bytes
	TLSHandshakes      int           // concurrent TLS handshakes, a tenth (at least 16) from one address; -1 for no limit
	SessionlessTimeout time.Duration // a connection without a session is closed after this time
	TCPKeepAlive       bool          // the system probes idle client connections
	Connection         string        // limits of each connection, unless zooid limits sets others
	Address            string        // limits of each client address, unless zooid limits sets others
	Identity           string        // limits of each identity that clients prove, unless zooid limits sets others
	Path               string        // limits of each znode, unless zooid limits sets others
}

// Quorum is what a server knows about its ensemble.
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
	DynamicFile      string // file of the server lines; "" if they are in zoo.cfg
	// NextMembers was proposed but not known to be active when the server last ran; nil mostly.
	NextMembers *Members

	PeerType          string // participant or observer; the server line decides if there is one
	InitLimit         int    // ticks for a follower to connect and catch up; shown by conf, without effect
	SyncLimit         int    // number of ticks for which clients may stay on a server without a leader
	StandaloneEnabled bool   // a single voter is a standalone server, not an ensemble
	ReconfigEnabled   bool   // reconfig may change the membership
	RunningOnly       bool   // reconfig gives votes only to running servers
	BindRetries       int    // number of retries for a port whose host name isn't known; 0 for endless retries
	ListenOnAllIPs    bool   // the quorum port is opened on all interfaces, not only on the address in the server line
	MultiAddress      bool   // a server line may have several addresses
	TLS               QuorumTLS
	Secret            Secret // secret by which servers prove that they belong to the ensemble
	SecretFile        string // file of secrets, one per line; the first is the ensemble's, the others are accepted
}

// QuorumTLS is TLS between servers.
type QuorumTLS struct {
	Enabled         bool // servers use mutual TLS with each other
	PortUnification bool // connections without TLS are accepted too
	TLS                  // the admin server uses these too
}

// Tree configures the behaviour of the znode tree.
type Tree struct {
	TTL               bool          // TTL znodes may be created
	EnforceQuota      bool          // a write above a hard quota is refused
	SkipACL           bool          // ACLs are not checked
	ContainerInterval time.Duration // time between checks for empty containers
	ContainersPerMin  int           // largest number of containers deleted in a minute
	ContainerUnused   time.Duration // a container that never had children is deleted after this time; 0 for never
}

// Auth configures how clients authenticate and whether they must.
type Auth struct {
	DigestEnabled bool   // the scheme digest is available
	DigestAlg     string // hash algorithm, as java.security.MessageDigest names it
	// time between checks of clients' credentials and of peers' certificates; 0 for no checks
	Recheck           time.Duration
	SuperDigest       Secret // user:BASE64(HASH(user:password)); empty for none
	X509SuperUser     string // distinguished name of the superuser
	SASLSuperUsers    []string
	SASLSuperPassword Secret // password of the user super; it replaces the one in the login file
	SASLAnyUser       string // ACL id that every SASL user matches
	// mechanisms by which clients may log in, if the login file has what they need
	SASLMechanisms                          []string
	KerberosRules                           string // rules that map principals to user names
	KerberosRemoveHost, KerberosRemoveRealm bool   // the identity omits the host, or the realm, of a principal
	SASLSection                             string // section of the login configuration file
	LoginConfig                             string // path of the login configuration (JAAS) file
	AllowFailedSASL                         bool   // a client may continue after failed SASL
	// Schemes are those of the configured providers other than digest and ip: sasl, x509, ensemble.
	Schemes   []string
	Providers []string   // registered names of the configured providers of package authprovider, each once
	External  []External // schemes whose credentials a program or an endpoint judges, by name
	// time limit for an answer of the program or endpoint (authProvider.SCHEME=exec:… or https://…)
	ExternalTimeout time.Duration
	// time for which an answer is reused for the same credential from the same address; 0 for none
	ExternalCache time.Duration
	// concurrent questions to one program or endpoint; half of them may concern one address
	ExternalConcurrency int
	CAFile              string // PEM certificates of the authorities for HTTPS endpoints; "" for the system's
	Bearer              Bearer // tokens, of the scheme bearer
	// names of this ensemble that clients may give in the scheme ensemble
	EnsembleNames  []string
	RequireSASL    bool     // clients must log in by SASL: the same as enforce.auth.enabled with only sasl
	Enforce        bool     // every connection must authenticate
	EnforceSchemes []string // schemes of which every connection must use one; digest and ip keep nobody out
}

// External is a scheme whose credentials a program or an endpoint judges.
type External struct {
	Scheme  string
	Target  string // exec:/path, or a URL
	Matches string // the rule by which the scheme's ids match (authprovider.FindRule); "" for equality
}

// Bearer says which tokens (JWT) are accepted, as sent by addauth bearer TOKEN.
type Bearer struct {
	Issuer   string   // required claim iss of a token; setting it enables the scheme bearer
	Audience []string // audiences, one of which the claim aud of a token must contain
	// the issuer's public keys, a JSON Web Key Set: a file or an https URL; "" for the URL in the issuer's
	// OpenID configuration
	Keys        string
	Algorithms  []string      // algorithms by which a token may be signed
	IDClaim     string        // the claim with the client's id in ACLs; dots separate the names of nested objects
	GroupsClaim string        // the claim with the groups of the client, which become the ids group/NAME; "" for none
	SuperUsers  []string      // ids that are superusers
	ClockSkew   time.Duration // tolerated difference of the issuer's clock
}

// TLS is the key material and rules of one kind of port.
type TLS struct {
	Keys             Store
	Trust            Store
	Protocol         string   // version of TLS; "" for the best one
	EnabledProtocols []string // enabled versions of TLS; TLS 1.2 and 1.3 if empty
	CipherSuites     []string // cipher suites, by their names in Java; those of Go if empty
	ClientAuth       string   // whether clients show a certificate: none, want or need
	// a certificate must name its host; false also turns off the check of the connecting side
	HostnameVerification     bool
	PeerHostnameVerification bool // the connecting side's certificate must name its host
	ReverseDNS               bool // the name of a host known only by its address may be looked up
	CommonName               bool // a certificate without host names may name its host by its common name
	// a certificate is refused if a list at its distribution points revokes it, or if the list can't be fetched
	CRL bool
	// a certificate is refused if its OCSP responder revokes it, or if its status can't be determined
	OCSP    bool
	CRLFile string // file of revocation lists, in PEM; it is read again for each certificate
	// file of the issuer's OCSP answer about the server's certificate, in DER, for clients that ask for it
	StapleFile          string
	DetectionTimeout    time.Duration // time limit for detecting whether a connection to a shared port uses TLS
	PortUnification     bool          // the client port accepts connections with and without TLS
	DropHandshakesEarly bool          // handshakes are refused while the server is not serving
}

// Store is a key or trust store.
type Store struct {
	Location     string // path of the store
	Password     Secret // password of the store and its keys
	PasswordPath string // file of the store's password; it has precedence over password
	Type         string // JKS, PEM, PKCS12 or BCFKS; "" to use the file name's extension
}

// Admin is the HTTP server of commands and pages.
type Admin struct {
	Enabled         bool          // the admin server runs
	Host            string        // address of the admin server; remote access needs TLS or admin.plainRemote
	Port            int           // port of the admin server; 0 lets the system choose
	HostNames       []string      // additional names by which callers, and Prometheus, reach this host over plain HTTP
	CommandURL      string        // path prefix of the commands
	IdleTimeout     time.Duration // a connection without a request is closed after this time
	PortUnification bool          // the port accepts connections with and without TLS, with the ssl.quorum stores
	ForceHTTPS      bool          // only TLS is accepted
	NeedClientAuth  bool          // callers over TLS must show a certificate that the trust store accepts
	PlainRemote     bool          // callers on other hosts may connect without TLS
	Snapshot        bool          // the command snapshot is available
	Restore         bool          // the command restore is available
	RateInterval    time.Duration // time between two snapshots, and between two restores
	DrainTimeout    time.Duration // a drain that takes longer fails
}

// FourLetterWords is the whitelist of four-letter words.
type FourLetterWords struct {
	All   bool
	Words []string // four-letter words that are answered; srvr always is
}
