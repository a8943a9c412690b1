package setup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// An ImageServer is a server as described by the environment of a container, in the variables of Apache's official
// image or of Bitnami's.
type ImageServer struct {
	Image   string   // whose variables they are: "the official image" or "Bitnami's image"; "" if there are none
	DataDir string   // where the data and myid are
	Config  string   // the text of zoo.cfg
	ID      string   // of myid, where there is none yet
	Flags   []string // -D options for the server
	Notes   []string // variables without effect, a sentence each
}

// The directories of the two images.
const (
	officialData = "/data"
	bitnamiData  = "/bitnami/zookeeper/data"
)

// official are the keys that the official image's variables give, with that image's defaults.
var official = []variable{
	{"ZOO_TICK_TIME", "tickTime", "2000", asIs},
	{"ZOO_INIT_LIMIT", "initLimit", "5", asIs},
	{"ZOO_SYNC_LIMIT", "syncLimit", "2", asIs},
	{"ZOO_AUTOPURGE_PURGEINTERVAL", "autopurge.purgeInterval", "", asIs}, // theirs is 0: the disk fills up
	{"ZOO_AUTOPURGE_SNAPRETAINCOUNT", "autopurge.snapRetainCount", "3", asIs},
	{"ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns", "60", asIs},
	{"ZOO_STANDALONE_ENABLED", "standaloneEnabled", "true", asIs},
	{"ZOO_ADMINSERVER_ENABLED", "admin.enableServer", "true", asIs},
	{"ZOO_DATA_LOG_DIR", "dataLogDir", "", asIs}, // the image has /datalog, which may not outlive the container
	{"ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist", "", asIs},
}

// bitnami are those of Bitnami's image.
var bitnami = []variable{
	{"ZOO_TICK_TIME", "tickTime", "2000", asIs},
	{"ZOO_INIT_LIMIT", "initLimit", "10", asIs},
	{"ZOO_SYNC_LIMIT", "syncLimit", "5", asIs},
	{"ZOO_PRE_ALLOC_SIZE", "preAllocSize", "", asIs},
	{"ZOO_SNAPCOUNT", "snapCount", "100000", asIs},
	{"ZOO_DATA_LOG_DIR", "dataLogDir", "", asIs},
	{"ZOO_MAX_CNXNS", "maxCnxns", "0", asIs},
	{"ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns", "60", asIs},
	{"ZOO_RECONFIG_ENABLED", "reconfigEnabled", "no", yes},
	{"ZOO_LISTEN_ALLIPS_ENABLED", "quorumListenOnAllIPs", "no", yes},
	{"ZOO_AUTOPURGE_INTERVAL", "autopurge.purgeInterval", "", asIs},
	{"ZOO_AUTOPURGE_RETAIN_COUNT", "autopurge.snapRetainCount", "3", asIs},
	{"ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist", "srvr, mntr", asIs},
	{"ZOO_MAX_SESSION_TIMEOUT", "maxSessionTimeout", "40000", asIs},
	{"ZOO_ENABLE_ADMIN_SERVER", "admin.enableServer", "no", yes},
	{"ZOO_ADMIN_SERVER_ADDRESS", "admin.serverAddress", "127.0.0.1", asIs},
	{"ZOO_ADMIN_SERVER_PORT_NUMBER", "admin.serverPort", "8080", asIs},
	{"ZOO_PEER_TYPE", "peerType", "", asIs},
}

// bitnamiOnly are variables that tell Bitnami's image from the official one.
var bitnamiOnly = []string{
	"ZOO_SERVER_ID", "ZOO_PORT_NUMBER", "ZOO_ENABLE_ADMIN_SERVER", "ZOO_ADMIN_SERVER_ADDRESS",
	"ZOO_ADMIN_SERVER_PORT_NUMBER", "ZOO_PEER_TYPE", "ZOO_MAX_CNXNS", "ZOO_AUTOPURGE_INTERVAL",
	"ZOO_AUTOPURGE_RETAIN_COUNT", "ZOO_RECONFIG_ENABLED",
	"ZOO_LISTEN_ALLIPS_ENABLED", "ZOO_ENABLE_PROMETHEUS_METRICS", "ZOO_PROMETHEUS_METRICS_PORT_NUMBER",
	"ZOO_MAX_SESSION_TIMEOUT", "ZOO_PRE_ALLOC_SIZE", "ZOO_SNAPCOUNT", "ZOO_HC_TIMEOUT", "ZOO_FIPS_MODE", "ZOO_HEAP_SIZE",
	"ZOO_ENABLE_AUTH", "ALLOW_EMPTY_PASSWORD", "ALLOW_ANONYMOUS_LOGIN", "ZOO_CLIENT_USER", "ZOO_SERVER_USERS",
	"ZOO_CLIENT_PASSWORD", "ZOO_SERVER_PASSWORDS", "ZOO_ENABLE_QUORUM_AUTH", "ZOO_QUORUM_LEARNER_USER",
	"ZOO_QUORUM_LEARNER_PASSWORD", "ZOO_QUORUM_SERVER_USERS", "ZOO_QUORUM_SERVER_PASSWORDS", "ZOO_LOG_LEVEL",
}

