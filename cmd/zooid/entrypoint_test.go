//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/freeport"
)

// TestContainer: of which file a container's server runs, and which id it gets.
func TestContainer(t *testing.T) {
	t.Parallel()
	const three = "ZOO_SERVERS=server.1=a:2888:3888;2181 server.2=b:2888:3888;2181 server.3=c:2888:3888;2181"
	for name, c := range map[string]struct {
		files map[string]string // below the container's root
		env   []string
		args  string // of the server, DIR for the root
		myid  string // afterwards
		err   string
		warns string
	}{
		"nothing said": {args: "2181 /data"},
		"variables":    {env: []string{three, "ZOO_MY_ID=2"}, args: "DIR/data/zooid-entrypoint.cfg", myid: "2\n"},
		"one variable": {env: []string{"ZOO_TICK_TIME=3000"}, args: "DIR/data/zooid-entrypoint.cfg", myid: "1\n"},
		"one server": {
			env:  []string{"ZOO_MY_ID=4", "ZOO_SERVERS=server.4=zoo4:2888:3888;2181"},
			args: "DIR/data/zooid-entrypoint.cfg", myid: "4\n",
		},
		"a file of theirs": {
			files: map[string]string{"conf/zoo.cfg": "initLimit=5\nsyncLimit=2\ndataDir=DIR/data\nserver.1=a:1:2;3\nserver.2=b:1:2;3\n"},
			env:   []string{three, "ZOO_MY_ID=1"}, args: "DIR/conf/zoo.cfg", myid: "1\n",
		},
		"a file of Zooid's": {
			files: map[string]string{"own/zoo.cfg": "dataDir=DIR/data\nclientPort=2181\n"}, args: "DIR/own/zoo.cfg",
		},
		"an id that is there": {
			files: map[string]string{"data/myid": "3\n"}, env: []string{three, "ZOO_MY_ID=2"},
			args: "DIR/data/zooid-entrypoint.cfg", myid: "3\n", warns: "ZD-1154",
		},
		"no id":     {env: []string{three}, err: "ZOO_MY_ID"},
		"a bad id":  {env: []string{three, "ZOO_MY_ID=../x"}, err: "write a number"},
		"a script":  {files: map[string]string{"scripts/10-setup.sh": ""}, err: "10-setup.sh"},
		"java.env":  {files: map[string]string{"conf/java.env": "export SERVER_JVMFLAGS=-Da=b\n"}, args: "-Da=b 2181 /data"},
		"a program": {files: map[string]string{"conf/zookeeper-env.sh": "JVMFLAGS=$(id)\n"}, err: "zookeeper-env.sh"},
		"too long":  {files: map[string]string{"conf/java.env": strings.Repeat("#", environmentFileMax+1)}, err: "more than"},
		"as long as may be": {
			files: map[string]string{"conf/java.env": strings.Repeat("#", environmentFileMax)}, args: "2181 /data",
		},
		"no effect": {env: []string{"ZOO_LOG4J_PROP=INFO"}, args: "2181 /data", warns: "ZOO_LOG4J_PROP"},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir+"/data", 0o700); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		if len(c.env) > 0 && name != "no effect" {
			env["ZOO_DATA_DIR"] = dir + "/data"
		}
		for _, v := range c.env {
			key, value, _ := strings.Cut(v, "=")
			env[key] = value
		}
		var log bytes.Buffer
		in := container{
			env: env, conf: dir + "/conf", own: dir + "/own/zoo.cfg", scripts: dir + "/scripts",
			log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		args, err := in.server()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
			continue
		}
		want := strings.ReplaceAll(c.args, "DIR", dir)
		if got := strings.Join(args, " "); err == nil && got != want {
			t.Errorf("%s: runs zooid server %s, want %s", name, got, want)
		}
		if strings.HasSuffix(want, generatedConfig) {
			if _, err := config.Load(want, nil); err != nil {
				t.Errorf("%s: the server would not start: %v", name, err)
			}
		}
		if text, _ := os.ReadFile(dir + "/data/myid"); c.err == "" && string(text) != c.myid {
			t.Errorf("%s: the id is %q, want %q", name, text, c.myid)
		}
		if !strings.Contains(log.String(), c.warns) {
			t.Errorf("%s: no %s in the log:\n%s", name, c.warns, log.String())
		}
	}
}

