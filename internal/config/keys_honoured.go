package config

import "github.com/zooid-project/zooid/internal/limit"

// Where relative paths in zoo.cfg begin: in the server's working directory, as Apache's do, or in the file's folder.
const (
	inWorkingDir = "workingDirectory"
	besideFile   = "file"
)

// basicKeys are the ports, directories and the tick; ports are -1 until given.
func basicKeys() []key {
	return []key{
		honour("clientPort", inFile, integer, "-1", func(c *Config) any { return &c.Client.Port }).in(-1, 65535),
		honour("clientPortAddress", inFile, text, "", func(c *Config) any { return &c.Client.Host }),
		honour("secureClientPort", inFile, integer, "-1", func(c *Config) any { return &c.Secure.Port }).in(-1, 65535),
		honour("secureClientPortAddress", inFile, text, "", func(c *Config) any { return &c.Secure.Host }),
		honour("relativePaths", inFile, text, inWorkingDir, func(c *Config) any { return &c.RelativePaths }).of(
			inWorkingDir, besideFile),
		honour("dataDir", inFile, path, "", func(c *Config) any { return &c.Storage.DataDir }),
		honour("dataLogDir", inFile, path, "", func(c *Config) any { return &c.Storage.DataLogDir }),
		honour("tickTime", inFile, millis, "3000", func(c *Config) any { return &c.TickTime }).in(1, ticksMax),
		honour("minSessionTimeout", inFile, millis, "-1", func(c *Config) any { return &c.Sessions.MinTimeout }).in(-1,
			int32Max).orBelow(),
		honour("maxSessionTimeout", inFile, millis, "-1", func(c *Config) any { return &c.Sessions.MaxTimeout }).in(-1,
			int32Max).orBelow(),
		honour("localSessionsEnabled", inFile, boolean, "false", func(c *Config) any { return &c.Sessions.Local }),
		honour("localSessionsUpgradingEnabled", inFile, boolean,
			"false", func(c *Config) any { return &c.Sessions.LocalUpgrading }),
		honour("session.apachePasswords", asProp, boolean,
			"false", func(c *Config) any { return &c.Sessions.ApachePasswords }),
		honour("readonlymode.enabled", onlyD, boolean, "false", func(c *Config) any { return &c.Sessions.ReadOnlyMode }),
		honour("4lw.commands.whitelist", asProp, list, "srvr", func(c *Config) any { return &c.FourLetter.Words }),
	}
}

// storageKeys are about the log, snapshots and their purge.
func storageKeys() []key {
	return []key{
		honour("snapCount", asProp, integer, "100000", func(c *Config) any { return &c.Storage.SnapCount }).orDefault(),
		honour("snapSizeLimitInKb", asProp, long, "4194304", func(c *Config) any { return &c.Storage.SnapSizeLimit }).in(-1,
			1<<53).orBelow().orDefault(),
		honour("autopurge.snapRetainCount", inFile, integer, "3", func(c *Config) any { return &c.Storage.SnapRetainCount }).
			in(-1<<31, int32Max),
		honour("autopurge.purgeInterval", inFile, interval, "1", func(c *Config) any { return &c.Storage.PurgeInterval }).in(
			0, int32Max).orBelow().was("0"),
		honour("fsync.warningthresholdms", asProp, millis, "1000", func(c *Config) any { return &c.Storage.FsyncWarning }).in(
			0, 1<<42).orBelow().alsoPlain().orDefault(),
		honour("fsync.stallSeconds", asProp, seconds, "20", func(c *Config) any { return &c.Storage.FsyncStall }).in(0,
			86_400),
		honour("datadir.autocreate", asProp, boolean, "true", func(c *Config) any { return &c.Storage.CreateDir }),
		honour("db.autocreate", asProp, boolean, "true", func(c *Config) any { return &c.Storage.CreateDB }),
	}
}