// officialOnly are variables that tell the official image from Bitnami's.
var officialOnly = []string{
	"ZOO_MY_ID", "ZOO_CFG_EXTRA", "ZOO_STANDALONE_ENABLED", "ZOO_ADMINSERVER_ENABLED", "ZOO_AUTOPURGE_PURGEINTERVAL",
	"ZOO_AUTOPURGE_SNAPRETAINCOUNT", "ZOO_DATA_DIR", "ZOO_CONF_DIR",
}

// withoutEffect are variables of either image that Zooid doesn't need.
var withoutEffect = []string{
	"ZOO_LOG_DIR", "ZOO_LOG4J_PROP", "ZOO_HC_TIMEOUT", "ZOO_FIPS_MODE", "ZOO_HEAP_SIZE", "ZK_SERVER_HEAP",
	"ZK_CLIENT_HEAP",
	"CLIENT_JVMFLAGS", "ZOO_CLIENT_USER", "ZOO_CLIENT_PASSWORD", "ZOO_LOG_LEVEL",
}

// A variable gives the value of a key.
type variable struct {
	name, key string
	byDefault string // "" for leaving the key out
	form      func(string) string
}

func asIs(v string) string { return v }

// firstOf returns the first of the names that is set, directly or with the suffix _FILE; "" if none is.
func firstOf(names []string, env map[string]string) string {
	for _, name := range names {
		if env[name] != "" || env[name+"_FILE"] != "" {
			return name
		}
	}
	return ""
}

// yes reports whether Bitnami's scripts treat v as true.
func yes(v string) string {
	return strconv.FormatBool(slices.Contains([]string{"yes", "true", "1"}, strings.ToLower(v)))
}

// FromImage reads the environment of a container as the images of ZooKeeper do, and returns the command that they would
// run. It reads files only by read, which returns the content of a file that a variable names. The error names the
// variable and what to do: settings that an operator relies on are never silently omitted.
func FromImage(env map[string]string, read func(file string) (string, error)) (*ImageServer, error) {
	env = maps.Clone(env)
	theirs, other := firstOf(officialOnly, env), firstOf(bitnamiOnly, env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.HasPrefix(name, "ZOO_TLS_") || strings.HasPrefix(name, "ZOO_CFG_") && name != "ZOO_CFG_EXTRA" {
			other = name
		}
	}
	if theirs != "" && other != "" {
		return nil, fmt.Errorf("%s is a variable of the official image and %s one of Bitnami's; remove one of them", theirs,
			other)
	}
	for name, value := range env {
		if list := name == "ZOO_SERVERS" || name == "ZOO_CFG_EXTRA"; !list && strings.HasPrefix(name, "ZOO_") &&
			strings.ContainsAny(value, "\n\r\x00") {
			return nil, fmt.Errorf("%s has more than one line; write one", name)
		}
	}
	s := &ImageServer{}
	var err error
	if other != "" {
		err = s.asBitnami(env, read)
	} else {
		err = s.asOfficial(env)
	}
	if err != nil {
		return nil, err
	}
	s.flags(env)
	for _, name := range withoutEffect {
		if env[name] != "" {
			s.Notes = append(s.Notes, name+" has no effect here")
		}
	}
	return s, nil
}

