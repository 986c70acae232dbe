package ending

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Grace is how long an object may be terminating before its deletion counts as blocked by its
// finalizers.
const Grace = 30 * time.Second

// Blocked reports whether an object has been terminating for long because of its finalizers.
func Blocked(live *unstructured.Unstructured, now time.Time) bool {
	at := BlockedAt(live)
	return !at.IsZero() && !now.Before(at)
}

// BlockedAt returns when the deletion of an object counts as blocked; zero if the object is not being deleted, or waits for no finalizer.
func BlockedAt(live *unstructured.Unstructured) time.Time {
	since := live.GetDeletionTimestamp()
	if since == nil || WaitsFor(live) == "" {
		return time.Time{}
	}
	return since.Add(Grace)
}

// WaitsFor returns the obstacles of the end of the object: the finalizers that are to be removed, and the report of the
// controller that removes the finalizers of a Namespace or CustomResourceDefinition, in the conditions.
func WaitsFor(live *unstructured.Unstructured) string {
	finalizers, conditions := live.GetFinalizers(), ""
	switch live.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		more, _, _ := unstructured.NestedStringSlice(live.Object, "spec", "finalizers")
		finalizers, conditions = append(finalizers, more...), "Namespace"
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		conditions = "Terminating"
	}
	if len(finalizers) == 0 {
		return ""
	}
	waits := "its finalizers (" + strings.Join(finalizers, ", ") + ")"
	all, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, condition := range all {
		c, _ := condition.(map[string]any)
		text := func(field string) string {
			value, _, _ := unstructured.NestedString(c, field)
			return value
		}
		if conditions != "" && strings.HasPrefix(text("type"), conditions) && text("status") == string(metav1.ConditionTrue) {
			waits += ": " + text("message")
		}
	}
	return waits
}
