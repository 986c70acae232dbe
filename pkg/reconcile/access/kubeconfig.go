package access

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// OutOfScope returns why the kubeconfig of another cluster may not be used for a
// VidraResource.
func OutOfScope(kubeconfig cluster.Scope, vr *v1alpha1.VidraResource) *object.Failure {
	err := kubeconfig.VidraResource(vr.Name)
	if namespace := vr.Spec.Destination.Namespace; err == nil && namespace != "" {
		err = kubeconfig.Namespace(namespace)
	}
	if err != nil {
		return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: err.Error()}
	}
	return nil
}

// ObjectOutOfScope returns why the kubeconfig of another cluster may not be used for an
// object of the manifest. What was applied before may be removed.
func ObjectOutOfScope(kubeconfig cluster.Scope, id object.Identity) *object.Failure {
	namespace := id.Namespace
	if id.GroupKind == (schema.GroupKind{Kind: "Namespace"}) {
		namespace = id.Name
	}
	if err := kubeconfig.Namespace(namespace); err != nil {
		return &object.Failure{Reason: v1alpha1.ReasonDestinationUnreachable, Message: id.String() + ": " + err.Error()}
	}
	return nil
}
