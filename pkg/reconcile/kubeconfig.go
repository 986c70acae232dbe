package reconcile

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// outOfScope returns why the kubeconfig of another cluster may not be used for the
// VidraResource.
func (p *pass) outOfScope() *failure {
	err := p.kubeconfig.VidraResource(p.vr.Name)
	if namespace := p.vr.Spec.Destination.Namespace; err == nil && namespace != "" {
		err = p.kubeconfig.Namespace(namespace)
	}
	if err != nil {
		return &failure{v1alpha1.ReasonDestinationUnreachable, err.Error()}
	}
	return nil
}

// objectsOutOfScope returns why the kubeconfig of another cluster may not be used for an
// object of the manifest. What was applied before may be removed.
func (p *pass) objectsOutOfScope() *failure {
	if !p.kubeconfig.LimitsNamespaces() {
		return nil
	}
	for _, o := range p.state.manifest {
		namespace := o.id.namespace
		if o.id.GroupKind == (schema.GroupKind{Kind: "Namespace"}) {
			namespace = o.id.name
		}
		if err := p.kubeconfig.Namespace(namespace); err != nil {
			return &failure{v1alpha1.ReasonDestinationUnreachable, o.id.String() + ": " + err.Error()}
		}
	}
	return nil
}
