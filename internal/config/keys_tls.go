package config

// storeTypes are the kinds of key and trust store; "" goes by the file's extension.
var storeTypes = []string{"", "JKS", "PEM", "PKCS12", "BCFKS"}

// tlsKeys are the rows that exist once for client ports and once for quorum ports.
func tlsKeys(prefix string, w where, of func(*Config) *TLS) []key {
	verifyPeer := "false"
	if prefix == "ssl.quorum." {
		verifyPeer = "true"
	}
	return append(storeKeys(prefix, w, of),
		honour(prefix+"keyStore.passwordPath", w, path, "", func(c *Config) any { return &of(c).Keys.PasswordPath }),
		honour(prefix+"trustStore.passwordPath", w, path, "", func(c *Config) any { return &of(c).Trust.PasswordPath }),
		honour(prefix+"protocol", w, text, "", func(c *Config) any { return &of(c).Protocol }).of("", "TLSv1.2", "TLSv1.3"),
		honour(prefix+"hostnameVerification", w, boolean, "true", func(c *Config) any { return &of(c).HostnameVerification }),
		honour(prefix+"clientHostnameVerification", w, boolean, verifyPeer, func(c *Config) any { return &of(c).PeerHostnameVerification }),
		honour(prefix+"allowReverseDnsLookup", w, boolean, "false", func(c *Config) any { return &of(c).ReverseDNS }),
		honour(prefix+"crl", w, boolean, "false", func(c *Config) any { return &of(c).CRL }),
		honour(prefix+"ocsp", w, boolean, "false", func(c *Config) any { return &of(c).OCSP }),
		honour(prefix+"clientAuth", w, text, "need", func(c *Config) any { return &of(c).ClientAuth }).of("none", "want", "need"),
		honour(prefix+"handshakeDetectionTimeoutMillis", w, millis, "5000", func(c *Config) any { return &of(c).DetectionTimeout }).in(1, int32Max),
		refuse(prefix+"context.supplier.class", w, text, "", "Java classes can't be loaded; name key and trust stores instead"),
	)
}

// storeKeys are the rows every place with TLS has.
func storeKeys(prefix string, w where, of func(*Config) *TLS) []key {
	return []key{
		honour(prefix+"keyStore.location", w, path, "", func(c *Config) any { return &of(c).Keys.Location }),
		honour(prefix+"keyStore.password", w, secret, "", func(c *Config) any { return &of(c).Keys.Password }),
		honour(prefix+"keyStore.type", w, text, "", func(c *Config) any { return &of(c).Keys.Type }).of(storeTypes...),
		honour(prefix+"trustStore.location", w, path, "", func(c *Config) any { return &of(c).Trust.Location }),
		honour(prefix+"trustStore.password", w, secret, "", func(c *Config) any { return &of(c).Trust.Password }),
		honour(prefix+"trustStore.type", w, text, "", func(c *Config) any { return &of(c).Trust.Type }).of(storeTypes...),
		honour(prefix+"enabledProtocols", w, list, "", func(c *Config) any { return &of(c).EnabledProtocols }),
		honour(prefix+"ciphersuites", w, list, "", func(c *Config) any { return &of(c).CipherSuites }),
	}
}

// tlsPortKeys concern TLS on the client ports alone.
func tlsPortKeys() []key {
	return []key{
		honour("ssl.authProvider", asProp, text, "x509", func(c *Config) any { return &c.TLS.AuthProvider }).of("x509"),
		honour("client.portUnification", asProp, boolean, "false", func(c *Config) any { return &c.TLS.PortUnification }),
		honour("client.certReload", asProp, boolean, "false", func(c *Config) any { return &c.TLS.CertReload }),
		honour("netty.server.earlyDropSecureConnectionHandshakes", asProp, boolean, "false", func(c *Config) any { return &c.TLS.DropHandshakesEarly }),
		unused("ssl.sslProvider", asProp, text, "JDK", "there is one TLS implementation").of("JDK", "OPENSSL", "OPENSSL_REFCNT"),
	}
}