// logKeys are about the server's log and metrics.
func logKeys() []key {
	return append([]key{
		honour("log.format", asProp, text, "text", func(c *Config) any { return &c.Log.Format }).of("text", "json"),
		honour("log.level", asProp, text, "info", func(c *Config) any { return &c.Log.Level }).of("debug",
			"info", "warn", "error"),
		honour("log.slowRequestMs", asProp, millis, "0", func(c *Config) any { return &c.Log.Slow }).in(0, int32Max),
		honour("metricsProvider.className", inFile, text, defaultProvider,
			func(c *Config) any { return &c.Metrics.Provider }).
			of(defaultProvider, nullProvider, prometheusProvider),
		honour("metricsProvider.httpHost", inFile, text, "0.0.0.0", func(c *Config) any { return &c.Metrics.Host }),
		honour("metricsProvider.httpPort", inFile, integer, "7000", func(c *Config) any { return &c.Metrics.Port }).in(-1,
			65535).was("-1, in 3.9 7000"),
		honour("metricsProvider.httpsPort", inFile, integer, "-1", func(c *Config) any { return &c.Metrics.SecurePort }).in(
			-1, 65535),
		honour("metricsProvider.ssl.need.client.auth", inFile, boolean,
			"true", func(c *Config) any { return &c.Metrics.NeedAuth }).orDefault(),
		honour("metricsProvider.ssl.want.client.auth", inFile, boolean,
			"true", func(c *Config) any { return &c.Metrics.WantAuth }).orDefault(),
		honour("metricsProvider.exportJvmInfo", inFile, boolean, "true", func(c *Config) any { return &c.Metrics.Runtime }).
			orDefault(),
		honour("metricsProvider.counterSuffix", inFile, boolean,
			"false", func(c *Config) any { return &c.Metrics.CounterSuffix }),
		honour("metricsProvider.ssl.crlFile", inFile, path, "", func(c *Config) any { return &c.Metrics.TLS.CRLFile }),
	}, storeKeys("metricsProvider.ssl.", inFile, func(c *Config) *TLS { return &c.Metrics.TLS })...)
}

// auditKeys are about the audit log.
func auditKeys() []key {
	return []key{
		honour("audit.enable", asProp, boolean, "false", func(c *Config) any { return &c.Audit.Enabled }),
		honour("audit.file", asProp, path, "", func(c *Config) any { return &c.Audit.File }),
		honour("audit.fileSizeInMb", asProp, integer, "10", func(c *Config) any { return &c.Audit.FileMiB }).in(1, 1<<20),
		honour("audit.filesKept", asProp, integer, "10", func(c *Config) any { return &c.Audit.FilesKept }).in(0, 1000),
		honour("audit.format", asProp, text, "text", func(c *Config) any { return &c.Audit.Format }).of("text", "json"),
		honour("audit.reads", asProp, boolean, "false", func(c *Config) any { return &c.Audit.Reads }),
		honour("audit.logins", asProp, boolean, "false", func(c *Config) any { return &c.Audit.Logins }),
		honour("audit.refusals", asProp, boolean, "false", func(c *Config) any { return &c.Audit.Refusals }),
		honour("audit.hashes", asProp, boolean, "false", func(c *Config) any { return &c.Audit.Hashes }),
	}
}

// juteMaxBufferMax is the server's own limit, server.MaxFrameMax.
const juteMaxBufferMax = 16 << 20

