package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

const (
	// defaultKubeconfigNamespace is where config/default has the operator read the Secrets with kubeconfigs.
	defaultKubeconfigNamespace = "vidra-system"
	// everyNamespace is the value of --kubeconfig-namespace for all.
	everyNamespace = "*"
)

// destinations opens the clusters to which VidraResources apply, with the kubeconfigs that the operator uses,
// if the user may read them.
type destinations struct {
	// namespace of the Secrets with kubeconfigs.
	namespace string
	// remotes are nil until one is needed.
	remotes *cluster.Destinations
}

// addNamespace adds the flag --kubeconfig-namespace.
func (d *destinations) addNamespace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.namespace, "kubeconfig-namespace", defaultKubeconfigNamespace,
		"the namespace of the Secrets with the kubeconfigs of other clusters, as of the flag of the operator; * for all")
}

// of returns the cluster to which a VidraResource applies. config is that of the cluster of the VidraResource.
func (d *destinations) of(ctx context.Context, config *rest.Config, vr *v1alpha1.VidraResource) (*cluster.Cluster, error) {
	if !remote(vr) {
		return cluster.New(config)
	}
	server := vr.Spec.Destination.Server
	if err := d.read(ctx, config); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("you may not read its kubeconfig: ask for the right to list Secrets in namespace %s, or have a user do this who has it: %w", d.namespace, err)
		}
		return nil, fmt.Errorf("VidraResource %s applies to %s: a dry run there is not possible: %w", vr.Name, server, err)
	}
	name, _, err := d.remotes.Resolve(server)
	if err != nil {
		return nil, fmt.Errorf("VidraResource %s: spec.destination.server: %w", vr.Name, err)
	}
	at, err := d.remotes.Get(name)
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

// read reads the Secrets, once.
func (d *destinations) read(ctx context.Context, config *rest.Config) error {
	if d.remotes != nil {
		return nil
	}
	secrets, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("use the kubeconfig: %w", err)
	}
	namespace := d.namespace
	if namespace == everyNamespace {
		namespace = metav1.NamespaceAll
	}
	remotes := cluster.NewDestinations(cluster.DestinationsOptions{Secrets: secrets, Namespace: namespace})
	if err := remotes.ReadOnce(ctx); err != nil {
		return err
	}
	d.remotes = remotes
	return nil
}
