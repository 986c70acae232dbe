package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// This file makes every client of this package. A test requires that no other file
// does: a client that is made elsewhere would not keep the rule of --require-service-account.

// accounts decides as whom Vidra reads and writes for a VidraResource.
type accounts struct {
	// cache has the namespaces of the local cluster.
	cache client.Reader
	// own is the namespace that Vidra runs in; empty if it is not known.
	own string
	// required refuses VidraResources that name no account.
	required bool
	// impersonated selects the namespaces whose accounts Vidra may impersonate. Nil selects all.
	impersonated labels.Selector
}

// accounts returns the rules of this operator.
func (r *Reconciler) accounts() accounts {
	return accounts{cache: r.Client, own: r.Namespace, required: r.RequireServiceAccount, impersonated: r.ImpersonationNamespaces}
}

// clientOf returns the client with which a VidraResource reads and writes at a cluster,
// and the user that the client impersonates: none, or the ServiceAccount that the
// VidraResource names. It applies to every request for a VidraResource: applies, dry runs,
// removals, the release of fields, and the reads of spec.manifestFrom.
func (a accounts) clientOf(ctx context.Context, vr *v1alpha1.VidraResource, d Destination) (as dynamic.Interface, user string, why *failure) {
	if why := a.missing(vr); why != nil {
		return nil, "", why
	}
	if why := a.refused(ctx, vr); why != nil {
		return nil, "", why
	}
	account := vr.Spec.ServiceAccountName
	if account == "" {
		return d.Dynamic(), "", nil
	}
	user = "system:serviceaccount:" + vr.Spec.Destination.Namespace + ":" + account
	as, err := d.As(user)
	if err != nil {
		return nil, "", &failure{v1alpha1.ReasonApplyFailed, err.Error()}
	}
	return as, user, nil
}

// missing returns why Vidra sends no request for a VidraResource: it runs with
// --require-service-account, and the VidraResource names no account that it may act as.
func (a accounts) missing(vr *v1alpha1.VidraResource) *failure {
	if !a.required {
		return nil
	}
	if vr.Spec.ServiceAccountName == "" {
		return &failure{v1alpha1.ReasonServiceAccountRequired,
			"this Vidra applies and deletes objects only as a ServiceAccount: set spec.serviceAccountName, and grant that account what it needs"}
	}
	if in := vr.Spec.Destination.Namespace; in == metav1.NamespaceSystem || in == a.own {
		return &failure{v1alpha1.ReasonServiceAccountRequired,
			"this Vidra acts as no account of the namespace " + in + ", whose rights are those of the cluster: choose one of another namespace"}
	}
	return nil
}

// refused returns why Vidra does not act as the account that a VidraResource names: its
// namespace is not one of those whose accounts Vidra may impersonate.
func (a accounts) refused(ctx context.Context, vr *v1alpha1.VidraResource) *failure {
	in := vr.Spec.Destination.Namespace
	if a.impersonated == nil || vr.Spec.ServiceAccountName == "" {
		return nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := a.cache.Get(ctx, client.ObjectKey{Name: in}, namespace)
	if err == nil && a.impersonated.Matches(labels.Set(namespace.Labels)) {
		return nil
	}
	return &failure{v1alpha1.ReasonServiceAccountRequired, fmt.Sprintf(
		"this Vidra acts as no account of the namespace %s, which does not exist or does not have the labels %s: "+
			"ask the administrators of the cluster to set them", in, a.impersonated)}
}

// accountAllowed makes a reconcile read the manifest that the last one did not read, because
// no account was there to read it as.
func (p *pass) accountAllowed() {
	if s := p.state; s.accountMissing() {
		s.stalled, s.reread = nil, true
	}
}

// accountMissing reports whether the last reconcile did not read the manifest for want of an
// account.
func (s *ownerState) accountMissing() bool {
	return s.stalled != nil && s.stalled.reason == v1alpha1.ReasonServiceAccountRequired
}

// enqueueAccounts enqueues the VidraResources that name an account of a namespace, of
// which the labels have changed.
func (r *Reconciler) enqueueAccounts(ctx context.Context, namespace string) {
	if r.ImpersonationNamespaces == nil {
		return
	}
	all := &v1alpha1.VidraResourceList{}
	if err := r.Client.List(ctx, all); err != nil { // from the cache, which has synced
		log.FromContext(ctx).Error(err, "Cannot list the VidraResources of a namespace", "namespace", namespace)
		return
	}
	for i := range all.Items {
		if vr := &all.Items[i]; vr.Spec.ServiceAccountName != "" && vr.Spec.Destination.Namespace == namespace {
			r.Trigger.EnqueueAll(client.ObjectKeyFromObject(vr))
		}
	}
}

// refuse ends a pass that connect has refused. Only the author can provide an account.
func (p *pass) refuse(ctx context.Context, why failure) (reconcile.Result, error) {
	if why.reason != v1alpha1.ReasonServiceAccountRequired {
		return p.block(ctx, why)
	}
	p.state.unbegun = p.first
	return p.stall(ctx, why)
}

// getAsVidra reads an object with the rights of Vidra itself; nil if it does not exist.
// Its callers report only whether the object exists, or is to be kept. It lists, because
// Vidra itself may list and watch in config/restricted, and get nothing.
func getAsVidra(ctx context.Context, d Destination, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	found, err := d.Dynamic().Resource(key.GVR).Namespace(key.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String(),
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that it does not exist is no error here
	case err != nil:
		return nil, err
	case len(found.Items) == 0:
		return nil, nil //nolint:nilnil // likewise
	}
	return &found.Items[0], nil
}

// reviewsAsVidra returns the client with which Vidra asks for rights of its own, those to
// list and watch: watches are shared, and use no account.
func reviewsAsVidra(d Destination) dynamic.Interface { return d.Dynamic() }