// asOfficial interprets the environment as the official image does.
func (s *ImageServer) asOfficial(env map[string]string) error {
	known := append([]string{"ZOO_SERVERS"}, officialOnly...) // others may be about a Kubernetes service named zoo
	for _, v := range official {
		known = append(known, v.name)
	}
	if firstOf(known, env) != "" {
		s.Image = "the official image"
	}
	s.DataDir, s.ID = cmp.Or(env["ZOO_DATA_DIR"], officialData), cmp.Or(env["ZOO_MY_ID"], "1")
	var lines []string
	lines = append(lines, "dataDir="+s.DataDir)
	lines = append(lines, keysOf(official, env)...)
	servers := strings.Fields(cmp.Or(env["ZOO_SERVERS"], "server.1=localhost:2888:3888;2181"))
	for _, server := range servers {
		if !strings.HasPrefix(server, "server.") || !strings.Contains(server, "=") {
			return fmt.Errorf("ZOO_SERVERS: %.60q isn't a server; write server.N=host:2888:3888;2181, with blanks between servers",
				server)
		}
	}
	lines = append(lines, servers...)
	lines = append(lines, strings.Fields(env["ZOO_CFG_EXTRA"])...)
	s.Config = strings.Join(lines, "\n") + "\n"
	return nil
}

// asBitnami interprets the environment as Bitnami's image does.
func (s *ImageServer) asBitnami(env map[string]string, read func(string) (string, error)) error {
	s.Image = "Bitnami's image"
	for name, file := range env {
		of, isFile := strings.CutSuffix(name, "_FILE")
		password := strings.HasPrefix(of, "ZOO_TLS_") && strings.HasSuffix(of, "_PASSWORD")
		if !isFile || file == "" || !slices.Contains(bitnamiOnly, of) && of != "ZOO_SERVERS" && !password {
			continue // the remaining variables with _FILE are names of stores
		}
		text, err := read(file)
		if err != nil {
			return fmt.Errorf("read the file that %s names: %w", name, err)
		}
		env[of] = strings.TrimRight(text, "\r\n")
	}
	for _, name := range []string{"ZOO_ENABLE_AUTH", "ZOO_ENABLE_QUORUM_AUTH"} {
		if yes(env[name]) == "true" {
			return fmt.Errorf("%s=%s: users are not made from variables here; mount a zoo.cfg at /conf/zoo.cfg with java.security.auth.login.config given by JVMFLAGS (clients), or with quorum.secretFile or sslQuorum (servers), and remove the variable",
				name, env[name])
		}
	}
	if env["ALLOW_EMPTY_PASSWORD"] == "" && env["ALLOW_ANONYMOUS_LOGIN"] == "" {
		return fmt.Errorf("clients could connect without logging in, which ALLOW_ANONYMOUS_LOGIN=yes must permit; set it, or mount a zoo.cfg at /conf/zoo.cfg")
	}
	port := cmp.Or(env["ZOO_PORT_NUMBER"], "2181")
	s.DataDir, s.ID = bitnamiData, cmp.Or(env["ZOO_SERVER_ID"], "1")
	lines := append([]string{"dataDir=" + s.DataDir, "electionPortBindRetry=0"}, keysOf(bitnami, env)...)
	if yes(env["ZOO_ENABLE_PROMETHEUS_METRICS"]) == "true" {
		lines = append(lines, "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
			"metricsProvider.httpPort="+cmp.Or(env["ZOO_PROMETHEUS_METRICS_PORT_NUMBER"], "7000"))
	}
	secure := yes(env["ZOO_TLS_CLIENT_ENABLE"]) == "true"
	if secure {
		lines = append(lines, "secureClientPort="+cmp.Or(env["ZOO_TLS_PORT_NUMBER"], "3181"))
		lines = append(lines, stores(env, "ZOO_TLS_CLIENT_", "ssl.")...)
	}
	if yes(env["ZOO_TLS_QUORUM_ENABLE"]) == "true" {
		lines = append(append(lines, "sslQuorum=true"), stores(env, "ZOO_TLS_QUORUM_", "ssl.quorum.")...)
	}
	servers, err := bitnamiServers(env["ZOO_SERVERS"], port)
	if err != nil {
		return err
	}
	if len(servers) < 2 && !secure { // a single server counts as none, and TLS replaces the port
		lines = append(lines, "clientPort="+port)
	}
	if len(servers) > 1 {
		lines = append(lines, servers...)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if key, ok := strings.CutPrefix(name, "ZOO_CFG_"); ok && key != "EXTRA" {
			lines = append(lines, strings.ReplaceAll(key, "_", ".")+"="+env[name])
		}
	}
	s.Config = strings.Join(lines, "\n") + "\n"
	return nil
}

