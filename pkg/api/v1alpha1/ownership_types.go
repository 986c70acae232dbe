package v1alpha1

const (
	// KeepAnnotation on a managed object, with the value "true", has Vidra leave the
	// object in place when it leaves the manifest, and when the VidraResource goes.
	// spec.force does not delete and create it again either.
	KeepAnnotation = "vidraresource.infrahub.operators.com/keep"

	// AllowRecreateAnnotation on an object, with the value "true", lets spec.force
	// delete and create it again although its kind holds data.
	AllowRecreateAnnotation = "vidraresource.infrahub.operators.com/allow-recreate"
)

// AdoptPolicy says what is done about an object that exists and that no
// VidraResource owns.
// +kubebuilder:validation:Enum=Never;IfIdentical;Always
type AdoptPolicy string

const (
	// AdoptNever refuses the object.
	AdoptNever AdoptPolicy = "Never"
	// AdoptIfIdentical takes the object if that changes nothing but whose it is.
	AdoptIfIdentical AdoptPolicy = "IfIdentical"
	// AdoptAlways takes the object and changes it to what the manifest says.
	AdoptAlways AdoptPolicy = "Always"
)

// DeletionPolicy says what becomes of the objects when their VidraResource goes.
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

const (
	// DeletionDelete deletes them.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves them in place, as nobody's.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// AdoptPolicy is what is done about objects that exist. Defaults to
// AdoptIfIdentical.
func (v *VidraResource) AdoptPolicy() AdoptPolicy {
	if v.Spec.Adopt == "" {
		return AdoptIfIdentical
	}
	return v.Spec.Adopt
}

// Orphans says whether what is to be removed is left in place: what leaves the
// manifest, or everything while the VidraResource is going.
func (v *VidraResource) Orphans() bool {
	if !v.DeletionTimestamp.IsZero() {
		return v.Spec.DeletionPolicy == DeletionOrphan
	}
	return v.Spec.Prune != nil && !*v.Spec.Prune
}
