//go:build unix

package main

import (
	"fmt"
	"sync"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/authprovider/key"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/bearer"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/external"
	"github.com/zooid-project/zooid/internal/runbook"
)

// addProviders registers the provider that comes with the program: Apache's sample.
var addProviders = sync.OnceFunc(func() { authprovider.Register(key.Class, key.New) })

// authOptions returns the auth package's options for cfg.
func authOptions(cfg *config.Config) (auth.Options, error) {
	a := cfg.Auth
	o := auth.Options{
		DigestDisabled: !a.DigestEnabled, DigestAlgorithm: a.DigestAlg, SuperDigest: a.SuperDigest.Reveal(),
		SASLSuperUsers: a.SASLSuperUsers, AnySASLUser: a.SASLAnyUser, X509SuperUser: a.X509SuperUser,
		EnsembleNames: a.EnsembleNames, RefuseOpenACLs: cfg.Profile == config.Strict,
	}
	for _, s := range a.Schemes {
		switch s {
		case "sasl":
			o.SASL = true
		case "x509":
			o.X509 = true
		case "ensemble":
			o.Ensemble = true
		}
	}
	if a.RequireSASL {
		o.EnforceSchemes = []string{"sasl"}
	} else if a.Enforce {
		o.EnforceSchemes = append([]string{}, a.EnforceSchemes...)
	}
	for _, name := range a.Providers {
		p, err := authprovider.Open(name)
		if err != nil {
			return o, fmt.Errorf("set up authentication (authProvider.N): %w", err)
		}
		o.Providers = append(o.Providers, p)
	}
	for _, e := range a.External {
		p, err := external.New(external.Options{
			Scheme: e.Scheme, Target: e.Target, Timeout: a.ExternalTimeout, Cache: a.ExternalCache,
			Concurrency: a.ExternalConcurrency, CAFile: a.CAFile, Matches: e.Matches,
		})
		if err != nil {
			return o, runbook.Errorf("ZD-1228", "%w", err)
		}
		o.Providers = append(o.Providers, p)
	}
	if b := a.Bearer; b.Issuer != "" {
		p, err := bearer.New(bearer.Options{
			Issuer: b.Issuer, Audience: b.Audience, Keys: b.Keys, CAFile: a.CAFile, Algorithms: b.Algorithms,
			IDClaim: b.IDClaim, GroupsClaim: b.GroupsClaim, SuperUsers: b.SuperUsers, Skew: b.ClockSkew,
		})
		if err != nil {
			return o, runbook.Errorf("ZD-1229", "%w", err)
		}
		o.Providers = append(o.Providers, p)
	}
	return o, nil
}
