package plan

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/breakglass"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/policy"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// NewBreakGlassRoom returns how many more objects of a VidraResource with an inventory may get an answer.
func NewBreakGlassRoom(inventory []*Object) *atomic.Int64 {
	room := &atomic.Int64{}
	room.Store(breakglass.MaxAnswers)
	for _, o := range inventory {
		if o.Entry.BreakGlass != nil {
			room.Add(-1)
		}
	}
	return room
}

// ExemptWithin describes the first object of an inventory that its answer exempts and that would be deleted with a container; empty without one.
func ExemptWithin(inventory []*Object, container object.Identity, now time.Time) string {
	var members policy.Group
	answers := map[object.Identity]*v1alpha1.BreakGlassStatus{}
	for _, o := range inventory {
		if id := object.IdentityOf(o.Entry); breakglass.Exempts(o.Entry.BreakGlass, now) {
			key := trigger.ObjectKey{}
			if o.Desired != nil {
				key = o.Desired.Key
			}
			members.Add(id, key)
			answers[id] = o.Entry.BreakGlass
		}
	}
	if member, found := members.In(container); found {
		return member.String() + ", which would be deleted with it: " + policy.Exemption(answers[member])
	}
	return ""
}

// AnswerTo answers the break-glass annotations of an object. entry is its inventory entry, and d the object of the manifest;
// both may be nil.
func (s *Settings) AnswerTo(entry *v1alpha1.ManagedResourceStatus, d *desired.Object, live *unstructured.Unstructured) breakglass.Answer {
	annotations := live.GetAnnotations()
	known := ptr.Deref(entry, v1alpha1.ManagedResourceStatus{}).BreakGlass
	_, asked := annotations[v1alpha1.BreakGlassUntilAnnotation]
	if !asked && known == nil {
		return breakglass.Answer{Seen: true} // as nearly always
	}
	full := asked && known == nil && s.BreakGlass.Room().Add(-1) < 0
	limits := breakglass.Limits{Max: s.BreakGlass.Max, InManifest: d != nil && d.Declares.SetsBreakGlass, Full: full}
	return breakglass.Answer{Seen: true, Full: full, Status: breakglass.Decide(annotations, known, limits, time.Now())}
}

// NoteAnswer notes the answer to break-glass annotations, to be reported if it is another one.
// While the object is exempt and equal to the manifest, it is recorded as skipped, so that it is
// compared when the exemption ends, and not created again if it is deleted meanwhile.
func (p *Planner) NoteAnswer(o *Object, g breakglass.Answer) {
	id, entry := o.ID, o.Entry
	if !g.Seen || entry == nil {
		return
	}
	known := entry.BreakGlass
	if !g.Full {
		entry.BreakGlass = g.Status
	}
	if breakglass.Unreported(known, g.Status) {
		p.Note(events.Change{
			Action: events.Answered, Object: object.ReferenceTo(id, object.GVKOf(entry), types.UID(entry.UID)), BreakGlass: g.Status,
		})
	}
	if o.Edits.Drift == nil && o.Desired != nil && breakglass.Exempts(g.Status, p.Now) {
		o.Edits.Drift = &Drift{Decision: policy.Exempted(g.Status), Unobserved: true}
	}
}
