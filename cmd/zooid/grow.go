//go:build unix

package main

import (
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/tool/setup"
)

// addServer writes the files of one more server, and says how the ensemble takes it in.
func addServer(o setup.Options, id int, tls bool, stdout, stderr io.Writer) int {
	if tls {
		fmt.Fprintln(stderr, "zooid init: -tls isn't for -add: whether servers talk TLS is what the others' server lines say")
		return 2
	}
	a, err := setup.Add(o, id)
	if err != nil {
		fmt.Fprintln(stderr, "zooid init:", errorText(err))
		return 1
	}
	shell := "zooid cli -server " + a.Others + " -auth SCHEME:CREDENTIAL"
	if a.TLS {
		shell = fmt.Sprintf("ZOOID_CONFIG=%s zooid cli -profile %s", setup.ProfileFile(o.Dir), setup.ProfileName)
	}
	fmt.Fprintf(stdout, `wrote %s
1. copy it to its machine, readable for its user alone; what you have changed in the others' zoo.cfg, change in it too
2. run in it: zooid doctor zoo.cfg && zooid server zoo.cfg; the server follows without a vote, and serves clients
3. give it a vote, as the superuser (the servers need reconfigEnabled=true):
   %s reconfig -add '%s'
4. add it to the servers that clients know
`, a.Folder, shell, a.Line)
	return 0
}
