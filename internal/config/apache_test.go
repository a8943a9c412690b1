package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// apacheValues is what Apache's server makes of values, as recorded by test/compat/keys: whether it starts with a line
// of zoo.cfg, or a -D, and for some keys the value that it works with.
const apacheValues = "testdata/apache_values.txt"

// A judgment is one line of apacheValues.
type judgment struct {
	key, value string // of the line; key begins with -D for a property
	outcome    string // starts, refuses, or hangs: it never serves, which is told from refuses by waiting only
	effective  string // the field's value, as Java prints it; "" if none was recorded
	per        int64  // how many of the field's units one of the key's has
}

func readJudgments(t *testing.T) (all []judgment) {
	t.Helper()
	text, err := os.ReadFile(apacheValues)
	if err != nil {
		t.Fatal(err)
	}
	per := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "# ") {
			continue
		}
		if words := strings.Fields(line); len(words) == 4 && words[0] == "field" {
			if per[words[1]], err = strconv.ParseInt(words[3], 10, 64); err != nil {
				t.Fatal(err)
			}
			continue
		}
		part := strings.Split(line, "\t")
		if len(part) < 3 {
			t.Fatalf("a line of %d parts: %q", len(part), line)
		}
		j := judgment{key: part[0], value: part[1], outcome: part[2], per: per[strings.TrimPrefix(part[0], "-D")]}
		if len(part) > 3 {
			j.effective = part[3]
		}
		all = append(all, j)
	}
	return all
}

// apart are the values with which Zooid does otherwise than Apache on purpose, by key.
var apart = map[string]struct{ values, why string }{
	"autopurge.purgeInterval": {"1h", "units are Zooid's own"},
	"db.autocreate":           {"false no yes abc -", "an empty server waits for others, also where it is alone"},
	"datadir.autocreate":      {"false no yes abc -", "a missing directory is told when the server opens it"},
	"-Djute.maxbuffer":        {"7 0x10 010", "Apache's server starts, and can't read any client's requests"},
	"-Dznode.container.maxPerMinute": {
		"0 -1", "Apache never deletes a container (0), or never pauses (-1)",
	},
	"-Dznode.container.maxNeverUsedIntervalMs": {
		"-1 1.5 abc -", "Apache deletes a container before its creator can use it (-1); the default is another one",
	},
	"nio.sessionlessCnxnTimeout":       {"-1", "connections without a session would stay, or end at random"},
	"initLimit":                        {"-1", "no ensemble of several servers works with it"},
	"syncLimit":                        {"-1", "no ensemble of several servers works with it"},
	"snapSizeLimitInKb":                {"0", "Apache takes snapshots without end; here 0 is no limit"},
	"forceSync":                        {"no", "a write that isn't on disk is never acknowledged"},
	"controllerPort":                   {"0 -1 7", "it is for tests"},
	"testingonly.initialZxid":          {"0 7", "it is for tests"},
	"requireKerberosConfig":            {"true TRUE", "there is no Kerberos configuration but a keytab"},
	"test.allowDiscontinuousProposals": {"true TRUE", "it is for tests, and can damage data"},
	"multiAddress.enabled":             {"yes no abc -", "it is read as false; several addresses are an error then"},
	"metricsProvider.className": {
		"org.apache.zookeeper.metrics.impl.defaultmetricsprovider", "the class's name in any case is that class",
	},
}

func (j judgment) apart() bool {
	a, ok := apart[j.key]
	value := j.value
	if value == "" {
		value = "-"
	}
	return ok && slices.Contains(strings.Fields(a.values), value)
}

// TestApacheReadings compares what becomes of values, mostly nasty ones, with what Apache's server made of them: it
// starts with the same values and the same effect, and says so where the value is not what it seems.
func TestApacheReadings(t *testing.T) {
	t.Parallel()
	judgments := readJudgments(t)
	if len(judgments) < 300 {
		t.Fatalf("only %d values are recorded", len(judgments))
	}
	used := map[string]bool{}
	keys := table()
	for _, j := range judgments {
		k, ok := keys[strings.TrimPrefix(j.key, "-D")]
		if !ok {
			t.Errorf("%s has no row", j.key)
			continue
		}
		c, err := loadValue(t, j)
		at := fmt.Sprintf("%s=%q, with which Apache %s", j.key, j.value, j.outcome)
		switch starts := j.outcome == "starts"; {
		case j.apart():
			used[j.key] = true
			if (err == nil) == starts && effectOf(k, c, j) == j.effective {
				t.Errorf("%s: no difference any more; take it out of apart", at)
			}
			continue
		case err != nil && starts:
			t.Errorf("%s: %v", at, err)
			continue
		case err == nil && !starts && k.unused == "":
			t.Errorf("%s: it is taken", at)
			continue
		case err != nil:
			continue
		}
		if got := effectOf(k, c, j); got != j.effective {
			t.Errorf("%s: its effect is %s, at Apache %s", at, got, j.effective)
		}
		if !k.plain(j.value) && !slices.ContainsFunc(c.Warnings, func(w Warning) bool { return w.Key == k.name }) {
			t.Errorf("%s: no warning says how it is read", at)
		}
	}
	for key, a := range apart {
		if !used[key] {
			t.Errorf("%s: no recorded value of it is apart (%s)", key, a.why)
		}
	}
}

