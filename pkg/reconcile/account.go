package reconcile

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// This file makes every client of this package. A test requires that no other file
// does: a client that is made elsewhere would not keep the rule of --require-service-account.

// clientOf returns the client with which the VidraResource reads and writes at a cluster,
// and the user that the client impersonates: none, or the ServiceAccount that the
// VidraResource names. It applies to every request for a VidraResource: applies, dry runs,
// removals, the release of fields, and the reads of spec.manifestFrom.
func (p *pass) clientOf(d Destination) (client dynamic.Interface, user string, why *failure) {
	if why := p.accountMissing(); why != nil {
		return nil, "", why
	}
	account := p.vr.Spec.ServiceAccountName
	if account == "" {
		return d.Dynamic(), "", nil
	}
	user = "system:serviceaccount:" + p.vr.Spec.Destination.Namespace + ":" + account
	client, err := d.As(user)
	if err != nil {
		return nil, "", &failure{v1alpha1.ReasonApplyFailed, err.Error()}
	}
	return client, user, nil
}

// accountMissing returns why Vidra sends no request for the VidraResource: it runs with
// --require-service-account, and the VidraResource names no account that it may act as.
func (p *pass) accountMissing() *failure {
	if !p.RequireServiceAccount {
		return nil
	}
	if p.vr.Spec.ServiceAccountName == "" {
		return &failure{v1alpha1.ReasonServiceAccountRequired,
			"this Vidra applies and deletes objects only as a ServiceAccount: set spec.serviceAccountName, and grant that account what it needs"}
	}
	if in := p.vr.Spec.Destination.Namespace; in == metav1.NamespaceSystem || in == p.Namespace {
		return &failure{v1alpha1.ReasonServiceAccountRequired,
			"this Vidra acts as no account of the namespace " + in + ", whose rights are those of the cluster: choose one of another namespace"}
	}
	return nil
}

// refuse ends a pass that connect has refused. Only the author can provide an account.
func (p *pass) refuse(ctx context.Context, why failure) (reconcile.Result, error) {
	if why.reason != v1alpha1.ReasonServiceAccountRequired {
		return p.block(ctx, why)
	}
	p.session.unbegun = p.first
	return p.stall(ctx, why)
}

// getAsVidra reads an object with the rights of Vidra itself; nil if it does not exist.
// Its callers report only whether the object exists, or is to be kept.
func getAsVidra(ctx context.Context, d Destination, key trigger.ObjectKey) (*unstructured.Unstructured, error) {
	live, err := d.Dynamic().Resource(key.GVR).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // that it does not exist is no error here
	}
	return live, err
}

// reviewsAsVidra returns the client with which Vidra asks for rights of its own, those to
// list and watch: watches are shared, and use no account.
func reviewsAsVidra(d Destination) dynamic.Interface { return d.Dynamic() }
