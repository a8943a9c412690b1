package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/zk"
)

// unknownCommandError is a first word that names no command.
type unknownCommandError string

func (e unknownCommandError) Error() string {
	return "Command not found: Command not found " + string(e)
}

// connectError says that no server answered.
type connectError struct {
	host    string
	secure  bool // by TLS
	err     error
	serving serving // the answer to srvr of servers that only close connections
}

func (e *connectError) Error() string {
	// The error of the last attempt is more helpful than this one, that time ran out.
	const late = "wait for a connection: context deadline exceeded"
	text := strings.NewReplacer(late+"; ", "", late, "no server has answered").Replace(plainText(e.err))
	return fmt.Sprintf("no connection to %s: %s", e.host, text)
}

func (e *connectError) Unwrap() error { return e.err }

// cut reports whether a server has closed the connection without an answer.
func (e *connectError) cut() bool {
	text := e.err.Error()
	return strings.Contains(text, "EOF") || strings.Contains(text, "connection reset")
}

// hint says what to do next, judging by the text of the last attempt's error.
func (e *connectError) hint() string {
	text := e.err.Error()
	switch {
	case e.serving == noQuorum:
		return "it runs but has no quorum: a majority of the ensemble's servers must be up and reach each other; zooid status shows each server; -r reads from one that allows it"
	case e.serving == servesOthers:
		return "it runs but accepts no session from here: it may be full (maxClientCnxns), or lag behind; its log says why"
	case strings.Contains(text, "certificate is valid for"), strings.Contains(text, "cannot validate certificate for"),
		strings.Contains(text, "any IP SANs"):
		return "its certificate is for another name: connect by that name, or turn the check off with -tls-any-host"
	case strings.Contains(text, "signed by unknown authority"):
		return "-tls-ca names the file with the certificate of the servers' authority"
	case strings.Contains(text, "remote error: tls"):
		return "the server wants a certificate that it knows: -tls-cert and -tls-key name its files"
	case strings.Contains(text, "TLS handshake"):
		return "is that a port for TLS (secureClientPort)? for others, leave the -tls flags out"
	case e.cut() && e.secure:
		return "the server may want a certificate: -tls-cert and -tls-key name its files"
	case e.cut():
		return "if that is a port for TLS, add -tls or -tls-ca; zooid cli --help tells more"
	}
	return "is a server running there? -server names others; -timeout gives it more time"
}

// verdictError is an answer, not a failure: diff found a difference, or grep found nothing. It isn't printed.
type verdictError struct{}

func (verdictError) Error() string { return "something differs, or nothing was found" }

// failureJSON is an error in JSON, on the standard error stream.
type failureJSON struct {
	Error        string `json:"error"`
	Code         string `json:"code,omitempty"`
	Path         string `json:"path,omitempty"`
	Hint         string `json:"hint,omitempty"`
	MaybeApplied bool   `json:"maybeApplied,omitempty"`
	Exit         int    `json:"exit"`
}

// report prints err and returns the exit code.
func (s *shell) report(ctx context.Context, err error) int {
	if errors.Is(err, verdictError{}) {
		return exitDiffers
	}
	f := describe(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		f.Exit = exitInterrupted
		if _, partly := errors.AsType[*advice.Error](err); partly || f.MaybeApplied {
			f.Error = "interrupted: " + f.Error
		} else {
			f.Error = "interrupted"
		}
	}
	s.out.W.Flush()
	if s.out.JSON {
		s.out.ErrJSON(f)
		return f.Exit
	}
	f.Error = terminal.OneLine(f.Error)
	if usage, ok := errors.AsType[*usageError](err); ok {
		if usage.reason == "" {
			var text strings.Builder
			usage.cmd.printUsage(&text)
			s.out.Errf("%s", text.String())
			return f.Exit
		}
		f.Hint = cmp.Or(usage.hint, "help "+usage.cmd.name+" shows its arguments and flags")
	}
	s.out.Errf("%s\n", s.paintError(f.Error))
	if f.Hint != "" {
		s.out.Errf("  hint: %s\n", f.Hint)
	}
	return f.Exit
}

func (s *shell) paintError(text string) string {
	if !s.out.ErrTerm {
		return text
	}
	return s.out.Paint(screen.Red, text)
}

// plainText removes the package names with which the client's errors begin: they tell a
// user nothing.
func plainText(err error) string {
	text := strings.ReplaceAll(err.Error(), ": zk: ", ": ")
	return strings.TrimPrefix(strings.ReplaceAll(text, ": zookeeper: ", ": "), "zk: ")
}

