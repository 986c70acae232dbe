package apply

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// subject is as whom the objects are read and written.
func (a *Applier) subject() access.Subject {
	return access.Subject{Cluster: a.Destination.Name(), User: a.User}
}

// Refused notes the rights that a failed request about an object may have lacked, if any.
func (a *Applier) Refused(o *plan.Object, err error, key trigger.ObjectKey, verbs ...string) {
	o.MissingRights = a.subject().Refused(err, key.GVR, key.Namespace, verbs...)
}

// NamespaceIsGone asks, as Vidra itself, whether a namespace is absent.
func (a *Applier) NamespaceIsGone(ctx context.Context, name string) bool {
	if name == "" {
		return false
	}
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	live, err := access.GetAsVidra(ctx, a.Destination, trigger.ObjectKey{GVR: namespaces, Name: name})
	return err == nil && live == nil
}
