package v1alpha1

import (
	"strings"
	"time"
)

// FirstInventoryAnnotation on a VidraResource has the objects that Vidra is about to create for it, while status.managedResources
// is not written yet: those of a manifest with up to some hundred. It is written with the finalizer, and counts until the status
// of the first reconcile has the inventory. A change of it by a user has no effect on other objects: Vidra removes only what it has applied for this VidraResource.
const FirstInventoryAnnotation = "vidraresource.infrahub.operators.com/first-inventory"

// ReconcileRequestedAtAnnotation on a VidraResource requests a reconcile of all its objects when its
// value changes. The value is usually the time of the request, in RFC 3339. status.lastHandledReconcileAt
// has the last value that was carried out.
const ReconcileRequestedAtAnnotation = "vidraresource.infrahub.operators.com/reconcile-requested-at"

// maxRequest is how many bytes of a request the status repeats.
const maxRequest = 64

// ReconcileRequest is the request for a reconcile of the VidraResource: the value of the annotation, or
// spec.reconciledAt if that is later. It is empty if there is none.
func (v *VidraResource) ReconcileRequest() string {
	requested := repeated(v.Annotations[ReconcileRequestedAtAnnotation])
	if v.Spec.ReconciledAt.IsZero() {
		return requested
	}
	at, err := time.Parse(time.RFC3339Nano, requested)
	if requested != "" && (err != nil || !at.Before(v.Spec.ReconciledAt.Time)) {
		return requested
	}
	return v.Spec.ReconciledAt.UTC().Format(time.RFC3339)
}

// repeated returns a request as the status repeats it: shortened, without the part of a rune that would be left at its end. JSON has
// another character for it, so that the status would never have the request.
func repeated(request string) string {
	return strings.ToValidUTF8(request[:min(len(request), maxRequest)], "")
}
