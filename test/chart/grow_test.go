package chart

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/zk"
)

// A cluster is what a release's namespace has, by kind and name, for what templates look up.
type cluster map[string]*unstructured.Unstructured

// with is a cluster with a release of some servers, and the Secret that was rendered for it.
func (c cluster) with(t *testing.T, replicas int, secret map[string]string) cluster {
	t.Helper()
	data := map[string]any{}
	for key, text := range secret {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	c["StatefulSet test-zooid"] = &unstructured.Unstructured{
		Object: map[string]any{"spec": map[string]any{"replicas": int64(replicas)}},
	}
	c["Secret test-zooid"] = &unstructured.Unstructured{Object: map[string]any{"data": data}}
	return c
}

// GetClientFor is what helm's lookup calls.
func (c cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return resources{has: c, kind: kind}, true, nil
}

// resources are those of one kind.
type resources struct {
	dynamic.NamespaceableResourceInterface
	has  cluster
	kind string
}

func (r resources) Namespace(string) dynamic.ResourceInterface { return r }

func (r resources) Get(_ context.Context, name string, _ meta.GetOptions,
	_ ...string) (*unstructured.Unstructured, error) {
	if found := r.has[r.kind+" "+name]; found != nil {
		return found, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.kind}, name)
}

// upgraded renders an upgrade to so many servers of a release that has others.
func upgraded(t *testing.T, from rendered, to int, values string) rendered {
	t.Helper()
	r, err := renderIn(t, fmt.Sprintf("replicas: %d\n%s", to, values),
		cluster{}.with(t, int(*from.set.Spec.Replicas), from.config.StringData))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReconfigJobs: which Jobs an upgrade has, what they do, and that they may.
func TestReconfigJobs(t *testing.T) {
	member := func(i int, part string) string {
		return fmt.Sprintf("server.%d=test-zooid-%d.test-zooid-headless.apps.svc.cluster.local:2888:3888;%s", i, i-1, part)
	}
	for _, c := range []struct {
		from, to int
		values   string
		hook     string // no Job if it is empty
		change   []string
	}{
		{3, 5, "", "post-upgrade", []string{
			"-add", strings.Join([]string{
				member(1, "2181"), member(2, "2181"), member(3, "2181"), member(4, "2181"), member(5, "2181"),
			}, ","),
		}},
		{3, 3, "", "post-upgrade", []string{
			"-add", strings.Join([]string{member(1, "2181"), member(2, "2181"), member(3, "2181")}, ","),
		}},
		{1, 2, "tls: {enabled: true, secretName: zooid-tls}\n",
			"post-upgrade", []string{"-add", member(1, ";2281") + "," + member(2, ";2281")}},
		{5, 3, "networkPolicy: {enabled: true, clients: [{podSelector: {}}]}\n", "pre-upgrade", []string{"-remove", "4,5"}},
		{5, 3, "reconfig: {enabled: false}\n", "", nil},
		{5, 3, "config: {DigestAuthenticationProvider.superDigest: \"super:x\"}\n", "", nil},
		{5, 3, "config: {DigestAuthenticationProvider.superDigest: \"super:x\"}\nsuperuserPassword: of-theirs\n",
			"pre-upgrade", []string{"-remove", "4,5"}},
	} {
		name := fmt.Sprintf("%d to %d, %s", c.from, c.to, c.values)
		before, err := render(t, fmt.Sprintf("replicas: %d\nensembleSecret: a-secret-of-the-ensemble\n%s", c.from, c.values))
		if err != nil {
			t.Fatal(err)
		}
		r := upgraded(t, before, c.to, c.values)
		if r.config.StringData["superuser"] != before.config.StringData["superuser"] ||
			strings.Contains(r.config.StringData["zoo.cfg"], "superDigest") == (c.hook == "" &&
				strings.HasPrefix(c.values, "reconfig")) {
			t.Errorf("%s: the superuser was %q and is %q", name, before.config.StringData["superuser"],
				r.config.StringData["superuser"])
		}
		if n := strings.Count(r.config.StringData["zoo.cfg"], "superDigest="); n > 1 {
			t.Errorf("%s: zoo.cfg has %d digests of the superuser", name, n)
		}
		if (r.job != nil) != (c.hook != "") {
			t.Errorf("%s: the Job is %v", name, r.job)
		}
		if r.job == nil || c.hook == "" {
			continue
		}
		pod := r.job.Spec.Template
		args := pod.Spec.Containers[0].Args
		if r.job.Annotations["helm.sh/hook"] != c.hook || !slices.Equal(args[len(args)-2:], c.change) ||
			args[len(args)-3] != "reconfig" || args[0] != "cli" {
			t.Errorf("%s: the Job of %v has the arguments %q", name, r.job.Annotations, args)
		}
		if n := strings.Count(args[2], ","); args[1] != "-server" || n != min(c.from, c.to)-1 {
			t.Errorf("%s: it asks %q", name, args[2])
		}
		if secure := strings.Contains(c.values, "tls"); slices.Contains(args, "-tls-ca") != secure ||
			(len(pod.Spec.Volumes) == 2) != secure {
			t.Errorf("%s: arguments %q, volumes %v", name, args, pod.Spec.Volumes)
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			if m.SubPath != "" && r.config.StringData[m.SubPath] == "" {
				t.Errorf("%s: the Secret has no %s", name, m.SubPath)
			}
		}
		for label, value := range r.set.Spec.Selector.MatchLabels {
			if pod.Labels[label] == value && label == "app.kubernetes.io/name" {
				t.Errorf("%s: services take the Job's pod for a server: %v", name, pod.Labels)
			}
		}
		if r.network != nil {
			let := false
			for _, rule := range r.network.Spec.Ingress {
				for _, from := range rule.From {
					let = let ||
						from.PodSelector != nil && pod.Labels["zooid/reconfig"] != "" &&
							from.PodSelector.MatchLabels["zooid/reconfig"] == pod.Labels["zooid/reconfig"]
				}
			}
			if !let {
				t.Errorf("%s: the network policy keeps the Job out", name)
			}
		}
	}
	// A release of a chart without superusers: nobody could remove the servers.
	if _, err := renderIn(t, "replicas: 3\n",
		cluster{}.with(t, 5, map[string]string{"ensemble-secret": "a-secret-of-the-ensemble"})); err == nil ||
		!strings.Contains(err.Error(), "upgrade once without lowering it") {
		t.Errorf("a release without a superuser is shrunk: %v", err)
	}
}

// An ensemble runs the servers of a release on this machine: what differs from pods are addresses and folders.
type ensemble struct {
	t       *testing.T
	program string
	dir     string
	ports   []int // of server i: 4i for the quorum, 4i+1 for elections, 4i+2 for clients, 4i+3 for its admin server
	running map[int]*exec.Cmd
}

const mostServers = 5

func newEnsemble(t *testing.T) *ensemble {
	t.Helper()
	e := &ensemble{t: t, dir: t.TempDir(), ports: freeport.Take(t, 4*mostServers), running: map[int]*exec.Cmd{}}
	e.program = filepath.Join(e.dir, "zooid")
	build := exec.Command("go", "build", "-o", e.program, "./cmd/zooid")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		for _, c := range e.running {
			c.Process.Kill()
			c.Wait()
		}
	})
	return e
}

