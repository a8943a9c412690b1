package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// FeatureLevelMax is the highest feature level that this version applies.
//
// A feature level determines which operations the log may have and what apply computes. The leader raises the level in
// force by an OpSettings entry, once every member has announced that it supports the next one. docs/decisions/011
// describes how to add a level.
//
//	1  the initial level
//	2  the level in force never decreases; the hashes have a secret; see the uses of Settings.FeatureLevel
//	3  OpRestore and policies are accepted (levelRestores), the ensemble has a lineage (levelLineage), and more paths are
//	   reserved for superusers (levelReserved)
//	4  the ids of a scheme may match by a rule (levelRules)
//	5  a reconfig may name server 0 (levelZero)
const FeatureLevelMax = 5

// levelRules is the lowest feature level at which settings have rules.
const levelRules = 4

// A NewerError reports that a log entry or a snapshot needs a newer version than this one. The entry or snapshot isn't
// damaged: a newer version can read it. Use errors.As to find it.
type NewerError struct {
	What        string // what needs the newer version, with the number found
	This, Wants int32  // the number that this version supports, and the one found; 0 if there is none
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s is of a newer version of Zooid than this one: upgrade this server. Its data is in order and stays as it is",
		e.What)
}

// A MissingRuleError reports that a log entry or a snapshot requires a rule for the ids of a scheme that this program
// doesn't have. The entry or snapshot isn't damaged. Use errors.As to find it.
type MissingRuleError struct{ Scheme, Rule string }

func (e *MissingRuleError) Error() string {
	return fmt.Sprintf("ACLs of the scheme %s are matched by the rule %q, which this program doesn't have: start this server with the program that the other servers run. Its data is in order and stays as it is",
		e.Scheme, e.Rule)
}

// newer returns the error for a feature level above max.
func newer(level, max int32) error {
	return &NewerError{
		What: fmt.Sprintf("feature level %d (this version applies 1 to %d)", level, max), This: max, Wants: level,
	}
}

// Settings are the replicated settings. A setting that changes the result of a request must be the same on every
// replica at the same log entry, so a server's configuration reaches the tree only through OpSettings. (The setting
// letAnySaslUserDoX isn't here: it is part of a request's identities, see package auth.)
type Settings struct {
	ExtendedTypes   bool         // TTL znodes may be created (extendedTypesEnabled)
	Emulate353      bool         // old TTL owners have the layout of 3.5.3; affects only imports
	EnforceQuota    bool         // hard limits are enforced (enforceQuota)
	SkipACL         bool         // no ACL is checked (skipACL)
	ReconfigEnabled bool         // reconfig is enabled (reconfigEnabled)
	Schemes         auth.Schemes // schemes allowed in an ACL in addition to world and auth
	FeatureLevel    int32        // determines how apply behaves, 1 to FeatureLevelMax
	Rules           auth.Rules   // how ids of providers' schemes match; empty below levelRules
}

// DefaultSettings returns the settings of a new tree: Apache's defaults.
func DefaultSettings() Settings {
	return Settings{Schemes: auth.NewSchemes("digest", "ip"), FeatureLevel: 1}
}

// TakesRules reports whether Rules may be set at the settings' feature level.
func (s *Settings) TakesRules() bool { return s.FeatureLevel >= levelRules }

// Append appends the body of an OpSettings request.
func (s *Settings) Append(b []byte) []byte {
	for _, v := range []bool{s.ExtendedTypes, s.Emulate353, s.EnforceQuota, s.SkipACL, s.ReconfigEnabled} {
		b = jute.AppendBool(b, v)
	}
	b = jute.AppendInt(b, int32(len(s.Schemes)))
	for _, name := range s.Schemes {
		b = jute.AppendString(b, name)
	}
	b = jute.AppendInt(b, s.FeatureLevel)
	if s.TakesRules() {
		b = s.Rules.Append(b)
	}
	return b
}

// Decode decodes what Append wrote. The result shares no memory with the input.
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
	switch {
	case s.FeatureLevel < 1:
		return fmt.Errorf("decode settings: feature level %d; the lowest is 1", s.FeatureLevel)
	case !s.TakesRules() || s.FeatureLevel > FeatureLevelMax: // the rest is from a newer version
		s.Rules = nil
		return nil
	}
	var err error
	if s.Rules, err = auth.DecodeRules(d); err != nil {
		return fmt.Errorf("decode settings: %w", err)
	}
	return nil
}

// decodeSettings decodes settings that this replica can apply.
func (t *Tree) decodeSettings(d *jute.Decoder) (s Settings, err error) {
	if err = s.Decode(d); err == nil && s.FeatureLevel > t.levelMax {
		err = newer(s.FeatureLevel, t.levelMax)
	}
	if err != nil {
		return s, err
	}
	if missing := s.Rules.Resolve(t.findRule); missing != nil {
		err = &MissingRuleError{missing.Scheme, missing.Name}
	}
	return s, err
}

// Settings returns the settings in force. The caller must not modify Schemes and Rules.
func (t *Tree) Settings() Settings { return t.settings }

// set applies settings. From level 2 on the level never decreases, since a former leader's entry may arrive late.
func (t *Tree) set(s Settings) {
	if !s.TakesRules() {
		s.Rules = t.settings.Rules // such a late entry has no rules
	}
	if t.settings.FeatureLevel >= 2 {
		s.FeatureLevel = max(s.FeatureLevel, t.settings.FeatureLevel)
	}
	if slices.Equal(s.Schemes, t.settings.Schemes) {
		s.Schemes = t.settings.Schemes
	}
	t.settings = s
	t.acls.forgetRequests()
}
