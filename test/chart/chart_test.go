// Package chart tests deploy/helm with Helm's own library and Kubernetes' own types. It is a module of its own, so that
// the program's go.mod has neither.
package chart

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/zooid-project/zooid/internal/config"
)

const dir = "../../deploy/helm/zooid"

// sets are the values that the chart is rendered with.
var sets = map[string]string{
	"defaults": "",
	"one":      "replicas: 1\npodDisruptionBudget: {enabled: false}\n",
	"secure":   "tls: {enabled: true, secretName: zooid-tls}\nensembleSecret: a-secret-of-the-ensemble\n",
	"theirs":   "existingSecret: of-the-ensemble\nnetworkPolicy: {enabled: true}\n",
	"watched":  "metrics: {enabled: true, serviceMonitor: {enabled: true, interval: 10s, labels: {release: prometheus}}}\n",
	"all": `replicas: 5
image: {repository: registry.example/zooid, tag: "1.2.3", pullSecrets: [{name: pull}]}
config: {tickTime: 1000, maxSessionTimeout: 60000, "4lw.commands.whitelist": "srvr"}
ensembleSecret: a-secret-of-the-ensemble
tls: {enabled: true, secretName: zooid-tls, clientAuth: want}
persistence: {size: 100Gi, storageClass: fast, annotations: {a: b}}
resources: {requests: {cpu: "2", memory: 4Gi}, limits: {cpu: "4", memory: 8Gi}}
metrics: {enabled: true, port: 9000, serviceMonitor: {enabled: true}}
podDisruptionBudget: {enabled: true, maxUnavailable: 2}
service: {type: LoadBalancer, annotations: {x: y}}
podAnnotations: {p: q}
nodeSelector: {disk: ssd}
tolerations: [{key: zooid, operator: Exists}]
priorityClassName: high
podLabels: {team: data}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]
networkPolicy: {enabled: true, clients: [{podSelector: {matchLabels: {client: "yes"}}}], monitoring: [{namespaceSelector: {}}]}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]}}}
serviceAccount: {annotations: {m: n}}
`,
}

// rendered is what a release holds.
type rendered struct {
	kinds    []string
	set      apps.StatefulSet
	services map[string]core.Service
	config   core.Secret
	budget   *policy.PodDisruptionBudget
	monitor  *monitoring.ServiceMonitor
	network  *networking.NetworkPolicy
	job      *batch.Job
	notes    string
	text     string // of all manifests
}

// TestLint: helm lint has no complaint, with each set of values.
func TestLint(t *testing.T) {
	for name, text := range sets {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(dir, values, "apps", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// render renders the chart for a new release.
func render(t *testing.T, text string) (rendered, error) {
	t.Helper()
	return renderIn(t, text, nil)
}

// renderIn renders an upgrade of the release that a cluster has, or a new release if it has none.
func renderIn(t *testing.T, text string, has cluster) (rendered, error) {
	t.Helper()
	r := rendered{services: map[string]core.Service{}}
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, values,
		chartutil.ReleaseOptions{Name: "test", Namespace: "apps", IsInstall: has == nil, IsUpgrade: has != nil},
		chartutil.DefaultCapabilities)
	if err != nil {
		return r, err
	}
	files, err := engine.RenderWithClientProvider(c, all, has)
	if err != nil {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = file
			continue
		}
		r.text += file
		docs := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(file)))
		for {
			doc, err := docs.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes.TrimSpace(doc)) > 0 {
				r.take(t, name, doc)
			}
		}
	}
	return r, nil
}

// take decodes a manifest into its type; a field that the type doesn't have is an error.
func (r *rendered) take(t *testing.T, file string, doc []byte) {
	t.Helper()
	var head struct{ Kind, APIVersion string }
	if err := yaml.Unmarshal(doc, &head); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, doc)
	}
	if head.Kind == "" {
		return // comments alone
	}
	var into any
	var service core.Service
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 StatefulSet":
		into = &r.set
	case "v1 Service":
		into = &service
	case "v1 Secret":
		into = &r.config
	case "v1 ServiceAccount":
		into = &core.ServiceAccount{}
	case "batch/v1 Job":
		r.job = &batch.Job{}
		into = r.job
	case "policy/v1 PodDisruptionBudget":
		r.budget = &policy.PodDisruptionBudget{}
		into = r.budget
	case "networking.k8s.io/v1 NetworkPolicy":
		r.network = &networking.NetworkPolicy{}
		into = r.network
	case "monitoring.coreos.com/v1 ServiceMonitor":
		r.monitor = &monitoring.ServiceMonitor{}
		into = r.monitor
	default:
		t.Fatalf("%s: %s %s is not expected", file, head.APIVersion, head.Kind)
	}
	if err := yaml.UnmarshalStrict(doc, into); err != nil {
		t.Errorf("%s: %v\n%s", file, err, doc)
	}
	if service.Name != "" {
		r.services[service.Name] = service
	}
	r.kinds = append(r.kinds, head.Kind)
}