// describe puts err in zkCli's words if zkCli has any for it, and adds a hint and an
// exit code.
func describe(err error) failureJSON {
	f := failureJSON{Error: plainText(err), Exit: exitFailed, MaybeApplied: zk.MaybeApplied(err)}
	if e, ok := errors.AsType[*advice.Error](err); ok {
		f.Hint = e.Hint
	}
	if name, ok := errors.AsType[unknownCommandError](err); ok {
		f.Exit, f.Hint = exitUnknown, "help lists the commands"
		if whole := beginningWith(string(name)); whole != nil {
			f.Error, f.Hint = string(name)+" alone isn't a command", "there is "+strings.Join(whole, ", ")
			return f
		}
		if hint, ok := elsewhere[string(name)]; ok {
			f.Hint = hint
		} else if names := nearest(string(name)); len(names) > 0 {
			f.Hint = "did you mean " + strings.Join(names, " or ") + "? " + f.Hint
		}
		return f
	}
	if e, ok := errors.AsType[*connectError](err); ok {
		f.Exit, f.Hint = exitNotConnected, e.hint()
		return f
	}
	e, ok := errors.AsType[*zk.Error](err)
	if !ok {
		return f
	}
	f.Path = e.Path
	code, ok := errors.AsType[zk.Code](err)
	if !ok {
		return f
	}
	f.Code = code.String()
	if m, ok := errors.AsType[*zk.MultiError](err); ok {
		f.Path = m.Path
		return f // the error names the operation
	}
	if err.Error() != e.Error() {
		return f // err wraps e and is more helpful than the code
	}
	f.Error = zkCliText(code, e)
	if f.Hint == "" {
		f.Hint = codeHint(code, e)
	}
	return f
}

// zkCliTexts has what zkCli prints for a code. A text that ends with a space is followed by the path.
var zkCliTexts = map[zk.Code]string{
	zk.ErrNoNode:                  "Node does not exist: ",
	zk.ErrNoChildrenForEphemerals: "Ephemerals cannot have children: ",
	zk.ErrNodeExists:              "Node already exists: ",
	zk.ErrNotEmpty:                "Node not empty: ",
	zk.ErrNotReadOnly:             "Not a read-only call: ",
	zk.ErrInvalidACL:              "Acl is not valid : ",
	zk.ErrNoAuth:                  "Insufficient permission : ",
	zk.ErrBadArguments:            "Arguments are not valid : ",
	zk.ErrBadVersion:              "version No is not valid : ",
	zk.ErrReconfigInProgress:      "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)",
	zk.ErrNewConfigNoQuorum:       "No quorum of new config is connected and up-to-date with the leader of last committed config - try invoking reconfiguration after new servers are connected and synced",
	zk.ErrQuotaExceeded:           "Quota has exceeded : ",
	zk.ErrReconfigDisabled:        "KeeperErrorCode = Reconfig is disabled",
	zk.ErrNoWatcher:               "KeeperErrorCode = No such watcher for ",
}

// zkCliText returns zkCli's text for a code.
func zkCliText(code zk.Code, e *zk.Error) string {
	text, ok := zkCliTexts[code]
	switch {
	case !ok:
		return plainText(e)
	case strings.HasSuffix(text, " "):
		return text + e.Path
	}
	return text
}

// reconfigRights explains which identities may change the membership.
const reconfigRights = `it needs the write permission on /zookeeper/config: setAcl grants it, addauth proves an identity.
By default only a superuser has it: zooid digest super:PASSWORD prints what the servers need as
DigestAuthenticationProvider.superDigest; then addauth digest super:PASSWORD`

// codeHint says what to do next about a code.
func codeHint(code zk.Code, e *zk.Error) string {
	write := strings.HasPrefix(e.Op, "create")
	switch code {
	case zk.ErrNoNode:
		if e.Path == "/" { // the client removes the chroot from paths
			return "the chroot of the connect string doesn't exist: create it, connected without a chroot"
		}
		if write {
			return "create " + subtree.Parent(e.Path) + " first, or use create -p"
		}
		if e.Op == "setData" {
			return "create makes a znode"
		}
		if parent := subtree.Parent(e.Path); strings.HasPrefix(e.Path, "/") && parent != "" {
			return "ls " + parent + " shows what there is"
		}
	case zk.ErrNodeExists:
		return "set changes its data"
	case zk.ErrNotEmpty:
		return "deleteall, or rm -r, removes a znode with everything below it"
	case zk.ErrNoAuth:
		if e.Op == "reconfig" {
			return strings.ReplaceAll(reconfigRights, "\n", " ")
		}
		return "acl explain " + e.Path + " shows who may, policy explain which rule denies it; addauth adds an identity"
	case zk.ErrBadVersion:
		return "it was changed meanwhile; stat " + e.Path + " shows the version"
	case zk.ErrInvalidACL:
		return "want scheme:id:perms with a scheme that the server knows; auth needs addauth first"
	case zk.ErrNotReadOnly:
		return "this server has lost its quorum and answers reads only"
	case zk.ErrQuotaExceeded:
		return "listquota shows the quotas of the znodes above, limits list the limits; limits.path in the servers' zoo.cfg sets others"
	case zk.ErrThrottledOp:
		return "try again later; the server's log says why: a limit (ZD-4021, limits list), or its memory or disk (zooid status)"
	case zk.ErrReconfigDisabled:
		return "the servers need reconfigEnabled=true"
	case zk.ErrAuthFailed:
		return "check the scheme, the user and the password (addauth, -auth, -sasl); connect opens a new session"
	case zk.ErrSessionExpired:
		return "connect opens a new session; ephemeral znodes and watches are gone"
	}
	return ""
}