// limitKeys cap connections and packets.
func limitKeys() []key {
	return []key{
		honour("globalOutstandingLimit", asProp, integer, "1000", func(c *Config) any { return &c.Limits.GlobalOutstanding }).
			in(1, int32Max).orBelow().orDefault(),
		honour("memory.limit", asProp, long, "0", func(c *Config) any { return &c.Limits.Memory }).in(-1, 1<<62),
		honour("limits.connection", asProp, text, limit.Default(limit.Connection).Text(limit.Connection),
			func(c *Config) any { return &c.Limits.Connection }),
		honour("limits.address", asProp, text, limit.Default(limit.Address).Text(limit.Address),
			func(c *Config) any { return &c.Limits.Address }),
		honour("limits.identity", asProp, text, limit.Default(limit.Identity).Text(limit.Identity),
			func(c *Config) any { return &c.Limits.Identity }),
		honour("limits.path", asProp, text, limit.Default(limit.Path).Text(limit.Path),
			func(c *Config) any { return &c.Limits.Path }),
		honour("maxCnxns", asProp, integer, "0", func(c *Config) any { return &c.Limits.MaxCnxns }).in(-1,
			int32Max).orBelow().orDefault(),
		honour("maxClientCnxns", inFile, integer, "60", func(c *Config) any { return &c.Limits.MaxClientCnxns }).in(-1,
			int32Max).orBelow(),
		honour("clientPortListenBacklog", inFile, integer, "-1", func(c *Config) any { return &c.Limits.ListenBacklog }).in(
			-1, int32Max).orBelow(),
		honour("jute.maxbuffer", onlyD, javaInt, "1048575", func(c *Config) any { return &c.Limits.JuteMaxBuffer }).in(1,
			juteMaxBufferMax).
			because("a larger write could hold the servers up until they elect another leader; keep such data elsewhere and its address here").
			orDefault(),
		honour("netty.server.outstandingHandshake.limit", asProp, integer,
			"10000", func(c *Config) any { return &c.Limits.TLSHandshakes }).
			in(-1, int32Max).orBelow().was("-1").orDefault(),
		honour("nio.sessionlessCnxnTimeout", asProp, millis,
			"10000", func(c *Config) any { return &c.Limits.SessionlessTimeout }).in(1, int32Max).orDefault(),
		honour("clientTcpKeepAlive", asProp, boolean, "false", func(c *Config) any { return &c.Limits.TCPKeepAlive }),
	}
}

// clusterKeys are about the ensemble. Server lines have no row: they are read as a membership.
func clusterKeys() []key {
	return []key{
		honour("initLimit", inFile, integer, "0", func(c *Config) any { return &c.Quorum.InitLimit }).in(0, int32Max),
		honour("syncLimit", inFile, integer, "0", func(c *Config) any { return &c.Quorum.SyncLimit }).in(0, int32Max),
		honour("standaloneEnabled", inFile, boolean, "true", func(c *Config) any { return &c.Quorum.StandaloneEnabled }),
		honour("reconfigEnabled", inFile, boolean, "false", func(c *Config) any { return &c.Quorum.ReconfigEnabled }),
		honour("reconfig.runningOnly", inFile, boolean, "false", func(c *Config) any { return &c.Quorum.RunningOnly }),
		honour("dynamicConfigFile", inFile, path, "", func(c *Config) any { return &c.Quorum.DynamicFile }),
		honour("electionPortBindRetry", asProp, integer, "3", func(c *Config) any { return &c.Quorum.BindRetries }).
			orDefault(),
		honour("quorumListenOnAllIPs", inFile, boolean, "false", func(c *Config) any { return &c.Quorum.ListenOnAllIPs }),
		honour("multiAddress.enabled", asProp, boolean, "false", func(c *Config) any { return &c.Quorum.MultiAddress }),
		honour("sslQuorum", inFile, boolean, "false", func(c *Config) any { return &c.Quorum.TLS.Enabled }),
		honour("portUnification", inFile, boolean, "false", func(c *Config) any { return &c.Quorum.TLS.PortUnification }),
		unused("sslQuorumReloadCertFiles", inFile, boolean, "false", whyReloads),
		honour("quorum.secret", inFile, secret, "", func(c *Config) any { return &c.Quorum.Secret }),
		honour("quorum.secretFile", inFile, path, "", func(c *Config) any { return &c.Quorum.SecretFile }),
		honour("peerType", inFile, text, "participant", func(c *Config) any { return &c.Quorum.PeerType }).of("participant",
			"observer"),
	}
}

// treeKeys change the effects of requests.
func treeKeys() []key {
	return []key{
		honour("extendedTypesEnabled", asProp, boolean, "true", func(c *Config) any { return &c.Tree.TTL }).was("false"),
		honour("enforceQuota", asProp, boolean, "false", func(c *Config) any { return &c.Tree.EnforceQuota }),
		honour("skipACL", asProp, yesNo, "no", func(c *Config) any { return &c.Tree.SkipACL }),
		honour("znode.container.checkIntervalMs", onlyD, millis,
			"60000", func(c *Config) any { return &c.Tree.ContainerInterval }).in(1, int32Max).orDefault(),
		honour("znode.container.maxPerMinute", onlyD, integer,
			"10000", func(c *Config) any { return &c.Tree.ContainersPerMin }).in(1, int32Max).orDefault(),
		honour("znode.container.maxNeverUsedIntervalMs", onlyD, millis,
			"300000", func(c *Config) any { return &c.Tree.ContainerUnused }).in(0, 1<<42).orDefault().was("in 3.9 0"),
	}
}

