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
	f.ledger.contend(owner, key, notBefore)
}

// EndContention notes that an object is no longer contended.
func (f *Factory) EndContention(owner Owner, key ObjectKey) { f.ledger.endContention(owner, key) }

// EndContentions notes that no object of an owner is contended.
func (f *Factory) EndContentions(owner Owner) { f.ledger.endContentions(owner) }

// urgency returns how the drift of an object is queued.
func (l *ledger) urgency(owner Owner, key ObjectKey) priorityqueue.AddOpts {
	l.mu.Lock()
	defer l.mu.Unlock()
	notBefore, contended := l.contended[owner][key]
	if !contended {
		return priorityqueue.AddOpts{Priority: ptr.To(driftPriority)}
	}
	return priorityqueue.AddOpts{Priority: ptr.To(ContendedPriority), After: max(0, time.Until(notBefore))}
}

func (l *ledger) contend(owner Owner, key ObjectKey, notBefore time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contended[owner] == nil {
		l.contended[owner] = map[ObjectKey]time.Time{}
	}
	l.contended[owner][key] = notBefore
}

func (l *ledger) endContention(owner Owner, key ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.contended[owner], key)
	if len(l.contended[owner]) == 0 {
		delete(l.contended, owner)
	}
}

func (l *ledger) endContentions(owner Owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.contended, owner)
}
