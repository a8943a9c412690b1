package tree

import (
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// A listCache keeps the encoded lists of children of large znodes that are read often. Walking a thousand siblings
// takes a thousand cache misses; copying their names as one block takes a few microseconds. Concurrent reads fill the
// cache. Changes, which have exclusive access to the tree, drop the lists that they affect.
type listCache struct {
	mu    sync.Mutex
	lists map[uint32][]byte // by the parent's slot
	size  int               // bytes of all lists
}

const (
	listChildrenMin  = 32       // shorter lists are read as fast from the znodes
	listCacheSizeMax = 64 << 20 // bytes; at the limit the cache is emptied
	listSizeMax      = 8 << 20  // bytes; longer lists aren't cached
)

// forget drops the list of a znode whose children change.
func (c *listCache) forget(parent uint32) {
	if len(c.lists) == 0 {
		return
	}
	if list, ok := c.lists[parent]; ok {
		c.size -= len(list)
		delete(c.lists, parent)
	}
}

func (c *listCache) get(parent uint32) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists[parent]
}

func (c *listCache) put(parent uint32, list []byte) {
	if len(list) > listSizeMax {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.lists[parent]; ok {
		return // another reader was faster
	}
	if c.lists == nil || c.size+len(list) > listCacheSizeMax {
		c.lists, c.size = map[uint32][]byte{}, 0
	}
	c.lists[parent] = append([]byte(nil), list...)
	c.size += len(list)
}

// appendChildrenTo appends the names of a znode's children as a vector, in the order of their creation. It returns nil
// if the result would be longer than end.
func (z *znodes) appendChildrenTo(dst []byte, slot uint32, end int) []byte {
	n := z.extraOf(z.at(slot))
	if n.children >= listChildrenMin {
		if list := z.lists.get(slot); list != nil {
			if len(dst)+len(list) > end {
				return nil
			}
			return append(dst, list...)
		}
	}
	begin := len(dst)
	dst = jute.AppendInt(dst, int32(n.children))
	if n.children == 0 {
		return dst // an ephemeral znode uses the links otherwise
	}
	for c := n.first; c != 0; {
		child := z.at(c)
		name := z.name(child)
		if len(dst)+4+len(name) > end {
			return nil // before dst grows: a name can be nearly as long as a request
		}
		dst = jute.AppendString(dst, name)
		c = child.next
	}
	if n.children >= listChildrenMin {
		z.lists.put(slot, dst[begin:])
	}
	return dst
}
