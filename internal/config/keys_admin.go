package config

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
