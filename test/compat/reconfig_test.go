package compat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// The examples of Apache's guide to dynamic reconfiguration, and what goes wrong
// with them, a part for each start of the shell. L is the leader, to which the
// shell is connected, A and B are the others, X and Y servers that aren't there;
// {L} is a server's whole line. VERSION is that of the configuration before the part.
var reconfigParts = []string{
	`
config
config -c
getAcl /zookeeper/config
reconfig -remove B
addauth digest super:test
config -w
reconfig -remove B
await NodeDataChanged
config
config -c
get /zookeeper/config
reconfig -remove B
reconfig -add {B}
config
reconfig -remove B -add {X observer}
config
reconfig -remove X -add {B}
config
`, `
addauth digest super:test
reconfig -members {L},{A observer},{B}
config
reconfig -members {L},{A},{B}
config
reconfig -v 1 -remove B
reconfig -v VERSION -remove B
reconfig -members {L},{X},{Y}
reconfig -members {L observer}
reconfig -remove L,A,B
reconfig -add server.9=127.0.0.1:1:2
reconfig -add server.9=nonsense
reconfig -add 9
reconfig -remove nine
reconfig -remove 77
reconfig -add server.8=192.0.2.9:1:2:observer;3
reconfig -add server.9=192.0.2.9:1:5:observer;4
reconfig -remove 8
reconfig
reconfig -remove A -members {L}
config
`, `
addauth digest super:test
reconfig -file FILE -v VERSION
config
reconfig -file FILE -v VERSION
reconfig -file /nowhere/at/all
config
`,
}

// TestReconfig runs them through Apache's shell on an ensemble of each program,
// and compares what it prints and the files that the servers are left with.
func TestReconfig(t *testing.T) {
	reference, subject := programs(t)
	config := map[string]string{"reconfigEnabled": "true"}
	super := map[string]string{"zookeeper.DigestAuthenticationProvider.superDigest": "super:D/InIHSb7yEEbrWz8b9l71RjZJU="}
	compareParts(t, reference, subject, Options{Config: config, Properties: super}, reconfigParts)
}

// TestReconfigWithoutRights does the same where there are no ACLs, and where
// reconfig is off.
func TestReconfigWithoutRights(t *testing.T) {
	reference, subject := programs(t)
	part := []string{"config\nreconfig -remove B\nconfig\nreconfig -add {B}\nconfig\n"}
	for _, c := range []struct{ name, skip, enabled string }{{"skipACL", "yes", "true"}, {"disabled", "no", "false"}} {
		t.Run(c.name, func(t *testing.T) {
			compareParts(t, reference, subject, Options{
				Config:     map[string]string{"reconfigEnabled": c.enabled},
				Properties: map[string]string{"zookeeper.skipACL": c.skip},
			}, part)
		})
	}
}

func compareParts(t *testing.T, reference, subject Program, opts Options, parts []string) {
	t.Helper()
	shellFrom := Find(t, Apache39)
	var texts []string
	for _, p := range []Program{reference, subject} {
		texts = append(texts, reconfigured(t, p, shellFrom, opts, parts))
	}
	if texts[0] != texts[1] {
		t.Errorf("%s and %s differ:\n%s", reference.Name, subject.Name, difference(t, texts[0], texts[1]))
	}
	fmt.Printf("\n%s: %d lines on %s, same on %s: %v\n", t.Name(), strings.Count(texts[0], "\n"), reference.Name,
		subject.Name, texts[0] == texts[1])
}

// difference is what diff says.
func difference(t *testing.T, a, b string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"reference": a, "subject": b} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := runGroup(t.Context(), folder, nil, []string{"diff", "-U", "4", "reference", "subject"})
	if text == "" {
		return err.Error()
	}
	return text
}

