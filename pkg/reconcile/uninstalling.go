package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// ownDefinition and syncDefinition are the CustomResourceDefinitions of VidraResources and of InfrahubSyncs.
var (
	ownDefinition  = v1alpha1.Resource.GroupResource().String()
	syncDefinition = v1alpha1.SyncResource.GroupResource().String()
)

// definitionRecheck is the time between two reads of a CustomResourceDefinition while it is being deleted, or absent. collectionTime bounds the time in which
// the garbage collector, whose longest backoff is 1,000 s, deletes the VidraResources of a deleted InfrahubSync once its kind is served again.
const (
	definitionRecheck = 10 * time.Second
	collectionTime    = 30 * time.Minute
)

// definitionReads are the last reads of CustomResourceDefinitions by name. It is safe for concurrent use.
type definitionReads struct {
	// last has a definitionRead for each name.
	last sync.Map
}

// definitionRead is a CustomResourceDefinition, nil if absent, and the time at which the read began.
type definitionRead struct {
	began time.Time
	live  *metav1.PartialObjectMetadata
}

// deleted reports whether a CustomResourceDefinition, as of since or later, may have been deleted with the deletion of a VidraResource as a consequence.
func (d *definitionReads) deleted(ctx context.Context, api metadata.Interface, name string, vr *v1alpha1.VidraResource, since time.Time) (bool, error) {
	known, _ := d.last.Load(name)
	last, _ := known.(definitionRead) // only this function stores any
	if last.began.After(since) && (!deletes(last.live, vr) || time.Since(last.began) < definitionRecheck) {
		return deletes(last.live, vr), nil
	}
	last.began = time.Now()
	live, err := api.Resource(cluster.Definitions).Get(ctx, name, metav1.GetOptions{})
	switch {
	case object.IsAbsent(err, name):
		live = nil
	case err != nil:
		return false, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	last.live = live
	d.last.Store(name, last)
	return deletes(live, vr), nil
}

// definitionsOf returns the CustomResourceDefinitions whose deletion deletes the VidraResource: of InfrahubSyncs, by the garbage collector.
func definitionsOf(vr *v1alpha1.VidraResource) []string {
	names := []string{ownDefinition}
	if c := metav1.GetControllerOf(vr); c != nil && schema.FromAPIVersionAndKind(c.APIVersion, c.Kind).GroupKind() == v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind).GroupKind() {
		names = append(names, syncDefinition)
	}
	return names
}

// deletes reports whether the deletion of a VidraResource may be a consequence of the deletion of a CustomResourceDefinition: it is absent, is being
// deleted, or was created again. The annotation v1alpha1.AllowDeletionAnnotation on it permits the consequence.
func deletes(definition *metav1.PartialObjectMetadata, vr *v1alpha1.VidraResource) bool {
	switch {
	case definition == nil:
		return true
	case definition.Annotations[v1alpha1.AllowDeletionAnnotation] == "true":
		return false
	}
	created := definition.CreationTimestamp.Time
	return definition.DeletionTimestamp != nil || created.After(vr.CreationTimestamp.Time) && vr.DeletionTimestamp.Time.Before(created.Add(collectionTime))
}

// uninstalling returns the sign that the deletion of the VidraResource is a consequence of the deletion of Vidra itself, or empty:
// then its objects stay. It asks only of a VidraResource that is being deleted.
func (p *pass) uninstalling(ctx context.Context) string {
	if p.plan.VR.DeletionTimestamp.IsZero() {
		return ""
	}
	p.state.deletion.seen = cmp.Or(p.state.deletion.seen, p.plan.Now)
	for _, name := range definitionsOf(p.plan.VR) {
		var deleted bool
		var err error
		seen := p.state.deletion.seen
		p.state.lane.apart(func() {
			deleted, err = p.reconciler.definitions.deleted(ctx, p.reconciler.Clients.Metadata, name, p.plan.VR, seen)
		})
		switch {
		case err != nil:
			return fmt.Sprintf("it is not known whether the CustomResourceDefinition %s is being deleted, too: %v", name, err)
		case deleted:
			return fmt.Sprintf("the CustomResourceDefinition %s is being deleted, or was deleted with it: to leave them in place, set spec.deletionPolicy to Orphan; "+
				"to remove them, annotate the CustomResourceDefinition, installed again if it is gone, with %s=true", name, v1alpha1.AllowDeletionAnnotation)
		}
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
			live, err = access.GetAsVidra(ctx, p.reconciler.Clusters.Local, trigger.ObjectKey{GVR: access.Namespaces, Name: name})
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
