package insight

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// eventFilter selects Events of Vidra. The zero value selects all.
type eventFilter struct {
	// about are objects that the Event must be about, each of them.
	about []objectName
	// namespace of any object that the Event is about.
	namespace string
	// reasons of the printed Events.
	reasons []string
	// eventType is Normal or Warning.
	eventType string
	// since is when the Event must have been seen last, or later.
	since time.Time
}

// selector is the part of the filter that the API server can judge: field
// selectors know no "or" and nothing of the related object.
func (f eventFilter) selector() fields.Selector {
	terms := []fields.Selector{fields.OneTermEqualSelector("reportingController", events.Controller)}
	if f.eventType != "" {
		terms = append(terms, fields.OneTermEqualSelector("type", f.eventType))
	}
	if len(f.reasons) == 1 {
		terms = append(terms, fields.OneTermEqualSelector("reason", f.reasons[0]))
	}
	return fields.AndSelectors(terms...)
}

// matches is the rest of the filter: whether an Event that the selector lets
// pass is wanted.
func (f eventFilter) matches(e *eventsv1.Event) bool {
	if len(f.reasons) > 1 && !slices.Contains(f.reasons, e.Reason) {
		return false
	}
	if f.namespace != "" && !concerns(e, func(ref corev1.ObjectReference) bool { return ref.Namespace == f.namespace }) {
		return false
	}
	for _, object := range f.about {
		if !concerns(e, object.matches) {
			return false
		}
	}
	return !LastSeen(e).Before(f.since)
}

// concerns reports whether the object that an Event regards, the related one or one of several
// that it is about is the wanted one.
func concerns(e *eventsv1.Event, wanted func(corev1.ObjectReference) bool) bool {
	return wanted(e.Regarding) || e.Related != nil && wanted(*e.Related) || slices.ContainsFunc(events.ObjectsOf(e.Annotations), wanted)
}

// objectName names objects.
type objectName struct {
	// kind is compared without regard to case.
	kind string
	// group of the kind; nil for any.
	group *string
	// namespace of the object; empty for any.
	namespace string
	name      string
}

// vidraResource names a VidraResource.
func vidraResource(name string) objectName {
	group := v1alpha1.GroupVersion.Group
	return objectName{kind: v1alpha1.Kind, group: &group, name: name}
}

func (o objectName) matches(ref corev1.ObjectReference) bool {
	if ref.Name != o.name || !strings.EqualFold(ref.Kind, o.kind) || o.namespace != "" && ref.Namespace != o.namespace {
		return false
	}
	return o.group == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group == *o.group
}
