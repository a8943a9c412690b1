package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// TestAdminServer asks Apache's admin server and Zooid's the same, of a server alone and of
// each role in an ensemble, and compares status codes, keys, types and error texts.
func TestAdminServer(t *testing.T) {
	reference, subject := programs(t)
	reference.classPath += string(filepath.ListSeparator) + filepath.Join(cacheFolder(t), "apache-admin", "*")
	needFile(t, filepath.Join(cacheFolder(t), "apache-admin", "stamp"))
	want, got := adminAnswers(t, reference), adminAnswers(t, subject)
	for _, request := range slices.Sorted(maps.Keys(want)) {
		if want[request] != got[request] && !adminDiffers(request, want[request], got[request]) {
			t.Errorf("%s:\n%s says\n%s\n%s says\n%s", request, reference.Name, onlyIn(want[request], got[request]), subject.Name,
				onlyIn(got[request], want[request]))
		}
	}
	fmt.Printf("\n%s: %d answers of %s compared with those of %s\n", t.Name(), len(want), reference.Name, subject.Name)
}

// adminDiffers reports the differences that docs/protocol.md names.
func adminDiffers(request, want, got string) bool {
	status := func(answer string) string { first, _, _ := strings.Cut(answer, "\n"); return first }
	method, path, _ := strings.Cut(request[strings.Index(request, ": ")+2:], " ")
	name, _, _ := strings.Cut(path, "?")
	switch {
	case status(want) == "500" && status(got) == "405": // the wrong method
		return true
	case status(want) == "429" && status(got) == "429": // Zooid says why
		return true
	// nothing to restore
	case method == "POST" && strings.HasPrefix(name, "rest") && status(want) == "500" && status(got) == "400":
		return true
	case method == "OPTIONS": // Apache allows TRACE and refuses it
		return status(want) == status(got)
	case name == "monitor" || name == "mntr": // a server alone is a leader as well
		return want == only(got, func(line string) bool { return !leadersAlone.MatchString(line) })
	case name == "dump": // a follower of Apache doesn't know when sessions end
		return want == only(got, func(line string) bool { return !strings.HasPrefix(line, ".expiry_time_to_session_ids") })
	case name == "initial_configuration" || name == "icfg": // an ensemble's server of Apache says null
		return want == strings.Replace(got, ".initial_configuration string", ".initial_configuration <nil>", 1)
	}
	return false
}

// leadersAlone are the metrics of a leader, which Zooid has on a server alone too.
var leadersAlone = regexp.MustCompile(`^\.(quorum_size|learners|synced_\w+|pending_syncs|leader_uptime|(last|min|max)_proposal_size) `)

// only returns the lines that keep keeps.
func only(text string, keep func(line string) bool) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !keep(line) }), "\n")
}

