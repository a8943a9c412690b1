//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tool/doctor"
)

const (
	// secretLengthMin is the minimum length of a secret: a shorter one can be guessed from the proof that a server makes
	// to any process at another server's address.
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
			return nil, runbook.Errorf("ZD-1201", "read the ensemble's secret (quorum.secretFile): %w", err)
		}
		texts = append(texts, lines...)
	}
	for _, text := range texts {
		if len(text) < secretLengthMin {
			return nil, runbook.Errorf("ZD-1202", "use the ensemble's secret (quorum.secret, quorum.secretFile): it has %d characters, at least %d are needed: take 'head -c 32 /dev/urandom | base64', or 'zooid init'",
				len(text), secretLengthMin)
		}
		all = append(all, server.SecretOf(text))
	}
	return all, nil
}

// secretLines reads a secret file, which has one secret per line, and comments.
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
	if doctor.Exposed(st) {
		return nil, fmt.Errorf("others may read it (mode %04o): chmod 600 %s", st.Mode().Perm(), file)
	}
	b, err := config.ReadAll(f, secretFileMax)
	if err != nil {
		return nil, err
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

const allowJoinHelp = `usage: zooid allow-join ID zoo.cfg [ADDRESS]
       zooid allow-join ID DIRECTORY [ADDRESS]

Lets server ID join again after it has lost its data directory, and with it the
ensemble's secret. Run it on the machine of a running server, with that server's zoo.cfg
or its log directory. For ten minutes, the server that answers at the address of server
ID may get the secret. If ID is not a member yet, the ensemble doesn't know its address:
give the address of its peer port (zk4:2888). It then follows without a vote until a
reconfig adds it. Without this command, a server is admitted only if its configuration
has the secret (quorum.secret, quorum.secretFile), if a reconfig has just added it, or
if it has a member's certificate and no secret is configured.
`

// runAllowJoin lets a server that has lost its data join again.
func runAllowJoin(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, allowJoinHelp)
		return 0
	}
	addr := ""
	if len(args) == 3 {
		addr, args = args[2], args[:2]
	}
	if len(args) != 2 {
		fmt.Fprint(stderr, allowJoinHelp)
		return 2
	}
	id, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil || id < 0 {
		fmt.Fprintf(stderr, "zooid allow-join: %q isn't a server id\n", args[0])
		return 2
	}
	if _, _, err := net.SplitHostPort(addr); err != nil && addr != "" {
		fmt.Fprintf(stderr, "zooid allow-join: %q isn't an address, such as zk4:2888\n", addr)
		return 2
	}
	dir, err := logDirectory(args[1])
	if err != nil {
		fmt.Fprintln(stderr, "zooid allow-join:", errorText(err))
		return 2
	}
	until, err := server.AllowJoin(dir, serverid.Raft(id), addr)
	if err == nil {
		err = newensemble.HandOver(dir)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid allow-join:", errorText(err))
		return 1
	}
	fmt.Fprintf(stdout, "server %d may join until %s; start it if it doesn't run\n", id, until.Format("15:04:05"))
	if addr == "" && unlisted(args[1], id) {
		fmt.Fprintf(stderr, "zooid allow-join: server %d isn't in the server lines of %s. Unless reconfig has added it, its address is unknown, and it can't join: give the address of its peer port (zk4:2888)\n",
			id, args[1])
	}
	return 0
}

// unlisted reports whether a zoo.cfg has server lines, and none of a server.
func unlisted(zooCfg string, id int64) bool {
	cfg, err := config.LoadAny(zooCfg, nil)
	if err != nil { // it is a directory, which has no lines
		return false
	}
	members := cfg.Quorum.Members.Servers
	return !slices.ContainsFunc(members, func(m config.Member) bool { return m.ID == id })
}
