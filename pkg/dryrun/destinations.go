package dryrun

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
)

const (
	// DefaultKubeconfigNamespace is where config/default has the operator read the Secrets with kubeconfigs.
	DefaultKubeconfigNamespace = "vidra-system"
	// everyNamespace is the value of Destinations.Namespace for all.
	everyNamespace = "*"
)

// Destinations opens the destinations of VidraResources, with the kubeconfigs of the operator, if the caller may read them. It
// is safe for concurrent use.
type Destinations struct {
	// Namespace of the Secrets with kubeconfigs; * for all. Defaults to DefaultKubeconfigNamespace.
	Namespace string
	// AllowInsecure and AllowProxies are as in [cluster.DestinationsOptions].
	AllowInsecure, AllowProxies bool

	// mu guards remotes.
	mu sync.Mutex
	// remotes are nil until one is needed.
	remotes *cluster.Destinations
}

// Of returns the destination of a VidraResource. local is the cluster of the VidraResource, and config its configuration.
func (d *Destinations) Of(ctx context.Context, local *cluster.Cluster, config *rest.Config, vr *v1alpha1.VidraResource) (*cluster.Cluster, error) {
	server := vr.Spec.Destination.Server
	if access.IsLocal(server) {
		return local, nil
	}
	remotes, err := d.read(ctx, config)
	if err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("you may not read its kubeconfig: ask for the right to list Secrets in namespace %s, or have a user do this who has it: %w", d.namespace(), err)
		}
		return nil, fmt.Errorf("VidraResource %s applies to %s: a dry run there is not possible: %w", vr.Name, server, err)
	}
	name, _, err := remotes.Resolve(server)
	if err != nil {
		return nil, fmt.Errorf("VidraResource %s: spec.destination.server: %w", vr.Name, err)
	}
	at, err := remotes.Get(name)
	if err == nil {
		err = at.Unreachable()
	}
	if err == nil {
		err = at.Scope().VidraResource(vr.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("VidraResource %s: %w", vr.Name, err)
	}
	return at, nil
}

func (d *Destinations) namespace() string { return cmp.Or(d.Namespace, DefaultKubeconfigNamespace) }

// read reads the Secrets, once.
func (d *Destinations) read(ctx context.Context, config *rest.Config) (*cluster.Destinations, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.remotes != nil {
		return d.remotes, nil
	}
	secrets, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	namespace := d.namespace()
	if namespace == everyNamespace {
		namespace = metav1.NamespaceAll
	}
	remotes := cluster.NewDestinations(cluster.DestinationsOptions{
		Secrets: secrets, Namespace: namespace, AllowInsecure: d.AllowInsecure, AllowProxies: d.AllowProxies,
	})
	if err := remotes.ReadOnce(ctx); err != nil {
		return nil, err
	}
	d.remotes = remotes
	return remotes, nil
}
