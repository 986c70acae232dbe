package faultproxy

import (
	"slices"
	"sync/atomic"
)

// Rule is a fault that is in force for the requests of a Match. Its methods are
// safe for concurrent use.
type Rule struct {
	proxy *Proxy
	match Match
	fault Fault
	// removed is closed by Remove.
	removed chan struct{}

	// matched and hits are guarded by proxy.mu.
	matched, hits int
	// holding counts the requests that Stall and Late hold now.
	holding atomic.Int32
}

// Inject puts a fault in force, from now on, for the requests that match. Where
// several rules match a request, the newest one wins. Requests that are running
// are left alone.
func (p *Proxy) Inject(match Match, fault Fault) *Rule {
	r := &Rule{proxy: p, match: match, fault: fault, removed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// Hits returns how many requests the fault has hit.
func (r *Rule) Hits() int {
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	return r.hits
}

// Holding returns how many requests the fault holds now: Stall before the API server gets them, Late after it has answered them.
func (r *Rule) Holding() int { return int(r.holding.Load()) }

// Remove takes the fault away and lets go of what it stalls. It is idempotent.
func (r *Rule) Remove() {
	p := r.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.rules, r); i >= 0 {
		p.rules = slices.Delete(p.rules, i, i+1)
		close(r.removed)
	}
}

// Mark is a place in the record of requests.
type Mark int

// Mark returns the end of the record as it is now, for Requests.
func (p *Proxy) Mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark(len(p.requests))
}

// Requests returns the requests that match and arrived since the mark, in the
// order in which they did, whether a fault hit them or not. A watch counts when
// it is asked for. The zero Mark is the start of the proxy. It is cheap enough
// to be polled.
func (p *Proxy) Requests(since Mark, match Match) []Request {
	p.mu.Lock()
	// What was appended is never changed.
	requests := p.requests[since:]
	p.mu.Unlock()
	var matching []Request
	for _, q := range requests {
		if match.matches(q) {
			matching = append(matching, q)
		}
	}
	return matching
}

// admit records a request and returns the rule whose fault hits it, nil where
// there is none.
func (p *Proxy) admit(q Request) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, q)
	for _, r := range slices.Backward(p.rules) {
		exhausted := r.fault.limited && r.hits >= r.fault.times
		if exhausted || !r.match.matches(q) {
			continue
		}
		if r.matched++; r.matched > r.fault.passed {
			r.hits++
			return r
		}
	}
	return nil
}
