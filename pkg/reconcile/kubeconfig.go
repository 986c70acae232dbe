package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// outOfScope returns why the kubeconfig of another cluster may not be used for a
// VidraResource.
func outOfScope(kubeconfig cluster.Scope, vr *v1alpha1.VidraResource) *failure {
	err := kubeconfig.VidraResource(vr.Name)
	if namespace := vr.Spec.Destination.Namespace; err == nil && namespace != "" {
		err = kubeconfig.Namespace(namespace)
	}
	if err != nil {
		return &failure{v1alpha1.ReasonDestinationUnreachable, err.Error()}
	}
	return nil
}

// objectOutOfScope returns why the kubeconfig of another cluster may not be used for an
// object of the manifest. What was applied before may be removed.
func objectOutOfScope(kubeconfig cluster.Scope, id identity) *failure {
	namespace := id.namespace
	if id.GroupKind == (schema.GroupKind{Kind: "Namespace"}) {
		namespace = id.name
	}
	if err := kubeconfig.Namespace(namespace); err != nil {
		return &failure{v1alpha1.ReasonDestinationUnreachable, id.String() + ": " + err.Error()}
	}
	return nil
}
