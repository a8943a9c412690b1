//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tool/access"
)

// secureOptions adds TLS and SASL on the client ports.
func secureOptions(cfg *config.Config, log *slog.Logger, o *server.Options) error {
	if cfg.Secure.Port >= 0 || cfg.TLS.PortUnification {
		of := portOptions(&cfg.TLS, "client port", log)
		of.SystemTrust = cfg.Profile != config.Strict // between servers never: a public certificate would make a peer
		port, err := keystore.NewPort(of)
		if err != nil {
			return runbook.Errorf("ZD-1210", "set up TLS for clients (ssl.* keys): %w", err)
		}
		for _, note := range port.Notes() {
			log.Warn("TLS for clients: "+note, "code", "ZD-1220")
		}
		o.Stores = append(o.Stores, storesOf("client port", port))
		o.Secure = server.SecureOptions{
			Unify: cfg.TLS.PortUnification, TLS: port.Config(), Check: port.Check,
			HandshakesMax: cfg.Limits.TLSHandshakes, DropEarly: cfg.TLS.DropHandshakesEarly,
		}
		if cfg.Secure.Port >= 0 {
			o.Secure.Listen = []string{net.JoinHostPort(cfg.Secure.Host, strconv.Itoa(cfg.Secure.Port))}
		}
	}
	logins, err := loginMechanism(&cfg.Auth)
	if err != nil {
		return err
	}
	o.SASL = server.SASLOptions{AllowFailed: cfg.Auth.AllowFailedSASL}
	if logins != nil {
		logins.warn(log)
		o.SASL.Mechanism = sasl.Follow(logins.mechanism, logins.secrets)
	}
	if logins == nil && slices.Contains(o.Auth.EnforceSchemes, "sasl") {
		log.Warn("clients must log in by SASL, but no login file has a section for the server (java.security.auth.login.config, sasl.serverconfig); none can connect", "code", "ZD-1222")
	}
	return nil
}

// peerTLS sets up TLS between servers: sslQuorum dials TLS and accepts nothing else, portUnification accepts both.
func peerTLS(q *config.QuorumTLS, o *server.Options) (server.PeerTLS, error) {
	log := o.Log
	if !q.Enabled && !q.PortUnification {
		return server.PeerTLS{}, nil
	}
	stores := peerPortOptions(q, log)
	if stores.Trust.Location == "" {
		return server.PeerTLS{}, runbook.Errorf("ZD-1211", "set up TLS between servers: there is no trust store; set ssl.quorum.trustStore.location to a file with the certificate of the servers' issuer")
	}
	port, err := keystore.NewPort(stores)
	if err != nil {
		return server.PeerTLS{}, runbook.Errorf("ZD-1212", "set up TLS between servers (ssl.quorum.* keys): %w", err)
	}
	for _, note := range port.Notes() {
		log.Warn("TLS between servers: "+note, "code", "ZD-1221")
	}
	if q.TLS.ClientAuth != "need" && q.TLS.ClientAuth != "" {
		log.Warn("ssl.quorum.clientAuth="+q.TLS.ClientAuth+": anyone who knows the ensemble's secret can connect as a server without a certificate; use need", "code", "ZD-1223")
	}
	o.Stores = append(o.Stores, storesOf("peer port", port))
	secure := server.PeerTLS{
		Server: port.Config(), Plain: q.PortUnification, Detection: q.TLS.DetectionTimeout, Check: port.CheckPeer,
		Named: q.TLS.HostnameVerification && q.TLS.PeerHostnameVerification,
	}
	secure.Verify = func(ctx context.Context, state tls.ConnectionState, hosts []string) error {
		if !secure.Named {
			hosts = nil
		}
		return port.VerifyPeer(ctx, state, hosts)
	}
	if q.Enabled {
		secure.Client = func(host string) *tls.Config { return port.Dialled(host, q.TLS.HostnameVerification) }
	}
	return secure, nil
}

// peerPortOptions returns the keystore package's options for the peer port.
func peerPortOptions(q *config.QuorumTLS, log *slog.Logger) keystore.Options {
	o := portOptions(&q.TLS, "peer port", log)
	o.VerifyClientHost = false // quorum calls VerifyPeer, once it knows which server connects
	return o
}

// storesOf returns the stores of the port named what.
func storesOf(what string, port *keystore.Port) server.Stores {
	return server.Stores{Of: what, Refresh: port.Refresh, Ends: port.Ends, Unreadable: port.Unreadable}
}

// portOptions converts the ssl.* keys into the keystore package's options; what names the port in the log.
func portOptions(t *config.TLS, what string, log *slog.Logger) keystore.Options {
	return keystore.Options{
		Keys: access.StoreOf(t.Keys), Trust: access.StoreOf(t.Trust),
		Protocol: t.Protocol, EnabledProtocols: t.EnabledProtocols, CipherSuites: t.CipherSuites,
		ClientAuth: t.ClientAuth, VerifyClientHost: t.HostnameVerification && t.PeerHostnameVerification,
		ReverseDNS: t.ReverseDNS, CommonName: t.CommonName,
		CRL: t.CRL, OCSP: t.OCSP, CRLFile: t.CRLFile, StapleFile: t.StapleFile,
		Reloaded: func(err error) {
			if err != nil {
				log.Error("the key and trust stores of the "+what+" have changed and can't be used", "err", err, "code", "ZD-1224")
				return
			}
			log.Info("the key and trust stores of the " + what + " have changed; new connections use them")
		},
	}
}

// storesPoll is the interval between checks of the key and trust stores while no client connects.
const storesPoll = 10 * time.Second

// pollStores checks the stores of ports periodically, as each connection does (see keystore.Port.Config), so that a
// withdrawn certificate is logged even if no client connects.
func pollStores(done <-chan struct{}, every time.Duration, ports ...*tls.Config) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-done:
			return
		}
		for _, port := range ports {
			if port != nil && port.GetConfigForClient != nil {
				port.GetConfigForClient(&tls.ClientHelloInfo{})
			}
		}
	}
}
