// Package chart tests deploy/helm with Helm's own library and Kubernetes' own types. It is a module of its own, so that the
// program's go.mod has neither.
package chart

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
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
	notes    string
}

// TestLint: helm lint has no complaint, with each set of values.
func TestLint(t *testing.T) {
	for name, text := range sets {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		lint := action.NewLint()
		lint.Strict = true
		for _, m := range lint.Run([]string{dir}, values).Messages {
			if m.Severity > 1 { // beyond what is merely said
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

func render(t *testing.T, text string) (rendered, error) {
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
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "test", Namespace: "apps", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return r, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return r, err
	}
	for name, file := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = file
			continue
		}
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
	case "policy/v1 PodDisruptionBudget":
		r.budget = &policy.PodDisruptionBudget{}
		into = r.budget
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

// TestRender renders each set of values, decodes every manifest strictly, and holds what belongs together against each other. Each
// server reads the zoo.cfg that it would be given.
func TestRender(t *testing.T) {
	for name, text := range sets {
		t.Run(name, func(t *testing.T) {
			r, err := render(t, text)
			if err != nil {
				t.Fatal(err)
			}
			replicas := int(*r.set.Spec.Replicas)
			pod := r.set.Spec.Template
			if r.set.Spec.ServiceName != "test-zooid-headless" || !r.services[r.set.Spec.ServiceName].Spec.PublishNotReadyAddresses {
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
			if ready := c.ReadinessProbe; ready == nil || ready.Exec == nil || !slices.Contains(ready.Exec.Command, "health") || ready.Exec.Command[len(ready.Exec.Command)-1] != "/etc/zooid/zoo.cfg" {
				t.Errorf("the readiness probe is %v", ready)
			}
			for _, probe := range []*core.Probe{c.StartupProbe, c.LivenessProbe} {
				if probe == nil || probe.TCPSocket == nil || ports[probe.TCPSocket.Port.StrVal] == 0 {
					t.Errorf("a probe is %v", probe)
				}
			}
			if (r.budget != nil) == (name == "one") || (r.monitor != nil) != slices.Contains([]string{"watched", "all"}, name) {
				t.Errorf("there are %v", r.kinds)
			}
			if secure := strings.Contains(text, "tls: {enabled: true"); (ports["client"] == 2281) != secure || (len(pod.Spec.Volumes) == 2) != secure {
				t.Errorf("ports %v, volumes %v", ports, pod.Spec.Volumes)
			}
			if !strings.Contains(r.notes, "reconfig -add") {
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
				if !ok || cfg.Quorum.MyID != int64(i+1) || len(cfg.Quorum.Members.Servers) != replicas || m.Addrs[0].Host != host || !cfg.Quorum.Distributed {
					t.Errorf("server %d is %+v of %+v", i+1, m, cfg.Quorum.Members)
				}
				if !cfg.Admin.Enabled || cfg.Admin.Host != "127.0.0.1" {
					t.Errorf("the admin server is %+v", cfg.Admin)
				}
				if n := len(cfg.Quorum.Secret.Reveal()); n < 20 || cfg.Quorum.Secret.Reveal() != r.config.StringData["ensemble-secret"] {
					t.Errorf("the secret has %d characters", n)
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

// TestRefused: values that would make an ensemble without its protection are refused.
func TestRefused(t *testing.T) {
	for says, text := range map[string]string{
		"at least 20 characters": "ensembleSecret: short\n",
		"tls.secretName":         "tls: {enabled: true}\n",
	} {
		if _, err := render(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
