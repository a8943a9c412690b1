package access

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
)

// A setting is one that profiles and the environment may have. In the profile p its key is p.NAME. Its environment
// variable is ZOOID_NAME in capitals, with underscores for '.' and '-'. Each setting comes from the first source that
// has it: the command line, the profile, the environment.
type setting struct {
	name   string
	path   bool // the value is a file's path
	secret bool // the value may hold a password
	// given reports whether the command line or an earlier source has set it.
	given func(a *Access) bool
	set   func(a *Access, value string) error
}

// settings returns all settings. Some form a group, which one source sets as a whole: a key belongs to its certificate,
// and a source with an identity replaces all identities of later sources.
func settings() []setting {
	file := func(at func(*Access) *string) func(*Access, string) error {
		return func(a *Access, value string) error { *at(a) = value; return nil }
	}
	certificate := func(a *Access) bool { return a.Keys.Location != "" || a.KeyFile != "" }
	login := func(a *Access) bool {
		return a.login.user != "" || a.login.mechanism != "" || a.login.file != "" || a.login.off
	}
	return []setting{
		{name: "server", given: func(a *Access) bool { return a.Server != "" }, set: (*Access).SetServer},
		{name: "tls", given: func(a *Access) bool { return a.Secure || a.plain }, set: func(a *Access, v string) (err error) {
			a.Secure, err = parseSwitch("tls", v)
			a.plain = !a.Secure
			return err
		}},
		{name: "tls.ca", path: true, given: func(a *Access) bool { return a.Trust.Location != "" },
			set: file(func(a *Access) *string { return &a.Trust.Location })},
		{name: "tls.cert", path: true, given: certificate, set: file(func(a *Access) *string { return &a.Keys.Location })},
		{name: "tls.key", path: true, given: certificate, set: file(func(a *Access) *string { return &a.KeyFile })},
		{name: "tls.password-file", path: true, given: func(a *Access) bool {
			return a.Keys.Password+a.Keys.PasswordPath+a.Trust.Password+a.Trust.PasswordPath != ""
		}, set: func(a *Access, v string) error {
			a.Keys.PasswordPath, a.Trust.PasswordPath = v, v
			return nil
		}},
		{name: "auth", secret: true, given: func(a *Access) bool { return a.auth != nil }, set: (*Access).AddAuth},
		{name: "auth-file", path: true, given: func(a *Access) bool { return a.auth != nil }, set: (*Access).ReadAuth},
		{name: "sasl", secret: true, given: login, set: (*Access).SetLogin},
		{name: "sasl-file", path: true, given: login, set: (*Access).ReadLogin},
		{name: "sasl-mechanism", given: login, set: (*Access).SetMechanism},
	}
}

// variable returns the environment variable of a setting.
func (s *setting) variable() string {
	return "ZOOID_" + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(s.name))
}

// Settle takes missing settings from the profile, if there is one, and then from the environment.
func (a *Access) Settle() error {
	if a.settled {
		return nil
	}
	a.settled = true
	var profile map[string]string
	file := ""
	if a.Profile != "" {
		var err error
		if file, err = profilesFile(); err != nil {
			return err
		}
		if profile, err = readProfile(file, a.Profile); err != nil {
			return err
		}
	}
	if err := a.apply(profile, func(s *setting) string {
		return fmt.Sprintf("%s: %s.%s", file, a.Profile, s.name)
	}); err != nil {
		return err
	}
	environment := map[string]string{}
	for _, s := range settings() {
		if value := os.Getenv(s.variable()); value != "" { // other ZOOID_ variables may come from Kubernetes or a program
			environment[s.name] = value
		}
	}
	return a.apply(environment, (*setting).variable)
}

// apply sets the settings of one source that no earlier source has set. place returns a setting's name in that source,
// for errors.
func (a *Access) apply(values map[string]string, place func(*setting) string) error {
	if len(values) == 0 {
		return nil
	}
	var open []setting // collected before any is set, since one source may set a whole group
	for _, s := range settings() {
		if _, ok := values[s.name]; ok && !s.given(a) {
			open = append(open, s)
		}
	}
	for _, s := range open {
		if err := s.set(a, values[s.name]); err != nil {
			return fmt.Errorf("%s: %w", place(&s), err)
		}
	}
	// As on the command line, any file for TLS turns TLS on.
	if slices.ContainsFunc(open, func(s setting) bool { return strings.HasPrefix(s.name, "tls.") }) && !a.plain {
		a.Secure = true
	}
	return nil
}