// TestRender renders each set of values, decodes every manifest strictly, and holds what belongs together against each
// other. Each server reads the zoo.cfg that it would be given.
func TestRender(t *testing.T) {
	for name, text := range sets {
		t.Run(name, func(t *testing.T) {
			r, err := render(t, text)
			if err != nil {
				t.Fatal(err)
			}
			replicas := int(*r.set.Spec.Replicas)
			pod := r.set.Spec.Template
			if r.set.Spec.ServiceName != "test-zooid-headless" ||
				!r.services[r.set.Spec.ServiceName].Spec.PublishNotReadyAddresses {
				t.Errorf("the set's service is %q among %v", r.set.Spec.ServiceName, r.services)
			}
			for label, value := range r.set.Spec.Selector.MatchLabels {
				if pod.Labels[label] != value {
					t.Errorf("the set's selector %s=%s isn't the pods'", label, value)
				}
			}
			ports := map[string]int32{}
			for _, p := range pod.Spec.Containers[0].Ports {
				ports[p.Name] = p.ContainerPort
			}
			for _, s := range r.services {
				for _, p := range s.Spec.Ports {
					if ports[p.TargetPort.StrVal] != p.Port {
						t.Errorf("port %s of service %s is %d, that of the pods %v", p.Name, s.Name, p.Port, ports)
					}
				}
			}
			c := pod.Spec.Containers[0]
			if ready := c.ReadinessProbe; ready == nil || ready.Exec == nil || !slices.Contains(ready.Exec.Command, "health") ||
				ready.Exec.Command[len(ready.Exec.Command)-1] != "/etc/zooid/zoo.cfg" {
				t.Errorf("the readiness probe is %v", ready)
			}
			for _, probe := range []*core.Probe{c.StartupProbe, c.LivenessProbe} {
				if probe == nil || probe.Exec == nil || !slices.Equal(probe.Exec.Command[1:3], []string{"health", "-alive"}) {
					t.Errorf("a probe is %v", probe)
				}
			}
			if (r.budget != nil) == (name == "one") || (r.monitor != nil) != slices.Contains([]string{"watched", "all"}, name) {
				t.Errorf("there are %v", r.kinds)
			}
			secure, theirs := strings.Contains(text, "tls: {enabled: true"), strings.Contains(text, "existingSecret")
			volumes := map[string]string{}
			for _, v := range pod.Spec.Volumes {
				if v.Name == "tmp" {
					if volumes["tmp"] = "tmp"; v.EmptyDir == nil {
						t.Errorf("the folder for temporary files is %+v", v)
					}
					continue
				}
				volumes[v.Name] = v.Secret.SecretName
			}
			if (ports["client"] == 2281) != secure || (volumes["tls"] == "zooid-tls") != secure ||
				(volumes["secret"] == "of-the-ensemble") != theirs || volumes["config"] != "test-zooid" {
				t.Errorf("ports %v, volumes %v", ports, volumes)
			}
			mounts := map[string]core.VolumeMount{}
			for _, m := range c.VolumeMounts {
				mounts[m.MountPath] = m
				if m.Name != "data" && volumes[m.Name] == "" {
					t.Errorf("there is no volume %s", m.Name)
				}
			}
			if mounts["/tmp"].Name != "tmp" || mounts["/tmp"].ReadOnly { // snapshots that the admin server sends or restores
				t.Error("there is no room for temporary files")
			}
			if from := mounts["/etc/zooid/ensemble-secret"]; from.SubPath != "ensemble-secret" ||
				(from.Name == "secret") != theirs {
				t.Errorf("the ensemble's secret is of %+v", from)
			}
			if n := len(r.config.StringData["ensemble-secret"]); (n < 20) != theirs {
				t.Errorf("the secret has %d characters", n)
			}
			superuser := strings.TrimPrefix(r.config.StringData["superuser"], "digest:")
			if !strings.HasPrefix(superuser, "super:") || len(superuser) < 20 || r.job != nil {
				t.Errorf("the superuser is %q; a new release has the Job %v", superuser, r.job)
			}
			if (r.network != nil) != (theirs || name == "all") {
				t.Errorf("there are %v", r.kinds)
			} else if r.network != nil {
				for _, rule := range r.network.Spec.Ingress {
					for _, p := range rule.Ports {
						if ports[p.Port.StrVal] == 0 {
							t.Errorf("the network policy lets in %s, which is no port", p.Port)
						}
					}
				}
			}
			if part := map[bool]string{true: ":2888:3888;;2281'", false: ":2888:3888;2181'"}[secure]; !strings.Contains(r.notes,
				fmt.Sprintf("reconfig -add 'server.%d=test-zooid-%d.", replicas+1, replicas)) || !strings.Contains(r.notes, part) {
				t.Errorf("the notes say %q", r.notes)
			}
			for i := range replicas {
				own := fmt.Sprintf("test-zooid-%d", i)
				id := r.config.StringData["myid-"+own]
				cfg := loaded(t, r.config.StringData["zoo.cfg"], id)
				if cfg == nil {
					continue
				}
				m, ok := cfg.Quorum.Members.Find(int64(i + 1))
				host := own + ".test-zooid-headless.apps.svc.cluster.local"
				if !ok || cfg.Quorum.MyID != int64(i+1) || len(cfg.Quorum.Members.Servers) != replicas || m.Addrs[0].Host != host ||
					!cfg.Quorum.Distributed {
					t.Errorf("server %d is %+v of %+v", i+1, m, cfg.Quorum.Members)
				}
				if !cfg.Admin.Enabled || cfg.Admin.Host != "127.0.0.1" {
					t.Errorf("the admin server is %+v", cfg.Admin)
				}
				if sum := sha1.Sum([]byte(superuser)); cfg.Auth.SuperDigest.Reveal() != "super:"+
					base64.StdEncoding.EncodeToString(sum[:]) {
					t.Errorf("the superuser %q has the digest %s", superuser, cfg.Auth.SuperDigest.Reveal())
				}
				if cfg.Quorum.SecretFile != "/etc/zooid/ensemble-secret" {
					t.Errorf("the secret is in %q", cfg.Quorum.SecretFile)
				}
				if plain := cfg.Client.Port; secure &&
					(plain >= 0 || cfg.Secure.Port != 2281 || m.Secure.Port != 2281 || !m.Client.IsZero()) ||
					!secure && (plain != 2181 || cfg.Secure.Port >= 0) {
					t.Errorf("clients are served at %+v and by TLS at %+v", cfg.Client, cfg.Secure)
				}
			}
		})
	}
}

