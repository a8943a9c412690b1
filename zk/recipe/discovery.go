package recipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// An Instance is one running copy of a service. Its JSON form is that of Curator's ServiceInstance.
type Instance struct {
	Name    string `json:"name"` // of the service
	ID      string `json:"id"`   // unique in the service; Register sets it if it is empty
	Address string `json:"address"`
	Port    *int   `json:"port"`    // nil for none
	SSLPort *int   `json:"sslPort"` // nil for none

	// Payload is the application's own JSON, or nil. Java clients expect the form of their payload class.
	Payload json.RawMessage `json:"payload"`

	RegisteredMs int64           `json:"registrationTimeUTC"` // ms since 1970; Register sets it if it is 0
	Type         string          `json:"serviceType"`         // Register sets DYNAMIC if it is empty; it has no effect
	URISpec      json.RawMessage `json:"uriSpec"`             // Curator's template of the URI, or nil

	// Disabled asks clients not to use the instance although it is registered.
	Disabled bool `json:"-"`
}

// instanceJSON is the JSON form of an Instance: Curator has the member enabled, which is true if missing.
type instanceJSON struct {
	plainInstance
	Enabled *bool `json:"enabled"`
}

type plainInstance Instance

// MarshalJSON returns Curator's form.
func (i Instance) MarshalJSON() ([]byte, error) {
	enabled := !i.Disabled
	return json.Marshal(instanceJSON{plainInstance(i), &enabled})
}

// UnmarshalJSON parses Curator's form.
func (i *Instance) UnmarshalJSON(data []byte) error {
	var in instanceJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*i = Instance(in.plainInstance)
	i.Disabled = in.Enabled != nil && !*in.Enabled
	return nil
}

// A Discovery registers and finds instances of services. Its layout is that of Curator: path/service/id is an ephemeral
// znode whose data are JSON.
type Discovery struct {
	sessions *zk.Sessions
	path     string
	opt      Options
}

// NewDiscovery returns the discovery at path. It doesn't use Options.Data.
func NewDiscovery(sessions *zk.Sessions, path string, opt Options) *Discovery {
	return &Discovery{sessions, path, opt}
}

// Register keeps an instance registered, in each new session too, until the returned Ephemeral is closed or an error
// ends it (see Ephemeral). It doesn't wait; Ephemeral.Wait does. It fails if the instance has no name, if its name or
// id has a slash, or if it has no JSON form. It sets i's ID, RegisteredMs and Type if they are empty, and doesn't keep
// i. To change the instance later, change i and pass its JSON form to Ephemeral.SetData.
func (d *Discovery) Register(i *Instance) (*Ephemeral, error) {
	if i.Name == "" || strings.Contains(i.Name+i.ID, "/") {
		return nil, fmt.Errorf("recipe: register %q, id %q: a service needs a name, and neither may have a slash", i.Name,
			i.ID)
	}
	if i.ID == "" {
		i.ID = newUUID()
	}
	if i.RegisteredMs == 0 {
		i.RegisteredMs = time.Now().UnixMilli()
	}
	if i.Type == "" {
		i.Type = "DYNAMIC"
	}
	data, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("recipe: register %s: %w", i.Name, err)
	}
	return NewEphemeral(d.sessions, join(join(d.path, i.Name), i.ID), Options{Data: data, ACL: d.opt.ACL}), nil
}

// Names returns the names of the services whose directories exist, sorted. A service whose last instance is gone stays
// listed until its directory is removed. Names returns none if the discovery's path doesn't exist.
func (d *Discovery) Names(ctx context.Context) ([]string, error) {
	c, err := d.sessions.Client(ctx)
	if err != nil {
		return nil, err
	}
	names, _, err := c.Children(ctx, d.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// Instances requests a service's instances from the ensemble, in the order of their ids and including disabled ones. It
// takes a request for each. It omits data that aren't an Instance. It returns none, and no error, if there is no such
// service. For frequent use a Provider is cheaper.
func (d *Discovery) Instances(ctx context.Context, name string) ([]Instance, error) {
	c, err := d.sessions.Client(ctx)
	if err != nil {
		return nil, err
	}
	data, err := childrenData(ctx, c, join(d.path, name))
	return instancesOf(data), err
}

// childrenData returns the data of path's children by name, without children that are deleted during the call.
func childrenData(ctx context.Context, c *zk.Client, path string) (map[string][]byte, error) {
	names, _, err := c.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	for _, name := range names {
		data, _, err := c.Get(ctx, join(path, name))
		switch {
		case err == nil:
			all[name] = data
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
	return all, nil
}

// instancesOf parses the instances in data and returns them in the order of their ids. It omits data that aren't an
// instance, so that one broken registration doesn't hide the others.
func instancesOf(data map[string][]byte) []Instance {
	var list []Instance
	for _, b := range data {
		var i Instance
		if json.Unmarshal(b, &i) == nil {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b Instance) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// A Provider follows the instances of a service. Its methods send no request. While the connection is lost, the
// instances don't change. Several goroutines may use it.
type Provider struct {
	cache *Cache
	turn  atomic.Uint64
}

// Provider starts to follow a service and returns at once; Wait waits. The caller must Close the Provider.
func (d *Discovery) Provider(name string) *Provider {
	return &Provider{cache: NewChildrenCache(d.sessions, join(d.path, name))}
}

// Wait waits until the instances are known. It fails as Cache.Wait does.
func (p *Provider) Wait(ctx context.Context) error { return p.cache.Wait(ctx) }

// All returns the instances that aren't disabled, in the order of their ids. It omits data that aren't an Instance.
// Each call parses all instances.
func (p *Provider) All() []Instance {
	data := map[string][]byte{}
	for path, node := range p.cache.Snapshot() {
		if path != p.cache.root {
			data[path] = node.Data
		}
	}
	return slices.DeleteFunc(instancesOf(data), func(i Instance) bool { return i.Disabled })
}

// Next returns the instances that aren't disabled one after another, round robin. ok is false if there is none. It
// parses all instances, as All does.
func (p *Provider) Next() (i Instance, ok bool) {
	all := p.All()
	if len(all) == 0 {
		return Instance{}, false
	}
	return all[(p.turn.Add(1)-1)%uint64(len(all))], true
}

// Cache returns the provider's cache, whose Events report new and removed instances. Provider.Close closes it.
func (p *Provider) Cache() *Cache { return p.cache }

// Close ends the provider. It is idempotent.
func (p *Provider) Close() { p.cache.Close() }