// profilesFile returns the name of the file with the profiles.
func profilesFile() (string, error) {
	if file := os.Getenv("ZOOID_CONFIG"); file != "" {
		return file, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the file of profiles: %w; ZOOID_CONFIG names it", err)
	}
	return filepath.Join(home, ".config", "zooid", "profiles"), nil
}

// profileName matches valid profile names. A name has no dot, since a dot ends it in a key.
var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// SetProfile sets the profile to use.
func (a *Access) SetProfile(name string) error {
	if !profileName.MatchString(name) {
		return fmt.Errorf("%.80q isn't a profile's name, which consists of letters, digits, '_' and '-'", name)
	}
	if a.Profile != "" && a.Profile != name {
		return fmt.Errorf("there are two profiles, %s and %s", a.Profile, name)
	}
	a.Profile = name
	return nil
}

// readProfile reads one profile of a file, which may have several. An error in any line is an error, since the line may
// have been meant to secure a connection.
func readProfile(file, name string) (map[string]string, error) {
	text, mode, err := readPrivate(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the profile %s: %w; ZOOID_CONFIG names another file", name, err)
	} else if err != nil {
		return nil, err
	}
	lines, err := config.PropertyLines(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	known := settings()
	profiles, seen := map[string]map[string]string{}, map[string]int{}
	for _, l := range lines {
		profile, key, _ := strings.Cut(l.Key, ".")
		i := slices.IndexFunc(known, func(s setting) bool { return s.name == key })
		switch {
		case i < 0 || !profileName.MatchString(profile):
			return nil, fmt.Errorf("%s, line %d: there is no key %.80q; keys are PROFILE.%s", file, l.Line, l.Key,
				settingNames())
		case seen[l.Key] > 0:
			return nil, fmt.Errorf("%s, line %d: %s is in line %d already", file, l.Line, l.Key, seen[l.Key])
		case l.Value == "":
			return nil, fmt.Errorf("%s, line %d: %s has no value", file, l.Line, l.Key)
		case known[i].secret && mode&0o077 != 0 && !strings.HasPrefix(l.Value, tokenFile):
			return nil, fmt.Errorf("%s, line %d: %s may hold a password, and others may read the file (mode %04o): run chmod 600, or name a file with it (%s-file)",
				file, l.Line, l.Key, mode, key)
		}
		seen[l.Key] = l.Line
		if profiles[profile] == nil {
			profiles[profile] = map[string]string{}
		}
		if known[i].path {
			l.Value = pathIn(filepath.Dir(file), l.Value)
		} else if token, ok := strings.CutPrefix(l.Value, tokenFile); ok {
			l.Value = tokenFile + pathIn(filepath.Dir(file), token)
		}
		profiles[profile][key] = l.Value
	}
	if profiles[name] == nil {
		return nil, fmt.Errorf("%s has no profile %s; it has %s", file, name, listed(slices.Sorted(maps.Keys(profiles))))
	}
	return profiles[name], nil
}

// tokenFile is the prefix of an identity whose token is in a file (see Credentials).
const tokenFile = "bearer:@"

// readPrivate reads a small file and returns its permission bits.
func readPrivate(file string) (text []byte, mode os.FileMode, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if mode = st.Mode().Perm(); runtime.GOOS == "windows" {
		mode = 0 // Windows has its permissions elsewhere
	}
	text, err = config.ReadAll(f, smallFileMax)
	return text, mode, err
}

// pathIn resolves a path in a settings file, which may be absolute, relative to the user's home (~/), or relative to
// dir.
func pathIn(dir, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func settingNames() string {
	var names []string
	for _, s := range settings() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", .")
}

// listed joins names for an error. It shortens a long list.
func listed(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}
