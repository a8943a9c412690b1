//go:build unix

package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
)

const (
	// secretLengthMin is the least length of a secret: a shorter one can be guessed from
	// a recorded connection between two servers.
	secretLengthMin = 20
	// secretFileMax bounds a secret file, in bytes.
	secretFileMax = 16 << 10
)

// peerSecrets returns the secrets that the configuration gives the servers.
func peerSecrets(q *config.Quorum) (all []server.PeerSecret, err error) {
	var texts []string
	if q.Secret != "" {
		texts = append(texts, q.Secret.Reveal())
	}
	if q.SecretFile != "" {
		lines, err := secretLines(q.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("read the ensemble's secret (quorum.secretFile): %w", err)
		}
		texts = append(texts, lines...)
	}
	for _, text := range texts {
		if len(text) < secretLengthMin {
			return nil, fmt.Errorf("use the ensemble's secret (quorum.secret, quorum.secretFile): it has %d characters, at least %d are needed: take 'head -c 32 /dev/urandom | base64', or 'zooid init'", len(text), secretLengthMin)
		}
		all = append(all, server.SecretOf(text))
	}
	return all, nil
}

// secretLines reads a secret file: a secret to a line, beside comments.
func secretLines(file string) (texts []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o): chmod 600 %s", st.Mode().Perm(), file)
	}
	b, err := io.ReadAll(io.LimitReader(f, secretFileMax+1))
	if err != nil {
		return nil, err
	}
	if len(b) > secretFileMax {
		return nil, fmt.Errorf("%s has more than %d bytes", file, secretFileMax)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			texts = append(texts, line)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s holds none", file)
	}
	return texts, nil
}

const initHelp = `usage: zooid init [-dir DIRECTORY] [-client-port PORT] HOST[:PORT[:PORT]]…

Writes what an ensemble of the named servers needs into DIRECTORY/ID for each of
them: a zoo.cfg, the file myid in its data directory, and the file secret, by which
the servers prove who they are to each other. Copy each folder to its server, keep
secret readable for the server alone, and run 'zooid server zoo.cfg' in it.
`

// The ports that init writes where none is given.
const (
	clientPortDefault   = "2181"
	quorumPortDefault   = 2888
	electionPortDefault = 3888
)

// runInit writes the configuration of a new ensemble.
func runInit(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("init", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, initHelp) }
	dir := flags.String("dir", "zooid-ensemble", "")
	clientPort := flags.String("client-port", clientPortDefault, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprint(stderr, initHelp)
		return 2
	}
	if err := writeEnsemble(*dir, *clientPort, flags.Args()); err != nil {
		fmt.Fprintln(stderr, "zooid init:", err)
		return 1
	}
	fmt.Fprintf(stdout, "wrote %d servers to %s; copy each folder to its server and run 'zooid server zoo.cfg' in it\n", flags.NArg(), *dir)
	return 0
}

// writeEnsemble writes one folder for each host.
func writeEnsemble(dir, clientPort string, hosts []string) error {
	var lines strings.Builder
	for i, host := range hosts {
		switch strings.Count(host, ":") {
		case 0:
			host = fmt.Sprintf("%s:%d:%d", host, quorumPortDefault, electionPortDefault)
		case 1:
			host = fmt.Sprintf("%s:%d", host, electionPortDefault)
		}
		fmt.Fprintf(&lines, "server.%d=%s;%s\n", i+1, host, clientPort)
	}
	if _, err := config.ParseMembers(lines.String()); err != nil {
		return fmt.Errorf("write the server lines: %w", err)
	}
	secret := rand.Text() + rand.Text() + "\n"
	for i := range hosts {
		folder := filepath.Join(dir, strconv.Itoa(i+1))
		if err := os.MkdirAll(filepath.Join(folder, "data"), 0o700); err != nil {
			return err
		}
		text := "# Written by zooid init.\ntickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=./data\nquorum.secretFile=./secret\n" + lines.String()
		for _, file := range []struct {
			name, text string
			mode       os.FileMode
		}{{"zoo.cfg", text, 0o644}, {"data/myid", strconv.Itoa(i+1) + "\n", 0o644}, {"secret", secret, 0o600}} {
			if err := writeNew(filepath.Join(folder, file.name), file.text, file.mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeNew writes a file that must not be there: a secret is never written over.
func writeNew(path, text string, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

const allowJoinHelp = `usage: zooid allow-join ID zoo.cfg
       zooid allow-join ID DIRECTORY

Lets server ID, which has lost its data directory and with it the ensemble's secret,
join again. Run it on the machine of a running server, with that server's zoo.cfg or
the directory of its log. For ten minutes the server that answers at the address of
server ID is given the secret. Without this command a server is let in only if its
configuration has the secret (quorum.secret, quorum.secretFile).
`

// runAllowJoin lets a server join again that has lost its data.
func runAllowJoin(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, allowJoinHelp)
		return 0
	}
	if len(args) != 2 {
		fmt.Fprint(stderr, allowJoinHelp)
		return 2
	}
	id, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil || id == 0 {
		fmt.Fprintf(stderr, "zooid allow-join: %q is no server id\n", args[0])
		return 2
	}
	dir, err := logDirectory(args[1])
	if err != nil {
		fmt.Fprintln(stderr, "zooid allow-join:", err)
		return 2
	}
	until, err := server.AllowJoin(dir, id)
	if err != nil {
		fmt.Fprintln(stderr, "zooid allow-join:", err)
		return 1
	}
	fmt.Fprintf(stdout, "server %d may join until %s; start it if it doesn't run\n", id, until.Format("15:04:05"))
	return 0
}
