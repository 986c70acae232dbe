package v1alpha1

import (
	"cmp"

	"k8s.io/utils/ptr"
)

const (
	// KeepAnnotation on a managed object, with the value "true", makes Vidra leave the
	// object in place when it leaves the manifest and when the VidraResource is deleted.
	// spec.force does not delete it either.
	KeepAnnotation = "vidraresource.infrahub.operators.com/keep"

	// AllowDeletionAnnotation on the CustomResourceDefinition of VidraResources, or of InfrahubSyncs, with the value "true", makes the deletion
	// of the CustomResourceDefinition the deletion of all VidraResources, or of all VidraResources of InfrahubSyncs, and of their objects. Without
	// it, the objects stay. The CustomResourceDefinition of InfrahubSyncs goes before their VidraResources: it has to be installed again with
	// the annotation.
	AllowDeletionAnnotation = "infrahub.operators.com/allow-deletion"

	// RunOnceAnnotation on an object in a manifest, with the value "true", has Vidra create the object once: after
	// its deletion it counts as completed, unless it had failed, and is created again when its configuration in the
	// manifest changes. With "false" Vidra creates it again also where its kind or its spec shows that its controller
	// removes it after its end.
	RunOnceAnnotation = "vidraresource.infrahub.operators.com/run-once"

	// ApplyAnnotation on an object in a manifest has Vidra create the object and never change it; see ApplyPolicy.
	ApplyAnnotation = "vidraresource.infrahub.operators.com/apply"

	// DrillAnnotation on an object in a manifest, with any value, makes it the sentinel of its VidraResource:
	// `vidra drill` changes the value, and Vidra reverts that. No other program reads it.
	DrillAnnotation = "vidraresource.infrahub.operators.com/drill"

	// AllowRecreateAnnotation on an object, with the value "true", lets Vidra delete and
	// create it again because of spec.force, although its kind holds data.
	AllowRecreateAnnotation = "vidraresource.infrahub.operators.com/allow-recreate"
)

// ApplyPolicy is the value of ApplyAnnotation.
type ApplyPolicy string

const (
	// ApplyIfNotPresent creates the object whenever it is absent, and changes nothing of an object that exists, also of
	// one that another client created. The annotation kustomize.toolkit.fluxcd.io/ssa of Flux has the same value with this meaning.
	ApplyIfNotPresent ApplyPolicy = "IfNotPresent"
	// ApplyCreateOnly creates the object once: it is neither changed nor created again after a deletion, unless it had failed or
	// its namespace was deleted.
	ApplyCreateOnly ApplyPolicy = "CreateOnly"
)

// Leaves reports whether an object that exists is never changed.
func (p ApplyPolicy) Leaves() bool { return p != "" }

// AdoptPolicy is the response to an object that exists already and that no
// VidraResource owns.
// +kubebuilder:validation:Enum=Never;IfIdentical;Always
type AdoptPolicy string

const (
	// AdoptNever refuses the object.
	AdoptNever AdoptPolicy = "Never"
	// AdoptIfIdentical takes the object if that changes nothing but its owner.
	AdoptIfIdentical AdoptPolicy = "IfIdentical"
	// AdoptAlways takes the object and applies the manifest to it.
	AdoptAlways AdoptPolicy = "Always"
)

// DeletionPolicy is the fate of the objects after the deletion of their VidraResource.
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionDelete deletes them.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves them in place, unmanaged.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// AdoptPolicy is the policy for objects that exist already. Defaults to AdoptIfIdentical.
func (v *VidraResource) AdoptPolicy() AdoptPolicy { return cmp.Or(v.Spec.Adopt, AdoptIfIdentical) }

// Orphans reports whether objects that are to be removed are left in place: those that left
// the manifest, or all of them while the VidraResource is being deleted. A policy that only another version knows permits no deletion.
func (v *VidraResource) Orphans() bool {
	if !v.DeletionTimestamp.IsZero() {
		return cmp.Or(v.Spec.DeletionPolicy, DeletionDelete) != DeletionDelete
	}
	return !ptr.Deref(v.Spec.Prune, true)
}
