package setup

import (
	"fmt"
	"strings"
)

// configuration returns a server's zoo.cfg.
func (o *Options) configuration(s *server, all []server) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Written by zooid init. docs/configuration.md has every key; zooid doctor examines the file.")
	if o.At == "" {
		p("# Relative paths start at the folder of this file.")
		p("relativePaths=file")
	}
	p("")
	p("# A tick in ms, the unit of initLimit and syncLimit. A session lasts 2 to 20 ticks,")
	p("# as its client asks.")
	p("tickTime=2000")
	p("")
	p("# The snapshots, and the log of all changes. With many writes, give the log a disk of its own:")
	p("# every write waits until a majority of the servers has it on disk.")
	p("dataDir=%s", o.at("data"))
	p("#dataLogDir=/another/disk")
	p("# Keep this many snapshots, and the log since the oldest of them; remove older ones every hour.")
	p("autopurge.snapRetainCount=3")
	p("autopurge.purgeInterval=1")
	p("")
	switch {
	case o.TLS:
		p("# The server refuses insecure settings, and ACLs that admit everybody. Only the superuser may use")
		p("# the root znode: whoever holds ../client/client.pem.")
		p("security.profile=strict")
		p("X509AuthenticationProvider.superUser=CN=client")
		p("")
		p("# Clients connect here by TLS, with a certificate of the same issuer, such as ../client/client.pem.")
		p("secureClientPort=%d", s.ports.Client)
		p("ssl.keyStore.location=%s", o.at("server.pem"))
		p("ssl.trustStore.location=%s", o.at("ca.pem"))
		p("ssl.clientAuth=need")
		p("# The list of revoked certificates. zooid cert revoke writes a new one; no restart is needed.")
		p("ssl.crlFile=%s", o.at(listFile))
	case s.line == "":
		p("# Clients connect here, from this machine only; 0.0.0.0 accepts them on all its addresses.")
		p("# Set up TLS (zooid init -tls) before you let others in.")
		p("clientPortAddress=127.0.0.1")
		p("clientPort=%d", s.ports.Client)
	default:
		p("# Clients connect to the last port of this server's line below, without TLS.")
	}
	p("# Refuse writes above the hard quotas that zooid cli setquota -N and -B set.")
	p("enforceQuota=true")
	p("# The most connections from one address.")
	p("maxClientCnxns=60")
	o.administration(p, s)
	if o.TLS {
		p("# The four-letter words that zooid status and monitoring need. They show no paths and no sessions.")
		p("4lw.commands.whitelist=srvr,mntr,dirs,ruok,isro")
	} else {
		p("# The four-letter words that zooid status and monitoring need. * would show sessions and paths.")
		p("4lw.commands.whitelist=srvr,mntr,dirs,ruok,conf,isro")
	}
	p("")
	p("# Uncomment this after the first start: a server without data, for example because its disk isn't")
	p("# mounted, then never starts with an empty tree by itself.")
	p("#db.autocreate=false")
	if s.line == "" {
		return b.String()
	}
	p("")
	p("# The time in ticks that a server has to join, and that it keeps its clients without a leader.")
	p("initLimit=10")
	p("syncLimit=5")
	p("# A single server can grow to an ensemble, too.")
	p("standaloneEnabled=false")
	if o.TLS {
		p("# Superusers may change the membership (zooid cli reconfig).")
		p("reconfigEnabled=true")
		p("# Only a running server gets a vote: start a new server first, then add it.")
		p("reconfig.runningOnly=true")
	}
	p("# The servers authenticate to each other with this secret, which nobody else may read.")
	p("quorum.secretFile=%s", o.at("secret"))
	if o.TLS {
		p("# They use mutual TLS, with certificates that name their hosts.")
		p("sslQuorum=true")
	}
	p("")
	p("# The servers: host, quorum port, election port (unused), and the port of clients%s.",
		map[bool]string{true: " by TLS", false: ""}[o.TLS])
	p("# The file myid in the data directory holds this server's number.")
	for _, m := range all {
		p("%s", m.line)
	}
	return b.String()
}

// administration writes the keys of the ports that zooid's own commands and Prometheus use. Without TLS these answer
// only this machine.
func (o *Options) administration(p func(string, ...any), s *server) {
	p("")
	p("# The admin server, which zooid health, top, doctor, drain and reload use, and backups. Only this")
	p("# machine can reach it; admin.serverAddress=0.0.0.0 lets others in.")
	p("admin.enableServer=true")
	p("admin.serverAddress=127.0.0.1")
	p("admin.serverPort=%d", s.ports.Admin)
	if !o.TLS {
		p("# The admin server has metrics for Prometheus at /metrics; these keys serve them to other machines:")
		p("#metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
		p("#metricsProvider.httpPort=%d", s.ports.Metrics)
		return
	}
	p("# Callers need a certificate of the same issuer. Commands that change something or show data need")
	p("# the superuser's, or the token that this server's user can read.")
	p("admin.forceHttps=true")
	p("admin.needClientAuth=true")
	p("ssl.quorum.keyStore.location=%s", o.at("server.pem"))
	p("ssl.quorum.trustStore.location=%s", o.at("ca.pem"))
	p("ssl.quorum.crlFile=%s", o.at(listFile))
	p("# Prometheus scrapes this port, with a certificate of the same issuer.")
	p("metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
	p("metricsProvider.httpsPort=%d", s.ports.Metrics)
	p("metricsProvider.ssl.keyStore.location=%s", o.at("server.pem"))
	p("metricsProvider.ssl.trustStore.location=%s", o.at("ca.pem"))
	p("metricsProvider.ssl.crlFile=%s", o.at(listFile))
}