func (e *ensemble) client(i int) string { return fmt.Sprintf("127.0.0.1:%d", e.ports[4*i+2]) }

// here puts this machine's addresses and folders into a text of the chart's.
func (e *ensemble) here(text, folder string) string {
	for i := range mostServers {
		host := fmt.Sprintf("test-zooid-%d.test-zooid-headless.apps.svc.cluster.local", i)
		text = strings.ReplaceAll(text, host+":2888:3888;2181",
			fmt.Sprintf("127.0.0.1:%d:%d;%s", e.ports[4*i], e.ports[4*i+1], e.client(i)))
		text = strings.ReplaceAll(text, host+":2181", e.client(i))
	}
	text = strings.ReplaceAll(text, "dataDir=/data\n", "dataDir="+folder+"/data\n")
	text = strings.ReplaceAll(text, "quorumListenOnAllIPs=true", "quorumListenOnAllIPs=false")
	return strings.ReplaceAll(text, "/etc/zooid/", folder+"/")
}

// start starts the server of a pod with the files that the release gives it.
func (e *ensemble) start(r rendered, i int) {
	e.t.Helper()
	folder := filepath.Join(e.dir, fmt.Sprint(i))
	pod := fmt.Sprintf("test-zooid-%d", i)
	err := os.MkdirAll(filepath.Join(folder, "data"), 0o700)
	for name, text := range map[string]string{
		"zoo.cfg": e.here(r.config.StringData["zoo.cfg"], folder) + fmt.Sprintf("admin.serverPort=%d\n",
			e.ports[4*i+3]),
		"data/myid":       r.config.StringData["myid-"+pod],
		"ensemble-secret": r.config.StringData["ensemble-secret"],
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	if err != nil {
		e.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	args := []string{}
	for _, a := range r.set.Spec.Template.Spec.Containers[0].Args {
		args = append(args, e.here(a, folder))
	}
	c := exec.Command(e.program, args...)
	c.Stderr, c.SysProcAttr = log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.running[i] = c
	e.t.Cleanup(func() {
		if text, _ := os.ReadFile(filepath.Join(folder, "log")); e.t.Failed() {
			e.t.Logf("the log of server %d ends\n%s", i+1, text[max(0, len(text)-4000):])
		}
	})
}

func (e *ensemble) stop(i int, by os.Signal) {
	e.t.Helper()
	c := e.running[i]
	delete(e.running, i)
	if err := c.Process.Signal(by); err != nil {
		e.t.Fatal(err)
	}
	if err := c.Wait(); err != nil && by == syscall.SIGTERM {
		e.t.Errorf("server %d ends with %v", i+1, err)
	}
}

// patience bounds what must come on a loaded machine.
const patience = 2 * time.Minute

// do runs the Job of a release: its image's program with its arguments, and again until it succeeds, as the Job does.
func (e *ensemble) do(r rendered) {
	e.t.Helper()
	folder := filepath.Join(e.dir, "job")
	if err := errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "superuser"), []byte(r.config.StringData["superuser"]), 0o600)); err != nil {
		e.t.Fatal(err)
	}
	var args []string
	for _, a := range r.job.Spec.Template.Spec.Containers[0].Args {
		args = append(args, e.here(a, folder))
	}
	for by := time.Now().Add(patience); ; time.Sleep(300 * time.Millisecond) {
		out, err := exec.Command(e.program, args...).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(by) {
			e.t.Fatalf("the Job fails: %v\n%s", err, out)
		}
	}
}

