package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/runbook"
)

const digestHelp = `usage: zooid digest [-alg SHA-256] USER:PASSWORD
       zooid digest [-alg SHA-256] -

Prints USER:HASH, which is an id of the scheme digest in ACLs, and the value of
zookeeper.DigestAuthenticationProvider.superDigest. With -, it reads USER:PASSWORD
from standard input, so that the list of processes doesn't show the password. -alg
must be the value of DigestAuthenticationProvider.digestAlg; the default is SHA1.
`

// credentialMax bounds the line that is read from standard input, in bytes.
const credentialMax = 4 << 10

// runDigest prints the digest of a password.
func runDigest(args []string, stdout, stderr io.Writer) int {
	return digestOf(args, os.Stdin, stdout, stderr)
}

func digestOf(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	algorithm := ""
	if len(args) > 1 && (args[0] == "-alg" || args[0] == "--alg") {
		algorithm, args = args[1], args[2:]
	}
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, digestHelp)
		return 0
	}
	if len(args) != 1 {
		fmt.Fprint(stderr, digestHelp)
		return 2
	}
	credential := args[0]
	if credential == "-" {
		line, err := bufio.NewReader(io.LimitReader(stdin, credentialMax+1)).ReadString('\n')
		if err != nil && err != io.EOF {
			fmt.Fprintln(stderr, "zooid digest: read standard input:", err)
			return 1
		}
		if len(line) > credentialMax {
			fmt.Fprintf(stderr, "zooid digest: the first line of standard input is too long; user and password may have at most %d bytes\n",
				credentialMax)
			return 2
		}
		credential = strings.TrimRight(line, "\r\n")
	}
	if user, password, ok := strings.Cut(credential, ":"); !ok || user == "" || password == "" {
		fmt.Fprintln(stderr, "zooid digest: want a user and a password separated by a colon, as in super:PASSWORD")
		return 2
	}
	text, err := auth.Digest(algorithm, credential)
	if err != nil {
		fmt.Fprintln(stderr, "zooid digest:", runbook.Text(err))
		return 2
	}
	if _, err := fmt.Fprintln(stdout, text); err != nil {
		fmt.Fprintln(stderr, "zooid digest: print the digest:", err)
		return 1
	}
	return 0
}