// loaded reads a zoo.cfg as a server does; keys that it doesn't know, or refuses, fail the test.
func loaded(t *testing.T, text, id string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "zoo.cfg")
	text = strings.ReplaceAll(text, "/data\n", dir+"\n")
	for name, content := range map[string]string{"zoo.cfg": text, "myid": id} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(path, nil)
	if err != nil {
		t.Errorf("%v in\n%s", err, text)
		return nil
	}
	for _, w := range cfg.Warnings {
		if !strings.Contains(w.Text, "failure of one server") && !strings.HasPrefix(w.Key, "metricsProvider.") {
			t.Errorf("it warns: %v", w)
		}
	}
	return cfg
}

// TestRefused: values that would make an ensemble without its protection are refused, and names that are no values.
func TestRefused(t *testing.T) {
	for says, text := range map[string]string{
		"at least 20 characters": "ensembleSecret: short\n",
		"tls.secretName":         "tls: {enabled: true}\n",
		"give one of them":       "ensembleSecret: a-secret-of-the-ensemble\nexistingSecret: x\n",
		"replica":                "replica: 5\n",
		"secret":                 "tls: {secret: x}\n",
		"tickTime":               "config: {tickTime: [1]}\n",
	} {
		if _, err := render(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// changed are values other than values.yaml has, for those that aren't a number, a switch or any text.
var changed = map[string]string{
	"image.pullPolicy":              "Always",
	"image.pullSecrets":             "[{name: pull}]",
	"ensembleSecret":                "another-secret-of-the-ensemble",
	"tls.clientAuth":                "want",
	"podDisruptionBudget.enabled":   "false",
	"networkPolicy.clients":         "[{podSelector: {}}]",
	"networkPolicy.monitoring":      "[{podSelector: {}}]",
	"service.type":                  "NodePort",
	"tolerations":                   "[{operator: Exists}]",
	"topologySpreadConstraints":     "[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
	"affinity":                      "{nodeAffinity: {}}",
	"config.tickTime":               "2500",
	"config.4lw.commands.whitelist": "srvr",
}

// TestEachValueCounts changes one value of values.yaml after the other: each changes what is rendered, and the schema
// knows it. It restarts servers if they read what it changes at their start, and only then.
func TestEachValueCounts(t *testing.T) {
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	base := map[string]any{}
	if err := yaml.Unmarshal([]byte("tls: {enabled: true, secretName: tls}\nmetrics: {enabled: true, serviceMonitor: {enabled: true}}\nnetworkPolicy: {enabled: true}\nensembleSecret: a-secret-of-the-ensemble\nsuperuserPassword: of-the-superuser\n"),
		&base); err != nil {
		t.Fatal(err)
	}
	with := func(path []string, value any) rendered {
		t.Helper()
		values := map[string]any{}
		b, _ := yaml.Marshal(base)
		if err := yaml.Unmarshal(b, &values); err != nil {
			t.Fatal(err)
		}
		if len(path) > 0 {
			at := values
			for _, part := range path[:len(path)-1] {
				if at[part] == nil {
					at[part] = map[string]any{}
				}
				at = at[part].(map[string]any)
			}
			at[path[len(path)-1]] = value
			if path[0] == "existingSecret" {
				delete(values, "ensembleSecret")
			}
		}
		b, _ = yaml.Marshal(values)
		r, err := renderIn(t, string(b), cluster{}.with(t, 3, nil))
		if err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		return r
	}
	before := with(nil, nil)
	count := 0
	var walk func(path []string, value any)
	walk = func(path []string, value any) {
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
			for name := range inner {
				walk(append(slices.Clone(path), name), inner[name])
			}
			return
		}
		name := strings.Join(path, ".")
		var other any
		if text, ok := changed[name]; ok {
			if err := yaml.Unmarshal([]byte(text), &other); err != nil {
				t.Fatal(err)
			}
		} else {
			switch v := value.(type) {
			case bool:
				other = !v
			case float64:
				other = v + 1024
			case string:
				if other = "1" + v; v == "" { // so that a quantity or a time stays one
					other = "other"
				}
			case map[string]any:
				other = map[string]any{"a": "b"}
			default:
				t.Fatalf("%s: say in changed what else it may be than %v", name, value)
			}
			if path[0] == "replicas" {
				other = float64(5)
			} else if base[path[0]] != nil && value == false {
				other = false // base has it on
			}
		}
		count++
		after := with(path, other)
		if before.text == after.text {
			t.Errorf("%s: with %v everything is rendered as before", name, other)
		}
		const settings = "zooid/settings"
		restarts := before.set.Spec.Template.Annotations[settings] != after.set.Spec.Template.Annotations[settings]
		reads := path[0] == "config" || name == "ensembleSecret" || name == "tls.enabled" || name == "tls.clientAuth" ||
			name == "metrics.enabled" || name == "metrics.port" || name == "existingSecret" ||
			name == "superuserPassword" || name == "reconfig.enabled"
		if restarts != reads {
			t.Errorf("%s: servers restart for it: %t", name, restarts)
		}
	}
	walk(nil, c.Values)
	if count < 35 {
		t.Errorf("values.yaml has %d values", count)
	}
}

// TestAnnotationHidesSecrets: whoever may see pods sees the annotation by which servers restart. It is no plain hash of
// passwords with text that everybody knows, so that a guess costs more than a hash.
func TestAnnotationHidesSecrets(t *testing.T) {
	const secret, password = "a-secret-of-the-ensemble", "of-the-superuser"
	r, err := render(t, "ensembleSecret: "+secret+"\nsuperuserPassword: "+password+"\n")
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for line := range strings.Lines(r.config.StringData["zoo.cfg"]) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "server.") && !strings.Contains(line, "superDigest") && line != "" {
			settings = append(settings, line)
		}
	}
	guess := fmt.Sprintf("%x", sha256.Sum256([]byte("true\n"+password+"\n"+strings.Join(settings, "\n")+"\n"+secret)))
	if got := r.set.Spec.Template.Annotations["zooid/settings"]; got == guess || len(got) != len(guess) {
		t.Errorf("the annotation is %q, the hash of what can be guessed", got)
	}
}

