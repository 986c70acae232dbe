package apply

import (
	"context"

	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// Refused notes the rights that a failed request about an object may have lacked, if any.
func (a *Applier) Refused(o *plan.Object, err error, key trigger.ObjectKey, verbs ...string) {
	o.Attempts.MissingRights = access.Subject{Cluster: a.Destination.Name(), User: a.User}.Refused(err, key.GVR, key.Namespace, verbs...)
}

// NamespaceIsGone asks, as Vidra itself, whether a namespace is absent.
func (a *Applier) NamespaceIsGone(ctx context.Context, name string) bool {
	if name == "" {
		return false
	}
	live, err := access.GetAsVidra(ctx, a.Destination, trigger.ObjectKey{GVR: access.Namespaces, Name: name})
	return err == nil && live == nil
}
