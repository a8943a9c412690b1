package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// FeatureLevelMax is the highest feature level this version applies; a log entry
// that asks for a higher one stops the replica (see Settings).
const FeatureLevelMax = 1

// Settings are the replicated settings: whatever changes the result of a
// request must be the same on every replica at the same log entry, so a
// server's configuration reaches the tree only through OpSettings. (The setting
// letAnySaslUserDoX isn't here: it travels as an identity, see package auth.)
type Settings struct {
	ExtendedTypes   bool         // TTL znodes may be created (extendedTypesEnabled)
	Emulate353      bool         // old TTL owners are read in the layout of 3.5.3; matters to imports only
	EnforceQuota    bool         // hard limits are enforced (enforceQuota)
	SkipACL         bool         // no ACL is checked (skipACL)
	ReconfigEnabled bool         // reconfig isn't refused outright (reconfigEnabled)
	Schemes         auth.Schemes // schemes allowed in an ACL beside world and auth
	FeatureLevel    int32        // behaviour of apply, 1 to FeatureLevelMax
}

// DefaultSettings are those of a new tree: Apache's defaults.
func DefaultSettings() Settings {
	return Settings{Schemes: auth.NewSchemes("digest", "ip"), FeatureLevel: 1}
}

// Append appends the body of an OpSettings request.
func (s *Settings) Append(b []byte) []byte {
	for _, v := range []bool{s.ExtendedTypes, s.Emulate353, s.EnforceQuota, s.SkipACL, s.ReconfigEnabled} {
		b = jute.AppendBool(b, v)
	}
	b = jute.AppendInt(b, int32(len(s.Schemes)))
	for _, name := range s.Schemes {
		b = jute.AppendString(b, name)
	}
	return jute.AppendInt(b, s.FeatureLevel)
}

// Decode reads what Append wrote; the result shares nothing with the input.
func (s *Settings) Decode(d *jute.Decoder) error {
	for _, v := range []*bool{&s.ExtendedTypes, &s.Emulate353, &s.EnforceQuota, &s.SkipACL, &s.ReconfigEnabled} {
		*v = d.Bool()
	}
	names := d.Strings()
	for i := range names {
		names[i] = strings.Clone(names[i])
	}
	s.Schemes = auth.NewSchemes(names...)
	s.FeatureLevel = d.Int()
	if err := d.Err(); err != nil {
		return fmt.Errorf("decode settings: %w", err)
	}
	if s.FeatureLevel < 1 || s.FeatureLevel > FeatureLevelMax {
		return fmt.Errorf("settings ask for feature level %d, this version applies 1 to %d: upgrade this server", s.FeatureLevel, FeatureLevelMax)
	}
	return nil
}

// Settings returns the settings in force; the caller must not modify Schemes.
func (t *Tree) Settings() Settings { return t.settings }

// set puts settings in force.
func (t *Tree) set(s Settings) {
	if slices.Equal(s.Schemes, t.settings.Schemes) {
		s.Schemes = t.settings.Schemes
	}
	t.settings = s
	t.acls.forgetRequests()
}