// TestEveryKeyOfApacheIsJudged: the recording has each key of Apache's that a single line can be asked about.
func TestEveryKeyOfApacheIsJudged(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("testdata/apache_keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]int{}
	for _, j := range readJudgments(t) {
		judged[strings.TrimPrefix(j.key, "-D")]++
	}
	// These name ports, files and directories, which the recording's own configuration needs.
	for _, name := range []string{
		"clientPort", "clientPortAddress", "secureClientPort", "secureClientPortAddress", "observerMasterPort", "dataDir",
		"dataLogDir", "dynamicConfigFile", "metricsProvider.*",
	} {
		judged[name]++
	}
	for name := range maps.Keys(families) {
		judged[name]++
	}
	for _, name := range strings.Fields(string(list)) {
		if judged[name] == 0 {
			t.Errorf("%s: no value of it is recorded", name)
		}
	}
}

// loadValue reads the configuration with which the recording was made.
func loadValue(t *testing.T, j judgment) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	lines := map[string]string{
		"tickTime": "200", "initLimit": "10", "syncLimit": "5", "dataDir": dir, "standaloneEnabled": "false",
		"admin.enableServer": "false", "4lw.commands.whitelist": "srvr", "server.1": "127.0.0.1:2881:3881;127.0.0.1:2181",
	}
	var defs []string
	if strings.HasPrefix(j.key, "-D") {
		defs = append(defs, j.key+"="+j.value)
	} else {
		lines[j.key] = j.value
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&text, "%s=%s\n", name, lines[name])
	}
	for name, content := range map[string]string{"zoo.cfg": text.String(), "myid": "1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(filepath.Join(dir, "zoo.cfg"), defs)
}

// effectOf returns a key's value in the unit of the field that was recorded, "" if none was or there is no value.
func effectOf(k key, c *Config, j judgment) string {
	if j.effective == "" || c == nil || k.field == nil {
		return j.effective
	}
	n := int64(0)
	switch v := k.field(c).(type) {
	case *bool:
		return strconv.FormatBool(*v)
	case *int:
		n = int64(*v)
	case *int64:
		n = *v
	case *time.Duration:
		n = v.Milliseconds()
	}
	if theirs, err := strconv.ParseInt(j.effective, 10, 64); err == nil && theirs <= 0 && n <= 0 && k.orLess {
		return j.effective // any number below the least is the same, for either
	}
	return strconv.FormatInt(n*j.per, 10)
}

var number = regexp.MustCompile(`^-?[0-9]+$`)

// plain reports whether a value means what anybody would think.
func (k key) plain(value string) bool {
	switch k.kind {
	case boolean:
		return strings.EqualFold(value, "true") || strings.EqualFold(value, "false")
	case yesNo:
		return value == "yes" || value == "no"
	case integer, long, javaInt, millis, seconds:
		n, err := strconv.ParseInt(value, 0, 64)
		return err == nil && (n <= int32Max || k.kind == long || k.high > int32Max)
	case interval, decimal:
		return number.MatchString(value)
	}
	return true
}

// TestKeysOfAPartThatIsOff: what is wrong with them is an error only where something reads them.
func TestKeysOfAPartThatIsOff(t *testing.T) {
	t.Parallel()
	for line, on := range map[string]string{
		"ssl.clientAuth=false":               "secureClientPort=2281",
		"ssl.keyStore.type=abc":              "client.portUnification=true",
		"ssl.authProvider=mine":              "server.2=h2:2888:3888;;2281",
		"ssl.quorum.clientAuth=false":        "sslQuorum=true",
		"ssl.quorum.protocol=abc":            "portUnification=true",
		"metricsProvider.httpPort=abc":       "metricsProvider.className=" + PrometheusProvider,
		"admin.idleTimeout=0":                "admin.enableServer=true",
		"audit.impl.class=com.example.Audit": "audit.enable=true",
		"ssl.context.supplier.class=C":       "secureClientPort=2281",
	} {
		key, _, _ := strings.Cut(line, "=")
		read := func(lines string) (*Config, error) {
			props, bad := parseProperties([]byte("dataDir=" + t.TempDir() + "\nclientPort=2181\n" + line + "\n" + lines))
			if bad != nil {
				t.Fatal(bad)
			}
			return newLoader("").run(props, nil)
		}
		c, err := read("")
		told := func(w Warning) bool { return w.Code == "ZD-1021" && w.Key == key }
		if err != nil || !slices.ContainsFunc(c.Warnings, told) {
			t.Errorf("%s: %v, or no warning", line, err)
		}
		if _, err := read(on); err == nil || !strings.Contains(err.Error(), key+"=") {
			t.Errorf("%s with %s: %v", line, on, err)
		}
	}
}