// digestAlgs are the names Java's MessageDigest has for the hashes supported.
var digestAlgs = []string{
	"SHA1", "SHA-1", "MD5", "SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512",
}

// authKeys are about identities, except SASL. Lines of authProvider.N have no row: they name Java classes.
func authKeys() []key {
	return []key{
		honour("security.profile", asProp, text, "default", func(c *Config) any { return &c.Profile }).of("default",
			"strict"),
		honour("DigestAuthenticationProvider.enabled", asProp, boolean,
			"true", func(c *Config) any { return &c.Auth.DigestEnabled }),
		honour("DigestAuthenticationProvider.superDigest", asProp, secret,
			"", func(c *Config) any { return &c.Auth.SuperDigest }),
		honour("DigestAuthenticationProvider.digestAlg", asProp, text,
			"SHA1", func(c *Config) any { return &c.Auth.DigestAlg }).of(digestAlgs...),
		honour("X509AuthenticationProvider.superUser", asProp, text,
			"", func(c *Config) any { return &c.Auth.X509SuperUser }),
		honour("ensembleAuthName", asProp, list, "", func(c *Config) any { return &c.Auth.EnsembleNames }),
		honour("auth.recheckSeconds", asProp, seconds, "0", func(c *Config) any { return &c.Auth.Recheck }).in(0, 86_400),
		honour("auth.external.timeoutMs", asProp, millis, "5000", func(c *Config) any { return &c.Auth.ExternalTimeout }).in(
			1, 60_000),
		honour("auth.external.cacheMs", asProp, millis, "60000", func(c *Config) any { return &c.Auth.ExternalCache }).in(0,
			86_400_000),
		honour("auth.external.concurrency", asProp, integer, "8", func(c *Config) any { return &c.Auth.ExternalConcurrency }).
			in(1, 256),
		honour("auth.caFile", asProp, path, "", func(c *Config) any { return &c.Auth.CAFile }),
		honour("auth.bearer.issuer", asProp, text, "", func(c *Config) any { return &c.Auth.Bearer.Issuer }),
		honour("auth.bearer.audience", asProp, list, "", func(c *Config) any { return &c.Auth.Bearer.Audience }),
		honour("auth.bearer.jwks", asProp, text, "", func(c *Config) any { return &c.Auth.Bearer.Keys }),
		honour("auth.bearer.algorithms", asProp, list,
			"RS256,PS256,ES256,EdDSA", func(c *Config) any { return &c.Auth.Bearer.Algorithms }),
		honour("auth.bearer.idClaim", asProp, text, "sub", func(c *Config) any { return &c.Auth.Bearer.IDClaim }),
		honour("auth.bearer.groupsClaim", asProp, text, "", func(c *Config) any { return &c.Auth.Bearer.GroupsClaim }),
		honour("auth.bearer.superUsers", asProp, list, "", func(c *Config) any { return &c.Auth.Bearer.SuperUsers }),
		honour("auth.bearer.clockSkewMs", asProp, millis,
			"30000", func(c *Config) any { return &c.Auth.Bearer.ClockSkew }).in(0, 300_000),
		honour("enforce.auth.enabled", asProp, boolean, "false", func(c *Config) any { return &c.Auth.Enforce }),
		honour("enforce.auth.schemes", asProp, list, "", func(c *Config) any { return &c.Auth.EnforceSchemes }),
	}
}

