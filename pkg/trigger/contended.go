package trigger

import (
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Contend notes that an object is contended. From now on its drift is queued with
// ContendedPriority, and only for notBefore if that is in the future: a writer that
// changes the object thousands of times meanwhile costs no reconcile.
func (f *Factory) Contend(owner Owner, key ObjectKey, notBefore time.Time) {
	f.pending.addContended(owner, key, notBefore)
}

// EndContention notes that an object is no longer contended.
func (f *Factory) EndContention(owner Owner, key ObjectKey) { f.pending.removeContended(owner, key) }

// EndContentions notes that no object of an owner is contended.
func (f *Factory) EndContentions(owner Owner) { f.pending.removeAllContended(owner) }

// queueOptions returns how the drift of an object is queued.
func (p *pendingCauses) queueOptions(owner Owner, key ObjectKey) priorityqueue.AddOpts {
	p.mu.Lock()
	defer p.mu.Unlock()
	notBefore, contended := p.contended[owner][key]
	if !contended {
		return priorityqueue.AddOpts{Priority: ptr.To(driftPriority)}
	}
	return priorityqueue.AddOpts{Priority: ptr.To(ContendedPriority), After: max(0, time.Until(notBefore))}
}

func (p *pendingCauses) addContended(owner Owner, key ObjectKey, notBefore time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.contended[owner] == nil {
		p.contended[owner] = map[ObjectKey]time.Time{}
	}
	p.contended[owner][key] = notBefore
}

func (p *pendingCauses) removeContended(owner Owner, key ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.contended[owner], key)
	if len(p.contended[owner]) == 0 {
		delete(p.contended, owner)
	}
}

func (p *pendingCauses) removeAllContended(owner Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.contended, owner)
}
