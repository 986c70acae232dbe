package plan

import (
	"cmp"

	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// CompareForRemoval orders objects so that the last applied one is removed first.
func CompareForRemoval(a, b object.Identity) int {
	return cmp.Or(
		cmp.Compare(b.Stage(), a.Stage()),
		cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}
