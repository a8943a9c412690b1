//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/tool/setup"
)

const entrypointHelp = `usage: zooid entrypoint [COMMAND [ARGUMENT]…]

The entry point of the container image. With a COMMAND, it runs zooid COMMAND. Without
one, or with zkServer.sh start-foreground, it runs the server that a container for
Apache's official image or Bitnami's would run. The configuration is /conf/zoo.cfg or
/etc/zooid/zoo.cfg if one of them exists. Otherwise it is made from variables such as
ZOO_MY_ID and ZOO_SERVERS; docs/migration.md has the table. A variable that can't be
applied is an error.
`

// A container holds a server's view of the things that an image's scripts read.
type container struct {
	env     map[string]string
	conf    string // the directory of zoo.cfg, unless ZOO_CONF_DIR names another
	own     string // the zoo.cfg of Zooid's image
	scripts string // the scripts that the official image would run first
	log     *slog.Logger
}

// generatedConfig is the configuration that zooid entrypoint writes, in the data directory: it is the one place of a
// container that must be writable, as reconfig wants its configuration to be.
const generatedConfig = "zooid-entrypoint.cfg"

// runEntrypoint runs a command, or the server that a container's environment describes.
func runEntrypoint(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, entrypointHelp)
		return 0
	}
	script := len(args) > 0 && filepath.Base(args[0]) == "zkServer.sh"
	if len(args) > 0 && !script {
		if strings.HasPrefix(args[0], "-") && !slices.Contains([]string{"-help", "-v", "-version", "--version"}, args[0]) {
			fmt.Fprintf(stderr, "zooid entrypoint: there is no flag %.80q\n", args[0])
			fmt.Fprint(stderr, entrypointHelp) // by itself: see synopsis
			return 2
		}
		return run(args, stdout, stderr)
	}
	if script && (len(args) != 2 || args[1] != "start-foreground") {
		fmt.Fprintln(stderr, "zooid entrypoint: the only command of zkServer.sh that is supported is start-foreground")
		return 2
	}
	c := container{
		env: map[string]string{}, conf: "/conf", own: "/etc/zooid/zoo.cfg", scripts: "/docker-entrypoint.d",
		log: slog.New(runbook.Handler(slog.NewTextHandler(stderr, nil))),
	}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		c.env[name] = value
	}
	serve, err := c.server()
	if err != nil {
		fmt.Fprintln(stderr, "zooid entrypoint:", errorText(err))
		return 2
	}
	return runServer(serve, stdout, stderr)
}

// server returns the arguments of zooid server, and writes the files that it needs.
func (c *container) server() ([]string, error) {
	if dir := c.env["ZOO_CONF_DIR"]; dir != "" {
		c.conf = dir
	}
	if files, err := os.ReadDir(c.scripts); err == nil && len(files) > 0 {
		return nil, runbook.Errorf("ZD-1152", "run %s: the image has no shell for the scripts of %s; put what they do into the configuration, and remove them",
			files[0].Name(), c.scripts)
	}
	if err := c.environmentFiles(); err != nil {
		return nil, err
	}
	s, err := setup.FromImage(c.env, readSmall)
	if err != nil {
		return nil, runbook.Errorf("ZD-1152", "%w", err)
	}
	for _, note := range s.Notes {
		c.log.Warn("variables of the container: "+note, "code", "ZD-1153")
	}
	for _, file := range []string{filepath.Join(c.conf, "zoo.cfg"), c.own} {
		if _, err := os.Stat(file); err == nil {
			return append(s.Flags, file), c.writeMyID(file, s.ID)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, runbook.Errorf("ZD-1152", "look for the configuration: %w", err)
		}
	}
	if s.Image == "" { // nothing is said of a server: the image's own default
		return append(s.Flags, "2181", s.DataDir), nil
	}
	file := filepath.Join(s.DataDir, generatedConfig)
	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		return nil, runbook.Errorf("ZD-1152", "make the data directory: %w", err)
	}
	if err := os.WriteFile(file, []byte(s.Config), 0o600); err != nil {
		return nil, runbook.Errorf("ZD-1152", "write the configuration: %w; let the container's user own the directory (chown -R %d)",
			err, os.Getuid())
	}
	c.log.Info("the configuration was generated from the container's variables", "of", s.Image, "file", file)
	return append(s.Flags, file), c.writeMyID(file, s.ID)
}

// environmentFiles takes the variables of the files that Apache's zkEnv.sh runs, in its order.
func (c *container) environmentFiles() error {
	for _, name := range []string{"zookeeper-env.sh", "java.env"} {
		file := filepath.Join(c.conf, name)
		text, err := readSmall(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = setup.EnvironmentFile(text, c.env)
		}
		if err != nil {
			return runbook.Errorf("ZD-1152", "read %s: %w", file, err)
		}
	}
	return nil
}

// writeMyID writes the file myid where there is none, as the images' scripts do, for a configuration that has servers.
func (c *container) writeMyID(file, id string) error {
	cfg, err := config.LoadAny(file, nil)
	if err != nil || len(cfg.Quorum.Members.Servers) == 0 {
		return nil // the server reports what is wrong with it
	}
	path := filepath.Join(cfg.Storage.DataDir, "myid")
	said := c.env["ZOO_MY_ID"] + c.env["ZOO_SERVER_ID"] // FromImage has refused both at once
	text, err := readSmall(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if said == "" && cfg.Quorum.Distributed {
			return runbook.Errorf("ZD-1152", "determine this server's id: there is neither a file %s nor a variable ZOO_MY_ID; set the variable",
				path)
		}
		if _, err := strconv.ParseUint(id, 10, 31); err != nil {
			return runbook.Errorf("ZD-1152", "the id of this server is %.40q; write a number", id)
		}
		if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
			return runbook.Errorf("ZD-1152", "write this server's id: %w; let the container's user own the directory (chown -R %d)",
				err, os.Getuid())
		}
	case err != nil:
		return runbook.Errorf("ZD-1152", "read this server's id: %w", err)
	case said != "" && strings.TrimSpace(text) != said:
		c.log.Warn("variables of the container: the id in the data directory's file myid differs from ZOO_MY_ID, and takes precedence",
			"file", path, "code", "ZD-1154")
	}
	return nil
}

// environmentFileMax bounds the files of a container that are read here; they have some lines.
const environmentFileMax = 64 << 10

func readSmall(file string) (string, error) {
	text, err := config.ReadFile(file, environmentFileMax)
	return string(text), err
}

// warnOfVariables says that a server doesn't read the variables of an image, if it runs with something else.
func warnOfVariables(cfg *config.Config, env func(string) string, log *slog.Logger) {
	var unread []string
	if id := env("ZOO_MY_ID"); id != "" && id != strconv.FormatInt(cfg.Quorum.MyID, 10) {
		unread = append(unread, "ZOO_MY_ID")
	}
	if servers := env("ZOO_SERVERS"); servers != "" {
		said, err := config.ParseMembers(strings.Join(strings.Fields(servers), "\n"))
		if err != nil || !slices.EqualFunc(said.Servers, cfg.Quorum.Members.Servers,
			func(a, b config.Member) bool { return a.ID == b.ID && slices.Equal(a.Addrs, b.Addrs) }) {
			unread = append(unread, "ZOO_SERVERS")
		}
	}
	if len(unread) > 0 {
		log.Warn("variables of Apache's image are set and contradict the configuration; zooid server ignores them, zooid entrypoint reads them",
			"variables", strings.Join(unread, ","), "code", "ZD-1151")
	}
}
