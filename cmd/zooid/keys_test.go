package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestHonouredKeysReachTheServer sets each key of internal/config/testdata/honoured.txt to another value than its
// default, and fails if the server is told the same with it and without.
func TestHonouredKeysReachTheServer(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile(filepath.Join("..", "..", "internal", "config", "testdata", "honoured.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(table)) {
		given, _, _ := strings.Cut(line, " | ")
		key, with, _ := strings.Cut(given, " with ")
		if strings.HasPrefix(line, "#") || strings.HasSuffix(key, "=-") {
			continue
		}
		tried++
		t.Run(strings.TrimPrefix(key, "-D"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if before, after := told(t, dir, strings.Fields(with)...), told(t, dir,
				append(strings.Fields(with), key)...); before == after {
				t.Errorf("%s changes nothing that the server is told", key)
			}
		})
	}
	if tried < 80 {
		t.Errorf("only %d keys were tried", tried)
	}
}

// keytabText returns a keytab with the key of a server.
func keytabText(t *testing.T) string {
	t.Helper()
	keys := keytab.New()
	if err := keys.AddEntry("zookeeper/localhost", "HOME", "password", time.Unix(0, 0), 1,
		etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	text, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// told returns everything that a server with these settings, beside those of an ensemble with TLS, is told.
func told(t *testing.T, dir string, settings ...string) string {
	t.Helper()
	stores := filepath.Join("..", "..", "internal", "keystore", "testdata")
	lines := []string{"dataDir=" + dir, "dataLogDir=" + dir + "/log",
		"clientPort=2181", "secureClientPort=2281", "initLimit=10", "syncLimit=5",
		"server.1=h1:1:2", "server.2=h2:1:2", "server.3=h3:1:2"}
	for _, prefix := range []string{"ssl.", "ssl.quorum."} {
		lines = append(lines, prefix+"keyStore.location="+filepath.Join(stores, "server.jks"),
			prefix+"keyStore.password=apassword",
			prefix+"trustStore.location="+filepath.Join(stores, "trust.jks"), prefix+"trustStore.password=apassword")
	}
	var defs []string
	for _, s := range settings {
		s = strings.ReplaceAll(s, "DIR", dir)
		if def, ok := strings.CutPrefix(s, "-D"); ok {
			defs = append(defs, def)
		} else {
			lines = append(lines, s)
		}
	}
	for name, text := range map[string]string{
		"myid": "1\n", "other/myid": "1\n", "zoo.cfg": strings.Join(lines, "\n"), "secret": "0123456789012345678901234567\n",
		"jaas":   "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_a=\"b\" user_super=\"c\"; };",
		"krb5":   "Server { Krb5LoginModule required useKeyTab=true keyTab=\"" + dir + "/keytab\" principal=\"zookeeper/localhost@HOME\"; };",
		"keytab": keytabText(t),
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "zoo.cfg"), defs)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	o, err := serverOptions(cfg, log)
	var b strings.Builder
	digest(&b, reflect.ValueOf(o), 0)
	digest(&b, reflect.ValueOf(auditOptions(&cfg.Audit, nil, log)), 0)
	digest(&b, reflect.ValueOf(portOptions(&cfg.TLS, "", log)), 0)
	if cfg.Quorum.TLS.Enabled {
		digest(&b, reflect.ValueOf(peerPortOptions(&cfg.Quorum.TLS, log)), 0)
	}
	digest(&b, reflect.ValueOf(cfg.Admin.Enabled), 0)
	admin, adminErr := adminOptions(cfg, nil, &o, log)
	digest(&b, reflect.ValueOf(admin), 0)
	digest(&b, reflect.ValueOf(adminPortOptions(cfg, log)), 0)
	fmt.Fprint(&b, adminErr)
	digest(&b, reflect.ValueOf(toldObservers(cfg)), 0)
	fmt.Fprint(&b, err, checkDirs(&cfg.Storage, true))
	return b.String()
}

// toldObservers returns what those that observe the server are told.
func toldObservers(cfg *config.Config) (all []any) {
	_, level := newLog(&cfg.Log, io.Discard)
	all = append(all, fmt.Sprintf("%T", logHandler(&cfg.Log, io.Discard, level)), level.Level().String())
	if cfg.Metrics.Provider == config.PrometheusProvider {
		all = append(all, exposeOptions(&cfg.Metrics), cfg.Metrics.Host, cfg.Metrics.Port, cfg.Metrics.SecurePort,
			metricsPortOptions(&cfg.Metrics, slog.New(slog.DiscardHandler)))
	}
	return all
}

// digest writes a value out; of functions, channels and what is opaque, only whether there is one.
func digest(b *strings.Builder, v reflect.Value, depth int) {
	if depth > 8 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*tls.Config]() || v.Type() == reflect.TypeFor[*slog.Logger]() {
			fmt.Fprint(b, v.IsNil(), ";")
			return
		}
		digest(b, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprint(b, v.Type().Field(i).Name, ":")
			digest(b, v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			digest(b, v.Index(i), depth+1)
		}
	case reflect.Map:
		var entries []string
		for it := v.MapRange(); it.Next(); {
			var e strings.Builder
			digest(&e, it.Key(), depth+1)
			digest(&e, it.Value(), depth+1)
			entries = append(entries, e.String())
		}
		sort.Strings(entries)
		fmt.Fprint(b, entries)
	case reflect.Func, reflect.Chan:
		fmt.Fprint(b, v.IsNil())
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprint(b, v)
	}
	b.WriteByte(';')
}

// TestSnapshotKeys: what the keys of snapshots and their purge mean at their ends.
func TestSnapshotKeys(t *testing.T) {
	t.Parallel()
	if n := snapBytes(&config.Storage{SnapSizeLimit: -1}); n != math.MaxInt64 {
		t.Errorf("without a limit, %d bytes of log force a snapshot", n)
	}
	if n := snapBytes(&config.Storage{SnapSizeLimit: 3}); n != 3<<10 {
		t.Errorf("a limit of 3 KiB is %d bytes", n)
	}
	if n := snapshotsKept(&config.Storage{SnapRetainCount: 4}); n != storage.KeepAll {
		t.Errorf("with autopurge.purgeInterval=0, %d snapshots are kept", n)
	}
	if n := snapshotsKept(&config.Storage{SnapRetainCount: 4, PurgeInterval: 1}); n != 4 {
		t.Errorf("with autopurge.snapRetainCount=4, %d snapshots are kept", n)
	}
}

// TestPeerListen: where a server listens for its peers.
func TestPeerListen(t *testing.T) {
	t.Parallel()
	one := []config.PeerAddr{{Host: "h1", QuorumPort: 5}}
	for _, c := range []struct {
		addrs []config.PeerAddr
		all   bool
		want  string
	}{
		{one, false, "h1:5"}, {one, true, ":5"}, {append(one, config.PeerAddr{Host: "h2", QuorumPort: 5}), false, ":5"},
		{append(one, config.PeerAddr{Host: "h2", QuorumPort: 6}), true, ""},
	} {
		got, err := peerListen(config.Member{ID: 1, Addrs: c.addrs}, c.all)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v, all %v: %q, %v; want %q", c.addrs, c.all, got, err, c.want)
		}
	}
}

