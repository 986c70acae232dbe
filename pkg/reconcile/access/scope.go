package access

import (
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// OutOfScope refuses all work for a VidraResource: its destination is out of scope, by the
// annotations of a kubeconfig or by --namespaces; else nil.
func OutOfScope(scope cluster.Scope, vr *v1alpha1.VidraResource) *object.Failure {
	err := scope.VidraResource(vr.Name)
	if namespace := vr.Spec.Destination.Namespace; err == nil && namespace != "" {
		err = scope.Namespace(namespace)
	}
	switch {
	case err == nil:
		return nil
	case scope.IsLocal():
		return &object.Failure{Reason: v1alpha1.ReasonOutOfScope, Message: "spec.destination.namespace: " + err.Error()}
	}
	return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: err.Error()}
}

// ObjectOutOfScope refuses all requests about an object; nil if the scope has it. A Namespace
// counts as an object in itself.
func ObjectOutOfScope(scope cluster.Scope, id object.Identity) *object.Failure {
	if !scope.LimitsNamespaces() {
		return nil
	}
	namespace := id.Namespace
	if id.GroupKind == object.NamespaceKind {
		namespace = id.Name
	}
	if err := scope.Namespace(namespace); err != nil {
		return &object.Failure{Reason: v1alpha1.ReasonOutOfScope, Message: err.Error()}
	}
	return nil
}