// bitnamiServers returns the server lines of host:2888:3888, with :: and the id after it or numbered from 1.
func bitnamiServers(text, port string) (lines []string, err error) {
	all := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(";, \t\n", r) })
	for i, server := range all {
		host, id, named := strings.Cut(server, "::")
		if !named {
			id = strconv.Itoa(i + 1)
		}
		if named != strings.Contains(text, "::") || strings.Count(host, ":") < 2 || id == "" {
			return nil, fmt.Errorf("ZOO_SERVERS: %.60q isn't a server; write host:2888:3888 for all, or host:2888:3888::ID for all",
				server)
		}
		lines = append(lines, "server."+id+"="+host+";"+port)
	}
	return lines, nil
}

// stores returns the keys of key and trust stores.
func stores(env map[string]string, prefix, keys string) (lines []string) {
	lines = append(lines, keys+"clientAuth="+cmp.Or(env[prefix+"AUTH"], env[prefix+"CLIENT_AUTH"], "need"))
	for _, store := range []struct{ variable, key string }{{"KEYSTORE", "keyStore"}, {"TRUSTSTORE", "trustStore"}} {
		for _, part := range []struct{ variable, key string }{
			{"_FILE", ".location"}, {"_TYPE", ".type"}, {"_PASSWORD", ".password"},
		} {
			if v := env[prefix+store.variable+part.variable]; v != "" {
				lines = append(lines, keys+store.key+part.key+"="+escaped(v))
			}
		}
	}
	return lines
}

// escaped returns a value in the form in which a properties file yields it unchanged.
func escaped(v string) string { return strings.ReplaceAll(v, `\`, `\\`) }

func keysOf(all []variable, env map[string]string) (lines []string) {
	for _, v := range all {
		if value := cmp.Or(env[v.name], v.byDefault); value != "" {
			lines = append(lines, v.key+"="+v.form(value))
		}
	}
	return lines
}

// flags takes the properties of JVMFLAGS and SERVER_JVMFLAGS, in the order in which zkServer.sh passes them on.
func (s *ImageServer) flags(env map[string]string) {
	other := false
	for _, flag := range strings.Fields(env["SERVER_JVMFLAGS"] + " " + env["JVMFLAGS"]) {
		if strings.HasPrefix(flag, "-D") && len(flag) > len("-D") {
			s.Flags = append(s.Flags, flag)
		} else {
			other = true
		}
	}
	if other {
		s.Notes = append(s.Notes, "only the -D properties of JVMFLAGS and SERVER_JVMFLAGS take effect; the rest is for a Java virtual machine")
	}
}

// EnvironmentFile adds to env the variables that a file such as java.env or zookeeper-env.sh sets: lines of NAME=value,
// with or without export. Apache's scripts run the file in a shell; here a line that needs a shell is an error.
func EnvironmentFile(text string, env map[string]string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t$`\"'(){};") {
			return fmt.Errorf("line %d needs a shell, and there is none; write NAME=value, or set the container's variable", n)
		}
		switch quoted := len(value) > 1 && value[0] == value[len(value)-1]; {
		case quoted && value[0] == '\'':
			value = value[1 : len(value)-1]
			if strings.Contains(value, "'") {
				return fmt.Errorf("line %d needs a shell, and there is none; write NAME=value", n)
			}
			env[name] = value
			continue
		case quoted && value[0] == '"':
			value = value[1 : len(value)-1]
		case strings.ContainsAny(value, " \t;&|<>()#*?'"):
			return fmt.Errorf("line %d needs a shell, and there is none; write NAME=\"value\"", n)
		}
		for _, self := range []string{"${" + name + "}", "$" + name + " ", "$" + name} {
			rest, ok := strings.CutPrefix(value, self)
			if ok && (rest == "" || !isName(rest[0]) || strings.HasSuffix(self, "}")) {
				value = strings.TrimSpace(env[name] + " " + rest)
				break
			}
		}
		if strings.ContainsAny(value, "$`\"\\") {
			return fmt.Errorf("line %d needs a shell, and there is none; write what it results in", n)
		}
		env[name] = value
	}
	return nil
}

func isName(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
