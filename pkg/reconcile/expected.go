package reconcile

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// expected is what the last apply of an object left behind.
func (a *applier) expected(t task) (trigger.Applied, bool) {
	if a.watched {
		return a.index.Expected(a.owner, t.key)
	}
	if entry := t.known.entry; entry != nil {
		applied, known := appliedBefore(a.manager, entry)
		applied.Tools = a.additions.tools
		return applied, known
	}
	return trigger.Applied{}, false
}

// inOrder reports whether what is ours in live is as expected, and whether that means
// as it was left.
func (a *applier) inOrder(t task, live *unstructured.Unstructured) (inOrder, asLeft bool) {
	expected, known := a.expected(t)
	return known && asExpected(live, expected), expected.Unreverted
}

// asExpected reports whether what is ours in live is as expected, and its label.
func asExpected(live *unstructured.Unstructured, expected trigger.Applied) bool {
	return trigger.DigestOf(live, expected.Manager, expected.Unreverted, expected.Tools) == expected.Digest && labelled(live)
}

// labelled reports whether an object has the label by which it is watched.
func labelled(live *unstructured.Unstructured) bool {
	return live.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByValue
}
