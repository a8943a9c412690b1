package config

import (
	"reflect"
	"slices"
)

// Changed returns the honoured keys whose values differ in two configurations, sorted. Server lines are one key,
// "server.N", and so are the other families.
func Changed(a, b *Config) []string {
	var names []string
	for _, k := range rows() {
		if k.field != nil && !reflect.DeepEqual(k.field(a), k.field(b)) {
			names = append(names, k.name)
		}
	}
	// If reconfig is enabled, the membership in the log counts.
	if !b.Quorum.ReconfigEnabled && a.Quorum.Members.String() != b.Quorum.Members.String() {
		names = append(names, "server.N")
	}
	if !slices.Equal(a.Auth.SASLSuperUsers, b.Auth.SASLSuperUsers) {
		names = append(names, "superUser")
	}
	if !slices.Equal(a.Auth.Schemes, b.Auth.Schemes) || !slices.Equal(a.Auth.Providers, b.Auth.Providers) ||
		!slices.Equal(a.Auth.External, b.Auth.External) {
		names = append(names, "authProvider.N")
	}
	slices.Sort(names)
	return slices.Compact(names)
}
