package peer

// Buffered returns how many bytes wait for peers, and how many of the log are kept in memory for them.
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