// TestDirectories: in which directories a server doesn't begin with an empty tree.
func TestDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files      []string // of the data directory; none for no directory
		dirs, data bool     // datadir.autocreate, db.autocreate
		err        string
		left       string // a file that is there afterwards
	}{
		"new":                    {nil, true, true, "", ""},
		"no directory":           {nil, false, true, "datadir.autocreate=false", ""},
		"a directory":            {[]string{"myid"}, false, true, "", "myid"},
		"no data":                {[]string{"myid"}, true, false, "db.autocreate=false", "myid"},
		"no data, but permitted": {[]string{"myid", "initialize"}, true, false, "", "myid"},
		"data":                   {[]string{"IDENTITY", "initialize"}, true, false, "", "initialize"},
		"Apache's":               {[]string{"version-2/snapshot.5", "version-2/log.7"}, true, true, "1 snapshots, the newest at zxid 0x5; the newest log begins with zxid 0x7", "version-2/snapshot.5"},
		"Apache's log alone":     {[]string{"version-2/log.7"}, true, true, "without a snapshot", "version-2/log.7"},
		"a snapshot, compressed": {[]string{"version-2/snapshot.5.gz"}, true, true, "tree of an Apache", ""},
		"initialized, no tree":   {[]string{"version-2/", "myid"}, true, true, "", "version-2"},
		"epochs, no tree":        {[]string{"version-2/acceptedEpoch", "version-2/currentEpoch"}, true, true, "", ""},
		"Apache's before":        {[]string{"version-2/snapshot.0", "IDENTITY"}, true, true, "", ""},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		for _, file := range c.files {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "/") {
				if err := os.MkdirAll(filepath.Join(dir, file), 0o700); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := checkDirs(&config.Storage{DataDir: dir, DataLogDir: dir, CreateDir: c.dirs, CreateDB: c.data}, true)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if _, err := os.Stat(filepath.Join(dir, c.left)); c.left != "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.data || len(c.files) < 2 || c.files[0] == "IDENTITY" {
			continue
		}
		if only, err := joinsOnly(&config.Storage{DataDir: dir}); only || err != nil {
			t.Errorf("%s: it only joins: %v, %v", name, only, err)
		}
		if err := removeInitialize(&config.Storage{DataDir: dir}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if only, err := joinsOnly(&config.Storage{DataDir: dir}); !only || err != nil {
			t.Errorf("%s: it may found an ensemble twice: %v", name, err)
		}
		if err := checkDirs(&config.Storage{DataDir: dir, DataLogDir: dir, CreateDir: true}, true); err == nil {
			t.Errorf("%s: it is permitted twice", name)
		}
	}
}

// TestServerRefusesApachesDirectory: a server doesn't start in one, and says what to do.
func TestServerRefusesApachesDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "version-2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "version-2", "snapshot.0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run([]string{"server", "0", dir}, &out, &out); code != 1 ||
		!strings.Contains(out.String(), "version-2 contains the tree of an Apache") || !strings.Contains(out.String(),
		"zooid import "+dir+" "+dir) {
		t.Errorf("exit %d, %q", code, out.String())
	}
}