// write writes by a server until that is done.
func (e *ensemble) write(i int, text string) {
	e.t.Helper()
	for by := time.Now().Add(patience); ; time.Sleep(300 * time.Millisecond) {
		err := e.once(i, text)
		if err == nil {
			return
		}
		if time.Now().After(by) {
			e.t.Fatalf("server %d takes no write: %v", i+1, err)
		}
	}
}

func (e *ensemble) once(i int, text string) error {
	ctx, cancel := context.WithTimeout(e.t.Context(), 10*time.Second)
	defer cancel()
	c, err := zk.Open(ctx, e.client(i), zk.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/kept", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil &&
		!errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	_, err = c.Set(ctx, "/kept", []byte(text), -1)
	return err
}

// voters returns the ids of the voters that a server knows, and what the znode holds.
func (e *ensemble) voters(i int) (ids []string, kept string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	c, err := zk.Open(ctx, e.client(i), zk.Options{})
	if err != nil {
		e.t.Fatal(err)
	}
	defer c.Close()
	err = c.Sync(ctx, "/")
	text, _, configErr := c.GetConfig(ctx)
	data, _, dataErr := c.Get(ctx, "/kept")
	if err := errors.Join(err, configErr, dataErr); err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if id, rest, ok := strings.Cut(line, "="); ok && strings.Contains(rest, ":participant") {
			ids = append(ids, strings.TrimPrefix(id, "server."))
		}
	}
	return ids, string(data)
}

// TestGrowAndShrink runs the servers of a release from the files that it renders, and its Jobs by their own commands: 3
// servers become 5, of which any two may go, and 3 again, of which one may, and 5 again on the volumes that stayed. No
// server that was there is restarted for it.
func TestGrowAndShrink(t *testing.T) {
	e := newEnsemble(t)
	three, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		e.start(three, i)
	}
	e.write(0, "of three")

	five := upgraded(t, three, 5, "")
	for i := 3; i < 5; i++ {
		e.start(five, i)
	}
	e.do(five)
	e.do(five) // it may be done again
	for i := range 5 {
		if ids, kept := e.voters(i); !slices.Equal(ids, []string{"1", "2", "3", "4", "5"}) || kept != "of three" {
			t.Fatalf("server %d knows the voters %q and has %q", i+1, ids, kept)
		}
	}
	e.stop(0, syscall.SIGKILL)
	e.stop(1, syscall.SIGKILL)
	e.write(4, "of five") // with three of five: of three voters one would be left
	e.start(five, 0)
	e.start(five, 1)
	e.write(0, "of five again")

	again := upgraded(t, five, 3, "")
	e.do(again)
	e.do(again)
	e.stop(3, syscall.SIGTERM)
	e.stop(4, syscall.SIGTERM)
	for i := range 3 {
		if ids, kept := e.voters(i); !slices.Equal(ids, []string{"1", "2", "3"}) || kept != "of five again" {
			t.Fatalf("server %d knows the voters %q and has %q", i+1, ids, kept)
		}
	}
	e.stop(2, syscall.SIGKILL)
	e.write(1, "of three again") // with two of three: of five voters two would be too few
	e.start(again, 2)

	last := upgraded(t, again, 5, "")
	e.start(last, 3) // its volume is still that of the server that was removed
	e.start(last, 4)
	e.do(last)
	if ids, kept := e.voters(4); !slices.Equal(ids, []string{"1", "2", "3", "4", "5"}) || kept != "of three again" {
		t.Fatalf("server 5 knows the voters %q and has %q", ids, kept)
	}
}