// adminKeys are about the HTTP admin server, which is on, and on loopback, unless told otherwise.
func adminKeys() []key {
	return []key{
		honour("admin.enableServer", asProp, boolean, "true", func(c *Config) any { return &c.Admin.Enabled }).was("false"),
		honour("admin.serverAddress", asProp, text, "127.0.0.1", func(c *Config) any { return &c.Admin.Address }).was("0.0.0.0"),
		honour("admin.serverPort", asProp, integer, "8080", func(c *Config) any { return &c.Admin.Port }).in(0, 65535),
		honour("admin.idleTimeout", asProp, millis, "30000", func(c *Config) any { return &c.Admin.IdleTimeout }).in(1, int32Max),
		honour("admin.commandURL", asProp, text, "/commands", func(c *Config) any { return &c.Admin.CommandURL }),
		unused("admin.httpVersion", asProp, integer, "11", "the version is agreed with each client"),
		honour("admin.portUnification", asProp, boolean, "false", func(c *Config) any { return &c.Admin.PortUnification }),
		honour("admin.forceHttps", asProp, boolean, "false", func(c *Config) any { return &c.Admin.ForceHTTPS }),
		honour("admin.needClientAuth", asProp, boolean, "false", func(c *Config) any { return &c.Admin.NeedClientAuth }),
		honour("admin.rateLimiterIntervalInMS", asProp, millis, "300000", func(c *Config) any { return &c.Admin.RateInterval }).in(0, int32Max),
		honour("admin.snapshot.enabled", asProp, boolean, "true", func(c *Config) any { return &c.Admin.Snapshot }),
		honour("admin.restore.enabled", asProp, boolean, "true", func(c *Config) any { return &c.Admin.Restore }),
	}
}

// The metrics provider classes of Apache.
const (
	defaultProvider    = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
	nullProvider       = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
	prometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
)

// metricsKeys are about the metrics provider.
func metricsKeys() []key {
	return append(storeKeys("metricsProvider.ssl.", inFile, func(c *Config) *TLS { return &c.Metrics.TLS }),
		honour("metricsProvider.className", inFile, text, defaultProvider, func(c *Config) any { return &c.Metrics.ClassName }).of(defaultProvider, nullProvider, prometheusProvider),
		honour("metricsProvider.httpHost", inFile, text, "127.0.0.1", func(c *Config) any { return &c.Metrics.HTTPHost }).was("0.0.0.0"),
		honour("metricsProvider.httpPort", inFile, integer, "-1", func(c *Config) any { return &c.Metrics.HTTPPort }).in(-1, 65535),
		honour("metricsProvider.httpsPort", inFile, integer, "-1", func(c *Config) any { return &c.Metrics.HTTPSPort }).in(-1, 65535),
		honour("metricsProvider.exportJvmInfo", inFile, boolean, "true", func(c *Config) any { return &c.Metrics.ExportJVM }),
		unused("metricsProvider.numWorkerThreads", inFile, integer, "10", whyTuning),
		unused("metricsProvider.maxQueueSize", inFile, integer, "1000000", whyTuning),
		unused("metricsProvider.workerShutdownTimeoutMs", inFile, millis, "1000", whyTuning),
		honour("metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds", inFile, seconds, "60", func(c *Config) any { return &c.Metrics.RotateSummary }).in(1, int32Max),
		honour("metricsProvider.ssl.need.client.auth", inFile, boolean, "true", func(c *Config) any { return &c.Metrics.NeedClientAuth }),
		honour("metricsProvider.ssl.want.client.auth", inFile, boolean, "true", func(c *Config) any { return &c.Metrics.WantClientAuth }),
		unused("metricsProvider.httpVersion", asProp, integer, "11", "the version is agreed with each client"),
	)
}
