// Package compat tests Zooid against real clients and a real Apache ZooKeeper.
//
// Each test runs the same thing twice, once against Apache (the reference) and once against Zooid (the subject), and
// compares the results: test by test for the clients' own suites, and by the output for scripts. install.sh downloads
// what is needed; README.md says what is run and how to run one.
package compat

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// The server programs that can be started, by the names used in the environment.
const (
	Apache39 = "apache-3.9" // the newest 3.9, from the Java registry
	Apache38 = "apache-3.8" // Debian's
	Zooid    = "zooid"      // this checkout's
)

// apache39Version is the version reported to client suites and expected of Zooid. Keep it as in pom.xml.
const apache39Version = "3.9.5"

// jvmOptions keep a short-lived server small and quick to start: a run starts hundreds.
var jvmOptions = []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

// quorumMain is the class that runs an Apache server, alone or in an ensemble.
const quorumMain = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// Program is an installed server program.
type Program struct {
	Name      string // one of the constants above
	Version   string // the ZooKeeper version that it must behave like
	zooid     string // Zooid's executable; empty for Apache
	java      string
	classPath string
	wrap      []string // a program and its arguments that start Zooid, put before Zooid's command line
}

// Find returns the program with a name. It builds Zooid if that is the program, unless ZOOID_COMPAT_BINARY names an
// executable to use instead. It fails the test if something isn't installed, and says how to install it.
func Find(t testing.TB, name string) Program {
	t.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		t.Fatalf("looking for java: %v; run test/compat/install.sh", err)
	}
	// Zooid too gets the class path of Apache 3.9, which contains the Java shell.
	p := Program{Name: name, Version: apache39Version, java: java, classPath: filepath.Join(cacheFolder(t), Apache39, "*")}
	switch name {
	case Apache39:
		needFile(t, filepath.Join(filepath.Dir(p.classPath), "stamp"))
	case Apache38:
		p.Version, p.classPath = "3.8.0", "/usr/share/java/zookeeper.jar"
		needFile(t, p.classPath)
	case Zooid:
		p.zooid = zooidExecutable(t)
	default:
		t.Fatalf("server program %q: want %s, %s or %s", name, Apache39, Apache38, Zooid)
	}
	return p
}

// command returns the command line that runs a server in the foreground.
func (p Program) command(config string, properties map[string]string) []string {
	if p.zooid != "" {
		argv := slices.Concat(p.wrap, []string{p.zooid, "server", config})
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			argv = append(argv, "-D", name+"="+properties[name])
		}
		return argv
	}
	argv := slices.Concat([]string{p.java}, jvmOptions, []string{"-cp", p.classPath})
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		argv = append(argv, "-D"+name+"="+properties[name])
	}
	return append(argv, quorumMain, config)
}

// standInEnv returns the environment in which a client's suite starts p when it calls "java" or zkServer.sh. The
// output of the servers goes to files in logs.
func (p Program) standInEnv(t testing.TB, logs string) []string {
	t.Helper()
	return []string{
		"PATH=" + standInFolder(t) + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"COMPAT_ZOOID=" + p.zooid,
		"COMPAT_JAVA=" + p.java,
		"COMPAT_LOGS=" + logs,
		"CLASSPATH=" + p.classPath,
	}
}

// standInFolder returns the folder with the java and zkServer.sh that client suites will find.
func standInFolder(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs("standin")
	if err != nil {
		t.Fatalf("locating the stand-ins for java and zkServer.sh: %v", err)
	}
	return folder
}

func cacheFolder(t testing.TB) string {
	t.Helper()
	if folder := os.Getenv("ZOOID_COMPAT_CACHE"); folder != "" {
		return folder
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("locating the installed clients: %v; set ZOOID_COMPAT_CACHE as for install.sh", err)
	}
	return filepath.Join(folder, "zooid-compat")
}

func needFile(t testing.TB, file string) {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("locating installed software: %v; run test/compat/install.sh", err)
	}
}

// Main runs the tests of a package that calls Find, and removes what they have built. TestMain calls it.
func Main(m *testing.M) {
	code := m.Run()
	if built.folder != "" {
		os.RemoveAll(built.folder)
	}
	os.Exit(code)
}

// built is this checkout's Zooid, built once for all tests of a process.
var built struct {
	once   sync.Once
	folder string
	err    error
}

// zooidExecutable builds Zooid from the checkout that contains this package.
func zooidExecutable(t testing.TB) string {
	t.Helper()
	if file := os.Getenv("ZOOID_COMPAT_BINARY"); file != "" {
		needFile(t, file)
		return file
	}
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "zooid-compat-built-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", built.folder, "github.com/zooid-project/zooid/cmd/zooid")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("building cmd/zooid: %v", built.err)
	}
	return filepath.Join(built.folder, "zooid")
}