// reconfigured acts out the parts on an ensemble of p and returns the transcript,
// with what is in the servers' folders afterwards.
func reconfigured(t *testing.T, p, shellFrom Program, opts Options, parts []string) string {
	t.Helper()
	servers := StartEnsemble(t, p, 3, opts)
	cast := castOf(t, servers)
	first := versionOf(t, cast["L"].server.Addr)
	var b strings.Builder
	for _, part := range parts {
		version := versionOf(t, cast["L"].server.Addr)
		file := filepath.Join(t.TempDir(), "members.cfg")
		if err := os.WriteFile(file, []byte(cast.fill("{L}\n{A}\n{B observer}\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		script := strings.NewReplacer("VERSION", version, "FILE", file).Replace(cast.fill(part))
		transcript, err := runShell(shellFrom.java, shellFrom.classPath, cast["L"].server.Addr, script)
		if err != nil {
			t.Fatalf("running the script on %s: %v; it printed:\n%s", p.Name, err, transcript)
		}
		b.WriteString(strings.NewReplacer(file, "FILE").Replace(transcript))
	}
	for _, name := range []string{"L", "A", "B"} {
		fmt.Fprintf(&b, "files of %s:\n%s", name, settledFiles(t, cast[name].server, first))
	}
	return cast.relabelled(b.String())
}

// A role is one server of a script.
type role struct {
	server *Server
	id     int
	line   string // right of server.N=, without its role and client address
	client string
}

type cast map[string]role

// castOf gives the leader and the others their parts.
func castOf(t *testing.T, servers []*Server) cast {
	t.Helper()
	all := cast{}
	others := []string{"A", "B"}
	for i, s := range servers {
		text, err := os.ReadFile(filepath.Join(s.Folder, "zoo.cfg.bak"))
		if err != nil {
			text, err = os.ReadFile(filepath.Join(s.Folder, "zoo.cfg"))
		}
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(fmt.Sprintf(`(?m)^server\.%d=(127\.0\.0\.1:\d+:\d+):participant;(.*)$`, i+1)).
			FindStringSubmatch(string(text))
		if m == nil {
			t.Fatalf("no line of server %d in\n%s", i+1, text)
		}
		name := "L"
		if modeOf(t, s) != "leader" {
			name, others = others[0], others[1:]
		}
		all[name] = role{s, i + 1, m[1], m[2]}
	}
	ports := freeport.Take(t, 6)
	for i, name := range []string{"X", "Y"} {
		own := ports[3*i:]
		all[name] = role{nil, 21 + i, fmt.Sprintf("127.0.0.1:%d:%d", own[0], own[1]), fmt.Sprintf("127.0.0.1:%d", own[2])}
	}
	return all
}

var (
	lineOf   = regexp.MustCompile(`\{([LABXY])( observer)?\}`)
	removing = regexp.MustCompile(`-remove [LABXY](,[LABXY])*`)
)

// fill puts ids and server lines in a script.
func (c cast) fill(script string) string {
	script = lineOf.ReplaceAllStringFunc(script, func(text string) string {
		m := lineOf.FindStringSubmatch(text)
		r, kind := c[m[1]], "participant"
		if m[2] != "" {
			kind = "observer"
		}
		return fmt.Sprintf("server.%d=%s:%s;%s", r.id, r.line, kind, r.client)
	})
	return removing.ReplaceAllStringFunc(script, func(text string) string {
		ids := strings.Split(strings.TrimPrefix(text, "-remove "), ",")
		for i, name := range ids {
			ids[i] = fmt.Sprint(c[name].id)
		}
		return "-remove " + strings.Join(ids, ",")
	})
}

var (
	serverID    = regexp.MustCompile(`server\.(\d+)=`)
	removedIDs  = regexp.MustCompile(`-remove (\d+(?:,\d+)*)`)
	peerPorts   = regexp.MustCompile(`127\.0\.0\.1:\d+:\d+`)
	memberZxid  = regexp.MustCompile(`version=[0-9a-f]+|(-v )[0-9a-f]{3,}|dynamic\.[0-9a-f]{5,}`)
	configZxid  = regexp.MustCompile(`(?m)^[0-9a-f]+ 127`)
	folderNames = regexp.MustCompile(`=/\S*/`)
)

// relabelled returns a transcript in which servers are called by their roles and
// versions and ports by one word. Lines of servers that follow each other are
// sorted, for ids differ.
func (c cast) relabelled(text string) string {
	names := map[string]string{}
	for name, r := range c {
		names[fmt.Sprint(r.id)] = name
	}
	named := func(id string) string {
		if name := names[id]; name != "" {
			return name
		}
		return id
	}
	text = serverID.ReplaceAllStringFunc(text, func(s string) string {
		return "server." + named(serverID.FindStringSubmatch(s)[1]) + "="
	})
	text = removedIDs.ReplaceAllStringFunc(text, func(s string) string {
		ids := strings.Split(removedIDs.FindStringSubmatch(s)[1], ",")
		for i, id := range ids {
			ids[i] = named(id)
		}
		return "-remove " + strings.Join(ids, ",")
	})
	text = configZxid.ReplaceAllString(text, "V 127")
	text = peerPorts.ReplaceAllString(text, "PEER")
	text = memberZxid.ReplaceAllString(text, "${1}V")
	text = folderNames.ReplaceAllString(text, "=FOLDER/")
	lines := strings.Split(normalise(text), "\n")
	for i := 0; i < len(lines); i++ {
		end := i
		for end < len(lines) && strings.HasPrefix(lines[end], "server.") {
			end++
		}
		slices.Sort(lines[i:end])
		i = max(i, end)
	}
	return strings.Join(lines, "\n")
}

// versionOf asks for the version of the configuration, in decimal as the shell takes it.
func versionOf(t *testing.T, addr string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text, _, err := c.GetConfig(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(text), "version=")
	return version
}

// settledFiles returns them once they hold what the server says that is in force:
// they are written behind the answer. While the first configuration is in force there is nothing to wait for: where
// reconfig is off, none is written.
func settledFiles(t *testing.T, s *Server, first string) string {
	t.Helper()
	version := versionOf(t, s.Addr)
	if version == first {
		return configFiles(t, s.Folder)
	}
	for by := time.Now().Add(scriptPatience); time.Now().Before(by); {
		text, err := os.ReadFile(filepath.Join(s.Folder, "zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "dynamic."+version+"\n") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return configFiles(t, s.Folder)
}

// configFiles returns the server's zoo.cfg, the copy of the first one, and the
// dynamic file that it points to. Lines of zoo.cfg are sorted: Apache writes those
// that it keeps as a hash table has them.
func configFiles(t *testing.T, folder string) string {
	t.Helper()
	files := map[string]string{}
	names := []string{filepath.Join(folder, "zoo.cfg"), filepath.Join(folder, "zoo.cfg.bak")}
	for i := 0; i < len(names); i++ {
		name := names[i]
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?m)^dynamicConfigFile=(.*)$`).FindSubmatch(text); m != nil {
			names = append(names, string(m[1]))
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		slices.Sort(lines)
		files[filepath.Base(name)] = strings.Join(lines, "\n") + "\n"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s:\n%s", name, files[name])
	}
	return b.String()
}
