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
		p("# Relative paths begin in the folder that this file is in.")
		p("relativePaths=file")
	}
	p("")
	p("# The unit of the limits below, in ms. A session lasts 2 to 20 ticks, as its client asks.")
	p("tickTime=2000")
	p("")
	p("# Snapshots, and the log of all changes. Give the log a disk of its own where writes are many:")
	p("# every write waits until a majority of the servers has it on disk.")
	p("dataDir=%s", o.at("data"))
	p("#dataLogDir=/another/disk")
	p("# Old snapshots and log segments are removed but for these.")
	p("autopurge.snapRetainCount=3")
	p("autopurge.purgeInterval=1")
	p("")
	switch {
	case o.TLS:
		p("# Nothing is open: the server doesn't start with a setting that others could misuse, clients can't create")
		p("# znodes for everybody, and the root znode is the superusers' alone, who is the bearer of ../client/client.pem.")
		p("security.profile=strict")
		p("X509AuthenticationProvider.superUser=CN=client")
		p("")
		p("# Clients talk TLS here, and show a certificate of the same issuer (../client has one).")
		p("secureClientPort=%d", s.ports.Client)
		p("ssl.keyStore.location=%s", o.at("server.pem"))
		p("ssl.trustStore.location=%s", o.at("ca.pem"))
		p("ssl.clientAuth=need")
		p("# Certificates that were revoked (zooid cert revoke writes the list; put the new one here, at any time).")
		p("ssl.crlFile=%s", o.at(listFile))
	case s.line == "":
		p("# Clients connect here. This address is this machine's alone; 0.0.0.0 stands for all of its addresses.")
		p("# Set up TLS (zooid init -tls) before others can reach it.")
		p("clientPortAddress=127.0.0.1")
		p("clientPort=%d", s.ports.Client)
	default:
		p("# Clients connect to the last port of this server's line below, without TLS.")
	}
	p("# Quotas that are set with -N and -B (zooid cli setquota) refuse what exceeds them.")
	p("enforceQuota=true")
	p("# Connections of one address, so that no client takes all.")
	p("maxClientCnxns=60")
	o.administration(p, s)
	if o.TLS {
		p("# Words that zooid status and monitoring ask. They tell figures, no paths and no sessions.")
		p("4lw.commands.whitelist=srvr,mntr,dirs,ruok,isro")
	} else {
		p("# Words that monitoring asks; * would tell sessions and paths to everybody.")
		p("4lw.commands.whitelist=srvr,mntr,dirs,ruok,conf,isro")
	}
	p("")
	p("# Without data a server doesn't begin with an empty tree by itself once this is false.")
	p("# Set it after the first start: a disk that isn't mounted is found out then.")
	p("#db.autocreate=false")
	if s.line == "" {
		return b.String()
	}
	p("")
	p("# Ticks that a server has to join, and for which clients stay on one that has lost its leader.")
	p("initLimit=10")
	p("syncLimit=5")
	p("# One server alone can grow to an ensemble.")
	p("standaloneEnabled=false")
	if o.TLS {
		p("# Superusers may change the membership (zooid cli reconfig).")
		p("reconfigEnabled=true")
		p("# They give a vote only to a server that runs: start it first, then add it.")
		p("reconfig.runningOnly=true")
	}
	p("# Servers prove who they are by it. It is the same on all, and theirs alone.")
	p("quorum.secretFile=%s", o.at("secret"))
	if o.TLS {
		p("# They talk mutual TLS, by certificates that name their hosts.")
		p("sslQuorum=true")
	}
	p("")
	p("# The servers: host, port of the quorum, port of elections (unused), then that of clients%s.",
		map[bool]string{true: " by TLS", false: ""}[o.TLS])
	p("# The file myid in the data directory says which of them this one is.")
	for _, m := range all {
		p("%s", m.line)
	}
	return b.String()
}

// administration writes the keys of the ports that zooid's own commands and Prometheus use. Without TLS these answer
// only this machine.
func (o *Options) administration(p func(string, ...any), s *server) {
	p("")
	p("# Asked by zooid health, top, doctor, drain and reload, and for backups. It answers this machine alone;")
	p("# admin.serverAddress=0.0.0.0 lets others in.")
	p("admin.enableServer=true")
	p("admin.serverAddress=127.0.0.1")
	p("admin.serverPort=%d", s.ports.Admin)
	if !o.TLS {
		p("# Prometheus finds figures under /metrics there, or here for other machines:")
		p("#metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
		p("#metricsProvider.httpPort=%d", s.ports.Metrics)
		return
	}
	p("# Callers show a certificate of the same issuer. Commands that change or tell much are the superuser's, and those of")
	p("# this server's user.")
	p("admin.forceHttps=true")
	p("admin.needClientAuth=true")
	p("ssl.quorum.keyStore.location=%s", o.at("server.pem"))
	p("ssl.quorum.trustStore.location=%s", o.at("ca.pem"))
	p("ssl.quorum.crlFile=%s", o.at(listFile))
	p("# Prometheus asks here, with a certificate of the same issuer.")
	p("metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider")
	p("metricsProvider.httpsPort=%d", s.ports.Metrics)
	p("metricsProvider.ssl.keyStore.location=%s", o.at("server.pem"))
	p("metricsProvider.ssl.trustStore.location=%s", o.at("ca.pem"))
	p("metricsProvider.ssl.crlFile=%s", o.at(listFile))
}
