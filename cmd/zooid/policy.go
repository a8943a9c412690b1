//go:build unix

package main

import "io"

const policyUsage = `usage: zooid policy [FLAG]… get
       zooid policy [FLAG]… set   FILE
       zooid policy         check FILE
       zooid policy [FLAG]… explain PATH read|write|create|delete|admin [SCHEME:ID…]

Shows, sets and checks the policy of the ensemble: rules that say who may do what below a
path, in addition to the ACLs there. Each rule is a line:

  role  NAME = SCHEME:ID…
  deny  read,write,create,delete,admin,all below PATH [except NAME|SCHEME:ID…]
  new   below PATH acl SCHEME:ID:cdrwa…       instead of world:anyone:cdrwa
  dryrun deny …                               logs what it would deny, and denies nothing

  zooid policy -server zk1:2181 -auth digest:super:PASSWORD set FILE

The flags are those of zooid cli, such as -profile; they may also follow the command.
`

// runPolicy runs the shell's policy commands.
func runPolicy(args []string, stdout, stderr io.Writer) int {
	return runOfShell("policy", []string{"get", "set", "check", "explain"}, policyUsage, args, stdout, stderr)
}
