package cli

import (
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/tool/access"
)

// aliases are other names of commands, taken from other shells, file systems and older
// releases.
var aliases = map[string]string{
	"cat": "get", "put": "set", "mkdir": "create", "touch": "create", "del": "delete", "rmr": "deleteall", "copy": "cp",
	"move": "mv", "rename": "mv",
	"dir": "ls", "ll": "ls", "list": "ls", "show": "get", "auth": "addauth", "open": "connect", "bye": "quit", "?": "help",
	"man": "help",
}

// elsewhere says what to use instead of words that users may type but that aren't commands here.
var elsewhere = map[string]string{
	"cd":     "there is no current znode: paths are absolute; connect HOST:PORT/app makes /app the root",
	"pwd":    "there is no current znode: paths are absolute; config shows the servers, whoami your identities",
	"echo":   "set PATH DATA replaces a znode's data, create PATH DATA makes one",
	"vi":     "get PATH prints data, set PATH @FILE replaces it by a file's content",
	"edit":   "get PATH prints data, set PATH @FILE replaces it by a file's content",
	"update": "set PATH DATA replaces a znode's data",
	"head":   "get PATH prints data",
	"less":   "get PATH prints data",
	"tail":   "watch -d PATH prints data as it changes",
	"chmod":  "setAcl PATH ACL sets permissions; help acl explains ACLs",
	"chown":  "setAcl PATH ACL sets permissions; help acl explains ACLs",
	"login":  "addauth digest USER:PASSWORD adds an identity; -auth-file and -sasl-file take them from files",
	"su":     "addauth digest USER:PASSWORD adds an identity",
	"exists": "stat PATH prints a znode's metadata, and fails if there is none",
	"status": "zooid status shows the ensemble at a glance; top and srvr ask the servers of the connect string",
	"backup": "export PATH FILE writes a subtree to a file",
	"load":   "import FILE creates the znodes of an exported file",
	"clear":  "Ctrl-L clears the terminal",
	"multi":  "txn create … ; set … applies several writes in one transaction",
	"kill":   "no client can end another's session; session list shows them",
}

// flagsElsewhere does the same for flags, by command and flag.
var flagsElsewhere = map[string]string{
	"get -a": "-s also prints the stat",
	"ls -l":  "-s also prints the stat; tree -s also prints sizes",
	"ls -a":  "no child is hidden; -R lists everything below",
	"ls -r":  "-R lists everything below",
}

// aliasesOf returns the other names of a command, sorted.
func aliasesOf(name string) (names []string) {
	for other, of := range aliases {
		if of == name {
			names = append(names, other)
		}
	}
	slices.Sort(names)
	return names
}

// unalias returns words with an alias at their front replaced by the command's name.
func unalias(words []string) []string {
	if len(words) == 0 {
		return nil
	}
	if name, ok := aliases[words[0]]; ok {
		return append([]string{name}, words[1:]...)
	}
	if access.IsWord(words[0]) {
		return append([]string{"4lw"}, words...)
	}
	return words
}

// flagNames lists a command's flags for a hint.
func (c *command) flagNames() string {
	names := make([]string, 0, len(c.flags)+1)
	for _, f := range c.flags {
		names = append(names, "-"+f.name)
	}
	return strings.Join(append(names, "-"+outputFlag.name), " ")
}
