package config

// storeTypes are the kinds of key and trust store; "" goes by the file's extension.
var storeTypes = []string{"", "JKS", "PEM", "PKCS12", "BCFKS"}

// tlsKeys are the rows that exist once for client ports and once for quorum ports.
func tlsKeys(prefix string, w where, of func(*Config) *TLS) []key {
	verifyPeer := "false"
	detection := unused(prefix+"handshakeDetectionTimeoutMillis", w, millis, "5000",
		"nio.sessionlessCnxnTimeout bounds everything before a session, including the handshake").in(1, int32Max)
	if prefix == "ssl.quorum." {
		verifyPeer = "true"
		detection = honour(detection.name, w, millis, "5000", func(c *Config) any { return &of(c).DetectionTimeout }).in(1,
			int32Max)
	}
	return append(storeKeys(prefix, w, of),
		honour(prefix+"keyStore.passwordPath", w, path, "", func(c *Config) any { return &of(c).Keys.PasswordPath }),
		honour(prefix+"trustStore.passwordPath", w, path, "", func(c *Config) any { return &of(c).Trust.PasswordPath }),
		honour(prefix+"protocol", w, text, "", func(c *Config) any { return &of(c).Protocol }).of("", "TLSv1.2", "TLSv1.3"),
		honour(prefix+"hostnameVerification", w, boolean, "true", func(c *Config) any { return &of(c).HostnameVerification }),
		honour(prefix+"clientHostnameVerification", w, boolean, verifyPeer,
			func(c *Config) any { return &of(c).PeerHostnameVerification }),
		honour(prefix+"allowReverseDnsLookup", w, boolean, "false", func(c *Config) any { return &of(c).ReverseDNS }),
		honour(prefix+"hostnameInCommonName", w, boolean, "true", func(c *Config) any { return &of(c).CommonName }),
		honour(prefix+"crl", w, boolean, "false", func(c *Config) any { return &of(c).CRL }),
		honour(prefix+"ocsp", w, boolean, "false", func(c *Config) any { return &of(c).OCSP }),
		honour(prefix+"ocspStapleFile", w, path, "", func(c *Config) any { return &of(c).StapleFile }),
		honour(prefix+"crlFile", w, path, "", func(c *Config) any { return &of(c).CRLFile }),
		honour(prefix+"clientAuth", w, text, "need", func(c *Config) any { return &of(c).ClientAuth }).of("none",
			"want", "need"),
		detection,
		refuse(prefix+"context.supplier.class", w, text, "", "Java classes can't be loaded; name key and trust stores instead"),
	)
}

// storeKeys are the rows that every port with TLS has.
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

// tlsPortKeys concern TLS on the client ports only.
func tlsPortKeys() []key {
	return []key{
		honour("client.portUnification", asProp, boolean, "false", func(c *Config) any { return &c.TLS.PortUnification }),
		unused("client.certReload", asProp, boolean, "false", whyReloads),
		honour("netty.server.earlyDropSecureConnectionHandshakes", asProp, boolean,
			"false", func(c *Config) any { return &c.TLS.DropHandshakesEarly }),
		unused("ssl.sslProvider", asProp, text, "JDK", "there is one TLS implementation").of("JDK",
			"OPENSSL", "OPENSSL_REFCNT"),
	}
}