// adminAnswers returns the shape of each answer by role and request.
func adminAnswers(t *testing.T, p Program) map[string]string {
	t.Helper()
	shapes := map[string]string{}
	alone := StartEnsemble(t, p, 1,
		Options{Admin: true, Config: map[string]string{"admin.rateLimiterIntervalInMS": "0"}})[0]
	c := adminClient(t, alone)
	for i := range 150 { // enough for a digest to be kept
		if _, err := c.Create(t.Context(), fmt.Sprintf("/n%d", i), nil, zk.ModePersistent,
			zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	names := adminNames(t, alone)
	ask := func(s *Server, role, method, path, auth string) {
		shapes[strings.TrimSpace(role+": "+method+" "+path+" "+auth)] = adminShape(t, s, method, path, auth)
	}
	// Apache's limit on snapshots lets one through in an instant at the most.
	again := func(s *Server, role, method, path, auth string) {
		key := strings.TrimSpace(role + ": " + method + " " + path + " " + auth)
		for by := time.Now().Add(scriptPatience); time.Now().Before(by); {
			if ask(s, role, method, path, auth); !strings.HasPrefix(shapes[key], "429") {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	for _, name := range names {
		ask(alone, "alone", "GET", name, "")
		ask(alone, "alone", "POST", name, "")
		ask(alone, "alone", "HEAD", name, "")
	}
	namedOnRoot(t, c)
	for _, path := range []string{
		"nosuch", "a/b", "", "stmk?traceMask=12", "stmk?traceMask=x", "stmk?traceMask=", "snapshot?streaming=false",
		"snapshot?streaming=false&x=y",
	} {
		again(alone, "alone", "GET", path, "ip")
		ask(alone, "alone", "POST", path, "ip")
	}
	for _, method := range []string{"TRACE", "PUT", "DELETE", "OPTIONS", "PATCH", "FOO"} {
		ask(alone, "alone", method, "ruok", "")
	}
	// All five permissions are needed: each is taken away from addresses once.
	acl := func(lacking zk.Perm) {
		list := []zk.ACL{
			{Perms: zk.PermAll &^ lacking, ID: zk.ID{Scheme: "ip", ID: "127.0.0.1"}},
			{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}},
		}
		if _, err := c.SetACL(t.Context(), "/", list, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, lacking := range []zk.Perm{0, zk.PermRead, zk.PermWrite, zk.PermCreate, zk.PermDelete, zk.PermAdmin} {
		acl(lacking)
		for _, auth := range []string{
			"", "ip", "ip x", "ip x y", "digest a:b", "digest a:c", "digest", "x509", "x509 y", "nosuch", "nosuch z", "sasl x",
		} {
			role := fmt.Sprintf("without %v", lacking)
			again(alone, role, "GET", "snapshot?streaming=false", auth)
			again(alone, role, "GET", "snap?streaming=true", auth)
			ask(alone, role, "POST", "restore", auth)
			ask(alone, role, "GET", "rest", auth)
		}
	}
	once := StartEnsemble(t, p, 1,
		Options{Admin: true, Config: map[string]string{"admin.rateLimiterIntervalInMS": "600000000"}})[0]
	namedOnRoot(t, adminClient(t, once))
	ask(once, "the first", "GET", "snapshot", "ip")
	ask(once, "the second", "GET", "snapshot", "ip")
	for _, s := range StartEnsemble(t, p, 4, Options{Admin: true, Observers: 1}) {
		role := modeOf(t, s)
		if shapes[role+": GET ruok"] != "" {
			continue // there are two followers
		}
		adminClient(t, s)
		for by := time.Now().Add(scriptPatience); time.Now().Before(by); { // until the observer is there too
			if ask(s, role, "GET", "observers", ""); role != "leader" ||
				strings.Contains(shapes["leader: GET observers"], "sid") {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		for _, name := range names {
			ask(s, role, "GET", name, "")
		}
	}
	return shapes
}

// namedOnRoot makes the ACL of / name addresses and the identity of c: the admin server of Zooid's takes no caller
// whom that ACL admits as everybody (docs/protocol.md).
func namedOnRoot(t *testing.T, c *zk.Client) {
	t.Helper()
	acl := []zk.ACL{
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: "127.0.0.1"}}, {Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}},
	}
	if _, err := c.SetACL(t.Context(), "/", acl, -1); err != nil {
		t.Fatal(err)
	}
}

// adminClient has a session with an ephemeral znode and a watch on s, until the test ends.
func adminClient(t *testing.T, s *Server) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addr, zk.Options{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte("a:b")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	path, err := c.Create(ctx, "/admin-", nil, zk.ModeEphemeralSequential, zk.WorldACL(zk.PermAll))
	if err == nil {
		_, _, _, err = c.GetW(ctx, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// adminAliases are all names beside those in the list of commands.
var adminAliases = strings.Fields("crst conf config cons env envi gtmk icfg isro lsnp lead mntr orst obsr rest srvr stmk snap srst stat sysp wchs wchc wchp")

// notApaches are the commands that Apache 3.9 lacks: 3.10 has shed_connections, the others are Zooid's own.
var notApaches = []string{"drain", "reload", "shed_connections", "top"}

// adminNames returns the commands of a server's list that Apache has, and the aliases.
func adminNames(t *testing.T, s *Server) []string {
	t.Helper()
	_, page := adminAsk(t, s, "GET", "", "")
	var names []string
	for _, m := range regexp.MustCompile(`<a href="/commands/(\w+)">`).FindAllStringSubmatch(page, -1) {
		if name := m[1]; !slices.Contains(notApaches, name) {
			names = append(names, name)
		}
	}
	if len(names) != 28 {
		t.Fatalf("the list of commands has %d: %v", len(names), names)
	}
	return append(names, adminAliases...)
}

func adminAsk(t *testing.T, s *Server, method, path, auth string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Admin+"/commands/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res, string(body)
}

// adminShape returns the status of an answer, its type, and its keys with their types.
func adminShape(t *testing.T, s *Server, method, path, auth string) string {
	t.Helper()
	res, body := adminAsk(t, s, method, path, auth)
	shape := []string{fmt.Sprint(res.StatusCode)}
	for _, name := range []string{"last_zxid", "snapshot_size"} {
		if value := res.Header.Get(name); value != "" {
			shape = append(shape,
				name+": "+regexp.MustCompile(`[0-9a-f]+`).ReplaceAllString(strings.TrimPrefix(value, "0x"), "N"))
		}
	}
	if kind := res.Header.Get("Content-Type"); kind != "application/json" {
		if res.StatusCode == http.StatusOK && kind == "application/octet-stream" {
			shape = append(shape, kind)
		}
		return strings.Join(shape, "\n")
	}
	shape = append(shape, "application/json")
	if method == "HEAD" {
		return strings.Join(shape, "\n")
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var answer map[string]any
	if err := d.Decode(&answer); err != nil {
		t.Fatalf("%s %s of %s: %v in %q", method, path, s.Program.Name, err, body)
	}
	for _, key := range []string{"command", "error"} { // texts count
		shape = append(shape, fmt.Sprintf("%s = %v", key, answer[key]))
		delete(answer, key)
	}
	var fields []string
	if name := shape[len(shape)-2]; name == "command = system_properties" {
		return strings.Join(shape, "\n") // those of a JVM
	}
	adminFields("", answer, &fields)
	slices.Sort(fields)
	return strings.Join(append(shape, slices.Compact(fields)...), "\n")
}

// keyed are the objects whose keys are ids, times or paths.
var keyed = map[string]bool{
	".expiry_time_to_session_ids": true, ".session_id_to_ephemeral_paths": true, ".session_id_to_watched_paths": true,
	".path_to_session_ids": true, ".current_config": true,
}

// adminFields adds a line for each key below v: where it is, and its type.
func adminFields(at string, v any, to *[]string) {
	switch x := v.(type) {
	case map[string]any:
		for key, value := range x { // any order: the caller sorts
			switch {
			case at == "" && (notHere.MatchString("zk_"+key) || strings.Contains(key, "learner_handler_qp")):
			case keyed[at]:
				adminFields(at+".KEY", value, to)
			default:
				adminFields(at+"."+key, value, to)
			}
		}
	case []any:
		*to = append(*to, at+" []")
		for _, value := range x {
			adminFields(at+"[]", value, to)
		}
	case json.Number:
		kind := "whole"
		if strings.ContainsAny(x.String(), ".eE") {
			kind = "fraction"
		}
		*to = append(*to, at+" "+kind)
	default:
		*to = append(*to, fmt.Sprintf("%s %T", at, v))
	}
}

// TestSnapshotLoadsAtApache restores a snapshot of Zooid's on a server of Apache by the admin
// servers of both: Apache has the znodes then.
func TestSnapshotLoadsAtApache(t *testing.T) {
	reference, subject := programs(t)
	reference.classPath += string(filepath.ListSeparator) + filepath.Join(cacheFolder(t), "apache-admin", "*")
	from := StartEnsemble(t, subject, 1, Options{Admin: true})[0]
	c := adminClient(t, from)
	namedOnRoot(t, c)
	for i := range 20 {
		if _, err := c.Create(t.Context(), fmt.Sprintf("/n%d", i), []byte("data"), zk.ModePersistent,
			zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	send := func(s *Server, method, path, body string) string {
		t.Helper()
		status, answer := callAdmin(t, s, method, path, body)
		if status != http.StatusOK {
			t.Fatalf("%s: %d, %.200s", path, status, answer)
		}
		return answer
	}
	to := StartEnsemble(t, reference, 1, Options{Admin: true})[0]
	send(to, "POST", "restore", send(from, "GET", "snapshot?format=apache", ""))
	restored := adminClient(t, to)
	data, stat, err := restored.Get(t.Context(), "/n19")
	want, _, _ := c.Exists(t.Context(), "/n19")
	if err != nil || string(data) != "data" || stat.Czxid != want.Czxid {
		t.Errorf("after the restore: %q, %+v, %v; want %+v", data, stat, err, want)
	}
}
