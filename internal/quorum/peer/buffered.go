package peer

// Buffered returns the memory in bytes that the queues for peers and the log's cache use together.
func (p *Peer) Buffered() int64 {
	n := int64(p.o.Dir.Log().Stats().CacheBytes)
	p.transport.mu.Lock()
	defer p.transport.mu.Unlock()
	for _, r := range p.transport.remotes { // any order: a sum
		r.mu.Lock()
		n += int64(cap(r.queue))
		r.mu.Unlock()
	}
	return n
}