// TestUpgrade: what an upgrade that grows or shrinks the ensemble leaves alone, so that no server that runs is
// restarted for it, and that new servers know all others.
func TestUpgrade(t *testing.T) {
	const secret = "ensembleSecret: a-secret-of-the-ensemble\nsuperuserPassword: of-the-superuser\n"
	three, err := render(t, secret)
	if err != nil {
		t.Fatal(err)
	}
	five, err := render(t, secret+"replicas: 5\n")
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b any) bool {
		x, _ := yaml.Marshal(a)
		y, _ := yaml.Marshal(b)
		return bytes.Equal(x, y)
	}
	if !same(three.set.Spec.Template, five.set.Spec.Template) ||
		!same(three.set.Spec.VolumeClaimTemplates, five.set.Spec.VolumeClaimTemplates) {
		t.Error("to grow restarts the servers that are there")
	}
	if text := five.config.StringData["zoo.cfg"]; strings.Count(text, "\nserver.") != 5 ||
		!strings.HasPrefix(text, strings.TrimSuffix(three.config.StringData["zoo.cfg"], "\n")) {
		t.Errorf("zoo.cfg of five servers is\n%s", text)
	}
	for i := range 3 {
		if key := fmt.Sprintf("myid-test-zooid-%d", i); five.config.StringData[key] != three.config.StringData[key] {
			t.Errorf("%s changes", key)
		}
	}
}
