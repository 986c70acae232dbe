package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/internal/ending"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// noteKind notes that the manifest has an object in another version than before, or with another kind: then the
// object is a new one, and one with its name and namespace has left the manifest.
func (p *Recorder) noteKind(r apply.Result) {
	entry, text := r.Task.Known.Entry, ""
	switch was := object.GVKOf(entry); {
	case entry.UID != "" && was != r.Task.Object.GVK:
		text = fmt.Sprintf("is in the manifest as %s now, and was %s before", r.Task.Object.GVK.GroupVersion(), was.GroupVersion())
	case r.Change.Action == events.Created:
		var others []string
		for _, o := range p.Plan.State.Objects.Others {
			if o.Entry != nil && o.Desired == nil && o.ID.Namespace == r.Task.Object.ID.Namespace && o.ID.Name == r.Task.Object.ID.Name {
				others = append(others, o.Entry.APIVersion+" "+o.Entry.Kind)
			}
		}
		if len(others) == 0 {
			return
		}
		text = fmt.Sprintf("is in the manifest as %s %s now, and was %s before, which is another object", r.Task.Object.GVK.GroupVersion(), r.Task.Object.GVK.Kind, strings.Join(others, " and "))
	default:
		return
	}
	p.Plan.Note(events.Change{Action: events.Retyped, Object: object.ReferenceTo(r.Task.Object.ID, r.Task.Object.GVK, r.Applied.Live.GetUID()), Note: text})
}

// beingReplaced is the failure of an object that is being deleted, to be created again.
func beingReplaced(r apply.Result) *object.Failure {
	found := terminating(r)
	if found == nil || !ending.Blocked(found, time.Now()) {
		replaced := plan.BeingReplaced // a copy
		return &replaced
	}
	return &object.Failure{Reason: v1alpha1.ReasonDeletionBlocked, Message: "is being deleted, to be created again, and waits for " +
		display.Truncate(ending.WaitsFor(found), v1alpha1.MaxProblemMessage)}
}

// terminating returns the object of a result that is being deleted; else nil.
func terminating(r apply.Result) *unstructured.Unstructured {
	for _, live := range []*unstructured.Unstructured{r.Applied.Live, r.Task.Cause.Found} {
		if live != nil && live.GetDeletionTimestamp() != nil {
			return live
		}
	}
	return nil
}
