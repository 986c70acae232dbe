package limits

import "sync"

// places bounds how many hold a place for each key, and for all keys together. It is safe for concurrent use.
type places struct {
	each, all int

	// mu guards held, the number of each key, and total.
	mu    sync.Mutex
	held  map[string]int
	total int
}

// take takes a place for a key, if one is free. leave releases it, and may be called in any case. An empty key is free of the bound of
// one key.
func (p *places) take(key string) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total >= p.all || key != "" && p.held[key] >= p.each {
		return func() {}, false
	}
	p.held[key]++
	p.total++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.total--
		if p.held[key]--; p.held[key] == 0 {
			delete(p.held, key)
		}
	}, true
}
