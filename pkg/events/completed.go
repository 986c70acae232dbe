package events

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// completedEvents reports which objects have ended since the status before, and are not created again. They share one
// Event.
func completedEvents(owner corev1.ObjectReference, before, after v1alpha1.VidraResourceStatus) []Event {
	were := map[string]bool{}
	var names []string
	for i := range before.ManagedResources {
		if e := &before.ManagedResources[i]; e.State == v1alpha1.ObjectCompleted {
			were[e.UID] = true
		}
	}
	kinds := kindsOf(after.ManagedResources)
	for i := range after.ManagedResources {
		if e := &after.ManagedResources[i]; e.State == v1alpha1.ObjectCompleted && !were[e.UID] {
			names = append(names, kinds.Name(schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind(), e.Namespace, e.Name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	const end = ". To have it created again, change it in the manifest"
	note := "Completed or deleted, and not created again: " + list(names, MaxNote-2*len(end)-80) + end
	return []Event{{Type: normal, Reason: ReasonCompleted, Action: ActionDetect, Regarding: owner, Note: note, Variant: variantOf(names...)}}
}