// saslKeys are about SASL and Kerberos. superUser and superUser.<suffix> are read apart, since there may be many.
func saslKeys() []key {
	return []key{
		honour("SASLAuthenticationProvider.superPassword", asProp, secret,
			"", func(c *Config) any { return &c.Auth.SASLSuperPassword }),
		honour("allowSaslFailedClients", asProp, boolean, "false", func(c *Config) any { return &c.Auth.AllowFailedSASL }),
		honour("letAnySaslUserDoX", asProp, text, "", func(c *Config) any { return &c.Auth.SASLAnyUser }),
		honour("security.auth_to_local", asProp, text, "DEFAULT", func(c *Config) any { return &c.Auth.KerberosRules }),
		honour("kerberos.removeHostFromPrincipal", asProp, boolean,
			"false", func(c *Config) any { return &c.Auth.KerberosRemoveHost }),
		honour("kerberos.removeRealmFromPrincipal", asProp, boolean,
			"false", func(c *Config) any { return &c.Auth.KerberosRemoveRealm }),
		honour("sasl.enabled.mechanisms", asProp, list,
			"DIGEST-MD5,SCRAM-SHA-256,GSSAPI", func(c *Config) any { return &c.Auth.SASLMechanisms }),
		honour("sasl.serverconfig", asProp, text, "Server", func(c *Config) any { return &c.Auth.SASLSection }),
		honour("java.security.auth.login.config", onlyD, path, "", func(c *Config) any { return &c.Auth.LoginConfig }),
		honour("sessionRequireClientSASLAuth", asProp, boolean, "false", func(c *Config) any { return &c.Auth.RequireSASL }),
		unused("kerberos.canonicalizeHostNames", asProp, boolean, "false", whyQuorumSASL),
		unused("kerberos.minReLoginTimeMs", asProp, millis, "60000", whyKerberos),
		unused("kinit", asProp, text, "/usr/bin/kinit", whyKerberos),
		unused("jaasLoginRenew", asProp, millis, "3600000", whyKerberos),
		unused("requireClientAuthScheme", asProp, text, "", "no server reads it; set sessionRequireClientSASLAuth=true to require SASL"),
	}
}

// adminKeys are about the admin server.
func adminKeys() []key {
	return []key{
		honour("admin.enableServer", asProp, boolean, "false", func(c *Config) any { return &c.Admin.Enabled }).was("true"),
		honour("admin.serverAddress", asProp, text, "127.0.0.1", func(c *Config) any { return &c.Admin.Host }).was("0.0.0.0"),
		honour("admin.hostNames", asProp, list, "", func(c *Config) any { return &c.Admin.HostNames }),
		honour("admin.serverPort", asProp, integer, "8080", func(c *Config) any { return &c.Admin.Port }).in(0, 65535).
			orDefault(),
		honour("admin.commandURL", asProp, text, "/commands", func(c *Config) any { return &c.Admin.CommandURL }),
		honour("admin.idleTimeout", asProp, millis, "30000", func(c *Config) any { return &c.Admin.IdleTimeout }).in(1,
			int32Max).orDefault(),
		honour("admin.portUnification", asProp, boolean, "false", func(c *Config) any { return &c.Admin.PortUnification }),
		honour("admin.forceHttps", asProp, boolean, "false", func(c *Config) any { return &c.Admin.ForceHTTPS }),
		honour("admin.needClientAuth", asProp, boolean, "false", func(c *Config) any { return &c.Admin.NeedClientAuth }),
		honour("admin.plainRemote", asProp, boolean, "false", func(c *Config) any { return &c.Admin.PlainRemote }),
		honour("admin.snapshot.enabled", asProp, boolean, "true", func(c *Config) any { return &c.Admin.Snapshot }),
		honour("admin.restore.enabled", asProp, boolean, "true", func(c *Config) any { return &c.Admin.Restore }),
		honour("admin.rateLimiterIntervalInMS", asProp, millis,
			"300000", func(c *Config) any { return &c.Admin.RateInterval }).in(0, int32Max).orBelow().orDefault(),
		honour("admin.drainTimeout", asProp, millis, "30000", func(c *Config) any { return &c.Admin.DrainTimeout }).in(1,
			int32Max),
		unused("admin.httpVersion", asProp, integer, "11", "the admin server speaks HTTP/1.1, and HTTP/1.0 with callers that use it"),
		unused("IPAuthenticationProvider.usexforwardedfor", asProp, boolean, "false", "anybody can send such a header; the address of the connection counts"),
	}
}
