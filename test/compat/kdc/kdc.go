// Package kdc runs a real Kerberos KDC for tests.
package kdc

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// Realm is the KDC's realm.
const Realm = "ZOOID.TEST"

// startPatience is how long the KDC may take to start on a busy machine.
const startPatience = time.Minute

// A KDC is a running Kerberos KDC, with files for programs that use it.
type KDC struct {
	Folder  string   // the folder with its files
	Env     []string // the environment for programs that use it
	address string
}

// Start runs MIT's KDC on loopback, with principals whose keys are in files NAME.keytab, in which "/" is written as
// "-".
func Start(t *testing.T, principals ...string) *KDC {
	t.Helper()
	k := &KDC{Folder: t.TempDir()}
	k.Env = []string{
		"KRB5_CONFIG=" + k.File("krb5.conf"), "KRB5_KDC_PROFILE=" + k.File("kdc.conf"), "KRB5CCNAME=FILE:" + k.File("cache"),
	}
	k.configure(t)
	k.Run(t, "kdb5_util", "create", "-s", "-P", "of this test", "-r", Realm)
	for _, p := range principals {
		k.Run(t, "kadmin.local", "-r", Realm, "addprinc", "-randkey", p)
		k.Run(t, "kadmin.local", "-r", Realm, "ktadd", "-k", k.Keytab(p), p)
	}
	k.start(t)
	return k
}

// configure writes the files, with a port of the KDC's own: for TCP alone, since package freeport holds it by UDP.
func (k *KDC) configure(t *testing.T) {
	t.Helper()
	k.address = freeport.Address(t)
	k.Write(t, "krb5.conf", fmt.Sprintf(`[libdefaults]
 default_realm = %s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %s = {
  kdc = %s
 }
`, Realm, Realm, k.address))
	k.Write(t, "kdc.conf", fmt.Sprintf(`[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = %s
[realms]
 %s = {
  database_name = %s
  key_stash_file = %s
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }
`, k.address, Realm, k.File("principal"), k.File("stash")))
}

// start runs the KDC until the test ends.
func (k *KDC) start(t *testing.T) {
	t.Helper()
	process := exec.Command(sbin(t, "krb5kdc"), "-n", "-r", Realm, "-P", k.File("pid"))
	process.Env = append(os.Environ(), k.Env...)
	var out bytes.Buffer
	process.Stdout, process.Stderr = &out, &out
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	t.Cleanup(func() { process.Process.Kill(); <-ended })
	for end := time.Now().Add(startPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", k.address); err == nil {
			conn.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the KDC has ended: %v\n%s", err, out.String())
		default:
		}
	}
	process.Process.Kill()
	ended <- <-ended
	t.Fatalf("the KDC doesn't answer:\n%s", out.String())
}

// File returns the path of a file in the folder: krb5.conf, cache, or one written by Write.
func (k *KDC) File(name string) string { return filepath.Join(k.Folder, name) }

// Keytab returns the path of the file with a principal's key.
func (k *KDC) Keytab(principal string) string {
	return k.File(strings.ReplaceAll(principal, "/", "-") + ".keytab")
}

// Write writes a file into the folder, and returns its path.
func (k *KDC) Write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(k.File(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return k.File(name)
}

// Run runs a program that uses this KDC, and fails the test unless it succeeds.
func (k *KDC) Run(t *testing.T, name string, args ...string) {
	t.Helper()
	command := exec.Command(sbin(t, name), args...)
	command.Env = append(os.Environ(), k.Env...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// sbin returns the path of a program that isn't in every user's PATH.
func sbin(t *testing.T, name string) string {
	t.Helper()
	for _, folder := range []string{"/usr/sbin", "/usr/bin"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
	}
	t.Fatalf("%s isn't installed; run test/compat/install.sh", name)
	return ""
}
