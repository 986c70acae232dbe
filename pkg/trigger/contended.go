package trigger

import (
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Contend marks an object as contended: its drift is queued with ContendedPriority, at
// notBefore or later. So a writer that changes the object thousands of times until then causes
// no reconcile.
func (f *Factory) Contend(owner Owner, key ObjectKey, notBefore time.Time) {
	p := &f.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.contended[owner] == nil {
		p.contended[owner] = map[ObjectKey]time.Time{}
	}
	p.contended[owner][key] = notBefore
}

// EndContention removes the mark of a contended object.
func (f *Factory) EndContention(owner Owner, key ObjectKey) {
	p := &f.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.contended[owner], key)
	if len(p.contended[owner]) == 0 {
		delete(p.contended, owner)
	}
}

// EndContentions removes the marks of all contended objects of an owner.
func (f *Factory) EndContentions(owner Owner) {
	p := &f.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.contended, owner)
}

// queueOptions returns the priority and delay for the drift of an object.
func (p *pendingCauses) queueOptions(owner Owner, key ObjectKey) priorityqueue.AddOpts {
	p.mu.Lock()
	defer p.mu.Unlock()
	notBefore, contended := p.contended[owner][key]
	if !contended {
		return priorityqueue.AddOpts{Priority: ptr.To(driftPriority)}
	}
	return priorityqueue.AddOpts{Priority: ptr.To(ContendedPriority), After: max(0, time.Until(notBefore))}
}
