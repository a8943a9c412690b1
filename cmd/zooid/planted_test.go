//go:build unix

package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/internal/access"
	"github.com/zooid-project/zooid/internal/scram"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk"
)

// logBuffer collects a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestPlantedSecrets: what is secret in a configuration or a login is neither in the log, at
// any level, nor in the answer to a four-letter word.
func TestPlantedSecrets(t *testing.T) {
	t.Parallel()
	dir, stores := t.TempDir(), filepath.Join("..", "..", "internal", "keystore", "testdata")
	verifier, err := scram.Verifier("ann", "planted-password", []byte("planted-salt"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	jaas := write("jaas", `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_super="planted-jaas" user_bob="planted-bob" user_ann="`+verifier+`"; };`)
	file := write("zoo.cfg", strings.Join([]string{
		"clientPort=0", "clientPortAddress=127.0.0.1", "dataDir=" + dir + "/data", "4lw.commands.whitelist=*", "admin.enableServer=false",
		"client.portUnification=true", "ssl.keyStore.location=" + filepath.Join(stores, "server.jks"), "ssl.keyStore.password=apassword", "ssl.clientAuth=none",
		"DigestAuthenticationProvider.superDigest=super:planted-digest", "SASLAuthenticationProvider.superPassword=planted-super",
		"quorum.secret=planted-secret-of-the-ensemble", "nosuchkey.password=planted-unknown",
	}, "\n"))
	cfg, code := serverConfig([]string{"-Djava.security.auth.login.config=" + jaas, "-Dzookeeper.nosuch.password=planted-property", file}, io.Discard, io.Discard)
	if code != 0 || cfg == nil {
		t.Fatal("the configuration is refused")
	}
	var log logBuffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, w := range cfg.Warnings {
		logger.Warn(w.String())
	}
	opt, err := serverOptions(cfg, logger)
	if err != nil {
		t.Fatal(err)
	}
	logStart(logger, cfg, &opt)
	s, err := server.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	address := s.Addrs()[0].String()
	for _, o := range []zk.Options{
		{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte("super:planted-guess")}}},
		{Auth: []zk.Auth{{Scheme: "nosuch", Auth: []byte("planted-credential")}}},
		{SASL: zk.DigestMD5("bob", "planted-wrong")},
		{SASL: zk.DigestMD5("bob", "planted-bob")},
	} {
		if c, err := zk.Open(t.Context(), address, o); err == nil {
			c.Close()
		} else if strings.Contains(err.Error(), "planted") {
			t.Errorf("a client is told %v", err)
		}
	}
	var a access.Access
	for _, w := range access.Words() {
		reply, err := a.Ask(t.Context(), address, w.Name)
		logger.Info("a word", "word", w.Name, "reply", reply, "err", err) // some have nothing to say yet
	}
	s.Close()
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "planted") || strings.Contains(line, "apassword") {
			t.Errorf("a secret shows: %s", line)
		}
	}
	if n := strings.Count(log.String(), "\n"); n < 15 {
		t.Errorf("the log has %d lines alone", n)
	}
}
