package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// ownDefinition is the CustomResourceDefinition of VidraResources.
const ownDefinition = "vidraresources.infrahub.operators.com"

// definitionRecheck is the time between two reads of the CustomResourceDefinition while it is being deleted.
const definitionRecheck = 10 * time.Second

// definitionState is the last read of the CustomResourceDefinition of VidraResources. It is safe for concurrent use.
type definitionState struct {
	// mu guards the fields below.
	mu       sync.Mutex
	began    time.Time
	deleting bool
}

// beingDeleted reports whether the CustomResourceDefinition is being deleted, as of since or later. The annotation
// v1alpha1.AllowDeletionAnnotation on it makes its deletion one of all VidraResources and of their objects.
func (d *definitionState) beingDeleted(ctx context.Context, api metadata.Interface, since time.Time) (bool, error) {
	d.mu.Lock()
	began, deleting := d.began, d.deleting
	d.mu.Unlock()
	if began.After(since) && (!deleting || time.Since(began) < definitionRecheck) {
		return deleting, nil
	}
	began = time.Now()
	definition, err := api.Resource(cluster.Definitions).Get(ctx, ownDefinition, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read CustomResourceDefinition %s: %w", ownDefinition, err)
	}
	deleting = definition.DeletionTimestamp != nil && definition.Annotations[v1alpha1.AllowDeletionAnnotation] != "true"
	d.mu.Lock()
	defer d.mu.Unlock()
	d.began, d.deleting = began, deleting
	return deleting, nil
}

// uninstalling returns the sign that the deletion of the VidraResource is a consequence of the deletion of Vidra itself, or empty:
// then its objects stay. It asks only of a VidraResource that is being deleted.
func (p *pass) uninstalling(ctx context.Context) string {
	if p.plan.VR.DeletionTimestamp.IsZero() {
		return ""
	}
	if p.state.deletion.seen.IsZero() {
		p.state.deletion.seen = p.plan.Now
	}
	var deleting bool
	var err error
	seen := p.state.deletion.seen
	p.state.lane.apart(func() { deleting, err = p.reconciler.definition.beingDeleted(ctx, p.reconciler.Clients.Metadata, seen) })
	switch {
	case err != nil:
		return fmt.Sprintf("it is not known whether its CustomResourceDefinition is being deleted, too: %v", err)
	case deleting:
		return fmt.Sprintf("its CustomResourceDefinition %s is being deleted, too: to leave them in place, set spec.deletionPolicy to Orphan; "+
			"to remove them, annotate the CustomResourceDefinition with %s=true", ownDefinition, v1alpha1.AllowDeletionAnnotation)
	}
	switch goes, err := p.ownNamespaceGoes(ctx); {
	case err != nil:
		return fmt.Sprintf("it is not known whether the Namespace %s of Vidra is being deleted, too: %v", p.reconciler.Options.Namespace, err)
	case goes:
		return fmt.Sprintf("the Namespace %s of Vidra is being deleted, too: install Vidra again, or set spec.deletionPolicy to Orphan to leave them in place", p.reconciler.Options.Namespace)
	}
	return ""
}

// ownNamespaceGoes reports whether the namespace that Vidra runs in is being deleted, or was deleted.
func (p *pass) ownNamespaceGoes(ctx context.Context) (bool, error) {
	if p.reconciler.Options.Namespace == "" {
		return false, nil
	}
	exists, terminating, err := p.localNamespace(ctx, p.reconciler.Options.Namespace)
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("let the ServiceAccount of Vidra list this Namespace, as in config/namespaced: %w", err)
	}
	return !exists || terminating, err
}

// localNamespace reports whether a namespace of the local cluster exists, and is being deleted, from the cache, or from the API server where
// Vidra watches no Namespaces. An unreadable one counts as existing.
func (p *pass) localNamespace(ctx context.Context, name string) (exists, terminating bool, err error) {
	if p.reconciler.Clusters.LocalScope.LimitsNamespaces() {
		var live *unstructured.Unstructured
		p.state.lane.apart(func() {
			live, err = access.GetAsVidra(ctx, p.reconciler.Clusters.Local, trigger.ObjectKey{GVR: corev1.SchemeGroupVersion.WithResource("namespaces"), Name: name})
		})
		return err != nil || live != nil, live != nil && live.GetDeletionTimestamp() != nil, err
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err = p.reconciler.Clients.Client.Get(ctx, client.ObjectKey{Name: name}, ns)
	return !apierrors.IsNotFound(err), err == nil && ns.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// removalDelay returns how long objects that left the manifest stay.
func (p *pass) removalDelay(ctx context.Context) plan.RemovalDelay {
	switch goes, err := p.ownNamespaceGoes(ctx); {
	case err != nil:
		return plan.RemovalDelay{Endless: true, Message: fmt.Sprintf(
			"left the manifest, and is not removed before it is known whether the Namespace %s of Vidra is being deleted: %v", p.reconciler.Options.Namespace, err)}
	case goes:
		return plan.RemovalDelay{Endless: true, Message: fmt.Sprintf(
			"left the manifest, and is not removed while the Namespace %s of Vidra is being deleted", p.reconciler.Options.Namespace)}
	}
	if p.state.manifest.recalled || p.obstacles.Source != nil {
		return plan.RemovalDelay{Endless: true, Message: "is not in the manifest that was last read, and is not removed before the sources of the manifest can be read"}
	}
	missing := p.state.read.missing
	if len(missing) == 0 {
		return plan.Settling
	}
	for _, part := range missing {
		switch exists, terminating, err := p.localNamespace(ctx, part.Namespace); {
		case err != nil:
			return plan.RemovalDelay{Endless: true, Message: fmt.Sprintf("left the manifest, and is not removed while its optional part %s is missing "+
				"and it is not known whether the Namespace of the part exists: %v", part.Name, err)}
		case !exists, terminating:
			return plan.RemovalDelay{Endless: true, Message: fmt.Sprintf("left the manifest, and is not removed while its optional part %s "+
				"is missing with its Namespace: create them again, or take the part out of spec.manifestFrom", part.Name)}
		}
	}
	return plan.RemovalDelay{Time: plan.PartGrace, Message: fmt.Sprintf(
		"left the manifest, and is removed unless its optional part %s exists again within %s", missing[0].Name, plan.PartGrace)}
}
