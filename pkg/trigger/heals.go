package trigger

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Heal is the key of the loop of objects: an object that was changed, and the owner that reverts the change.
type Heal struct {
	Owner Owner
	Key   ObjectKey
}

// EnqueueHeal enqueues an object.
func (f *Factory) EnqueueHeal(h Heal) {
	f.objects.add(h, priorityqueue.AddOpts{Priority: ptr.To(driftPriority)})
}

// TakeHeal returns the cause of an object and removes it. found is false if there is none for the loop of objects.
func (f *Factory) TakeHeal(h Heal) (cause Cause, found bool) {
	return f.pending.takeObject(h, func(c Cause) bool { return c.single })
}

// TakeCause returns the cause of an object and removes it, whether it is for the loop of objects or for a reconcile. found is false if there is none.
func (f *Factory) TakeCause(h Heal) (cause Cause, found bool) {
	return f.pending.takeObject(h, func(Cause) bool { return true })
}

// takeObject removes the cause of an object if it is accepted.
func (p *pendingCauses) takeObject(h Heal, accept func(Cause) bool) (cause Cause, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.causes[h.Owner]
	if cause, found = c.Objects[h.Key]; !found || !accept(cause) {
		return Cause{}, false
	}
	cause.single = false
	delete(c.Objects, h.Key)
	if c.Empty() {
		delete(p.causes, h.Owner)
	}
	return cause, true
}

// Heals returns the objects of an owner whose causes the loop of objects takes.
func (f *Factory) Heals(owner Owner) (keys []ObjectKey) {
	p := &f.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, cause := range p.causes[owner].Objects {
		if cause.single {
			keys = append(keys, key)
		}
	}
	return keys
}

// ResumeHeals enqueues the objects whose causes the loop of objects takes.
func (f *Factory) ResumeHeals(owner Owner, keys []ObjectKey) {
	if !f.objects.started() || len(keys) == 0 {
		return
	}
	waiting := sets.New(f.Heals(owner)...)
	for _, key := range keys {
		if waiting.Has(key) {
			f.EnqueueHeal(Heal{owner, key})
		}
	}
}

// HandOver has a reconcile of the owner take the cause of an object, with those that come until then.
func (f *Factory) HandOver(h Heal, cause Cause) {
	cause.single = false
	f.enqueueWith(Causes{Objects: map[ObjectKey]Cause{h.Key: cause}}, priorityqueue.AddOpts{Priority: ptr.To(driftPriority)}, h.Owner)
}

// DelayHeal gives the cause of a contended object back to the loop of objects, for a later time.
func (f *Factory) DelayHeal(h Heal, cause Cause, due time.Time) {
	if cause.Since.IsZero() { // no event reported it
		cause.Since = time.Now()
	}
	f.Contend(h.Owner, h.Key, due)
	f.ReturnHeal(h, cause)
}

// ReturnHeal gives the cause of an object to the loop of objects.
func (f *Factory) ReturnHeal(h Heal, cause Cause) {
	cause.single = true
	f.pending.merge(h.Owner, Causes{Objects: map[ObjectKey]Cause{h.Key: cause}})
	f.objects.add(h, f.pending.queueOptions(h.Owner, h.Key))
}

// ReturnHeals has the loop of objects take the causes of an owner that heals accepts, and returns the others, which it removes.
func (f *Factory) ReturnHeals(owner Owner, heals func(ObjectKey) bool) map[ObjectKey]Cause {
	if !f.objects.started() {
		return f.pending.takeObjects(owner, func(ObjectKey) bool { return false })
	}
	others := f.pending.takeObjects(owner, heals)
	f.ResumeHeals(owner, f.Heals(owner))
	return others
}

// Report enqueues an owner to report heals, after a delay. With a delay of 0, it has the priority of drift.
func (f *Factory) Report(owner Owner, after time.Duration) {
	opts := priorityqueue.AddOpts{After: after}
	if after <= 0 {
		opts = priorityqueue.AddOpts{Priority: ptr.To(driftPriority)}
	}
	f.enqueueWith(Causes{Report: true}, opts, owner)
}
