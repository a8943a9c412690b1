package recipe

import (
	"context"
	"fmt"

	"github.com/zooid-project/zooid/zk"
)

// A Group is this client's membership in a group, and its view of the other members. Each member is an ephemeral znode
// below the group's path, whose name is the member's id. The layout is that of Curator's GroupMember.
//
// While the connection is lost, the view doesn't change. A member whose session expires is gone for the others, and
// comes back with its next session. An error that isn't temporary ends the membership and deletes its znode (see
// Ephemeral); Self().Wait returns it.
type Group struct {
	self *Ephemeral
	view *Cache
}

// JoinGroup makes this client a member of the group at path, with the name id, which must have no slash (with one, Wait
// never succeeds), and the data Options.Data. Each member needs an id of its own: a second one with the same id waits
// until the first has left. JoinGroup returns at once; Wait waits. The caller must Close the Group.
func JoinGroup(sessions *zk.Sessions, path, id string, opt Options) *Group {
	return &Group{NewEphemeral(sessions, join(path, id), opt), NewChildrenCache(sessions, path)}
}

// Self returns this client's membership; its SetData replaces this member's data.
func (g *Group) Self() *Ephemeral { return g.self }

// Wait waits until this client is a member and View has its znode, and so all members from before it: of two clients
// that join at once, at least one sees the other. It fails as Ephemeral.Wait and Cache.Wait do. This client must be
// allowed to read its own znode (Options.ACL).
func (g *Group) Wait(ctx context.Context) error {
	f, _ := g.view.subscribe()
	defer g.view.unsubscribe(f)
	for {
		_, err := g.self.Wait(ctx)
		if err == nil {
			err = g.view.Wait(ctx)
		}
		if err != nil {
			return err
		}
		czxid, selfChanged, _ := g.self.state()
		_, viewChanged, _ := g.view.state()
		if node, ok := g.view.Get(g.self.path); ok && czxid != 0 && node.Stat.Czxid >= czxid {
			return nil
		}
		select {
		case <-f.ready:
		case <-selfChanged:
		case <-viewChanged:
		case <-ctx.Done():
			return fmt.Errorf("recipe: group %s: %w", g.view.root, ctx.Err())
		}
	}
}

// Members returns the data of the known members by id, this client included. It sends no request. The map belongs to
// the caller; the data must not be changed.
func (g *Group) Members() map[string][]byte {
	members := map[string][]byte{}
	for path, node := range g.view.Snapshot() {
		if path != g.view.root {
			members[nameOf(path)] = node.Data
		}
	}
	return members
}

// View returns the cache of the group's znode and its members, whose Events report joins and departures. Group.Close
// closes it.
func (g *Group) View() *Cache { return g.view }

// Close leaves the group. It waits as Ephemeral.Close does. Members can still be called. It is idempotent.
func (g *Group) Close() {
	g.self.Close()
	g.view.Close()
}

// Members returns the data of a group's members by id, without joining it. It takes a request for each member. If the
// group's path doesn't exist, the map is nil.
func Members(ctx context.Context, c *zk.Client, path string) (map[string][]byte, error) {
	return childrenData(ctx, c, path)
}