// TestContainersOfAnImage starts what a compose file of the official image describes: three containers, by variables.
// It stops them and starts them again, as an exchanged image does.
func TestContainersOfAnImage(t *testing.T) {
	t.Parallel()
	ports := freeport.Take(t, 9)
	var lines []string
	for i := range 3 {
		lines = append(lines,
			fmt.Sprintf("server.%d=127.0.0.1:%d:%d;127.0.0.1:%d", i+1, ports[3*i], ports[3*i+1], ports[3*i+2]))
	}
	dir := t.TempDir()
	for round := range 2 {
		var stop []func()
		for i := range 3 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS=entrypoint zkServer.sh start-foreground",
				fmt.Sprintf("ZOO_MY_ID=%d", i+1), "ZOO_SERVERS="+strings.Join(lines, " "),
				"ZOO_4LW_COMMANDS_WHITELIST=srvr,conf", "ZOO_ADMINSERVER_ENABLED=false",
				fmt.Sprintf("ZOO_DATA_DIR=%s/%d", dir, i+1), fmt.Sprintf("ZOO_CONF_DIR=%s/none", dir),
				"JVMFLAGS=-Xmx512m -Dzookeeper.snapCount=777")
			out, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			killed := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
			var log bytes.Buffer
			served := make(chan bool, 1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for lines := bufio.NewScanner(io.TeeReader(out, &log)); lines.Scan(); {
					if strings.Contains(lines.Text(), "msg=serving") {
						served <- true
					}
				}
				close(served)
			}()
			stop = append(stop, func() {
				if !<-served {
					t.Errorf("round %d, server %d ends:\n%s", round, i+1, log.String())
				}
				cmd.Process.Signal(syscall.SIGTERM)
				<-done
				cmd.Wait()
				killed.Stop()
				for _, code := range []string{"ZD-1151", "ZD-3110"} { // other variables; a server without the secret
					if strings.Contains(log.String(), code) {
						t.Errorf("server %d warns of %s in a new ensemble:\n%s", i+1, code, log.String())
					}
				}
			})
		}
		t.Cleanup(func() {
			for _, s := range stop {
				s()
			}
		})
		// Servers elect again while others still start, so that an answer holds for a moment only.
		var modes map[string]int
		var confs [3]string
		whole := func() bool {
			modes = map[string]int{}
			for i := range confs {
				if _, after, ok := strings.Cut(word(ports[3*i+2], "srvr"), "Mode: "); ok {
					mode, _, _ := strings.Cut(after, "\n")
					modes[mode]++
				}
				confs[i] = word(ports[3*i+2], "conf")
			}
			for i, conf := range confs {
				if !strings.Contains(conf, fmt.Sprintf("serverId=%d\n", i+1)) {
					return false
				}
			}
			return modes["leader"] == 1 && modes["follower"] == 2
		}
		for deadline := time.Now().Add(time.Minute); !whole(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("round %d: %v; conf says %q", round, modes, confs)
				break
			}
		}
		for _, s := range stop {
			s()
		}
		stop = nil
	}
}

// word returns a server's answer to a four-letter word, "" for none.
func word(port int, name string) string {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(c, name)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// TestEntrypointRunsCommands: the image's other commands go on as before.
func TestEntrypointRunsCommands(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"entrypoint version": "zooid", "entrypoint -h": "ZOO_MY_ID", "entrypoint server -h": "usage: zooid server",
		"entrypoint zkServer.sh status": "that is supported is start-foreground", "entrypoint nonsense": "no command",
	} {
		var out bytes.Buffer
		run(strings.Fields(args), &out, &out)
		if !strings.Contains(out.String(), want) {
			t.Errorf("zooid %s: %q, want %q", args, out.String(), want)
		}
	}
}

// TestVariablesBesideAServer: outside of its image a server says that it doesn't read variables that say otherwise.
func TestVariablesBesideAServer(t *testing.T) {
	t.Parallel()
	const lines = "server.1=a:2888:3888;2181 server.2=b:2888:3888;2181"
	members, err := config.ParseMembers(strings.ReplaceAll(lines, " ", "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id, servers string
		want        string
	}{
		{"", "", ""}, {"2", lines, ""}, {"2", lines[:strings.Index(lines, " ")], "ZOO_SERVERS"}, {"1", lines, "ZOO_MY_ID"},
		{"x", "garbage", "ZOO_MY_ID,ZOO_SERVERS"}, {"2", strings.Replace(lines, "b:", "c:", 1), "ZOO_SERVERS"},
	} {
		var log bytes.Buffer
		cfg := &config.Config{Quorum: config.Quorum{MyID: 2, Members: members}}
		env := map[string]string{"ZOO_MY_ID": c.id, "ZOO_SERVERS": c.servers}
		warnOfVariables(cfg, func(name string) string { return env[name] }, slog.New(slog.NewTextHandler(&log, nil)))
		told := strings.Contains(log.String(), "variables="+c.want+" code=ZD-1151")
		if told != (c.want != "") || c.want == "" && log.Len() > 0 {
			t.Errorf("ZOO_MY_ID=%s ZOO_SERVERS=%s: %s", c.id, c.servers, log.String())
		}
	}
}
