package owners

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// maxFirstInventory is how many bytes the annotation with the first inventory has at most. A longer one is written into
// the status.
const maxFirstInventory = 8192

// maxAnnotations is the limit in bytes for all annotations of a VidraResource with it, and with the manifest, which kubectl
// apply keeps in one: half of the limit of the API server, so that later writes of users have room.
const maxAnnotations = validation.TotalAnnotationSizeLimitB / 2

// firstInventory is the value of the annotation.
type firstInventory struct {
	// UID is the UID of the VidraResource: a copy of it has applied nothing.
	UID types.UID `json:"uid"`
	// Objects have for each kind and namespace the API version, the kind, the namespace and the names of the objects.
	Objects [][]string `json:"objects"`
}

// SetFirstInventory sets the annotation of a VidraResource with the objects that are about to be created. It reports
// false, and leaves it as it is, if they are too many, or if the annotation would be ignored.
func SetFirstInventory(vr *v1alpha1.VidraResource, entries []v1alpha1.ManagedResourceStatus) bool {
	if !AwaitsFirstInventory(&vr.Status) {
		return false
	}
	first := firstInventory{UID: vr.UID}
	groups := map[[3]string]int{} // places in Objects
	for _, e := range entries {
		group := [3]string{e.APIVersion, e.Kind, e.Namespace}
		at, found := groups[group]
		if !found {
			at = len(first.Objects)
			groups[group], first.Objects = at, append(first.Objects, group[:])
		}
		first.Objects[at] = append(first.Objects[at], e.Name)
	}
	text, err := json.Marshal(first)
	if err != nil || len(text) > maxFirstInventory ||
		sizeOf(vr.Annotations)+len(v1alpha1.FirstInventoryAnnotation)+len(text)+len(vr.Spec.Manifest) > maxAnnotations {
		return false
	}
	metav1.SetMetaDataAnnotation(&vr.ObjectMeta, v1alpha1.FirstInventoryAnnotation, string(text))
	return true
}

// sizeOf returns the bytes of annotations, as the API server counts them (ValidateAnnotationsSize in
// k8s.io/apimachinery/pkg/api/validation).
func sizeOf(annotations map[string]string) int {
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	return size
}

// AwaitsFirstInventory reports whether the annotation of a VidraResource with a status counts: the status lacks an inventory,
// and operators of all installations are still to write one.
func AwaitsFirstInventory(s *v1alpha1.VidraResourceStatus) bool {
	return s.ObservedGeneration == 0 && len(s.ManagedResources) == 0
}

// FirstInventory returns the entries in the annotation of a VidraResource whose status lacks an inventory; none of any
// other. Users can write the annotation: an object in it is removed only if Vidra has applied it for the VidraResource.
func FirstInventory(vr *v1alpha1.VidraResource) []v1alpha1.ManagedResourceStatus {
	text, found := vr.Annotations[v1alpha1.FirstInventoryAnnotation]
	if !found || len(text) > maxFirstInventory || !AwaitsFirstInventory(&vr.Status) {
		return nil
	}
	var first firstInventory
	if json.Unmarshal([]byte(text), &first) != nil || first.UID != vr.UID {
		return nil
	}
	var entries []v1alpha1.ManagedResourceStatus
	for _, group := range first.Objects {
		if len(group) < 3 {
			continue
		}
		gvk := schema.FromAPIVersionAndKind(group[0], group[1])
		for _, name := range group[3:] {
			if id := (object.Identity{GroupKind: gvk.GroupKind(), Namespace: group[2], Name: name}); id.Name != "" && !gvk.Empty() {
				entries = append(entries, *object.NewEntry(id, gvk))
			}
		}
	}
	return entries
}
