package owners

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// maxFirstInventory is how many bytes the annotation with the first inventory has at most. A longer one is written into
// the status.
const maxFirstInventory = 4096

// firstInventory is the value of the annotation.
type firstInventory struct {
	// UID is that of the VidraResource: a copy of it has applied nothing.
	UID types.UID `json:"uid"`
	// Objects have the API version, the kind, the namespace and the name of each object.
	Objects [][4]string `json:"objects"`
}

// SetFirstInventory sets the annotation of a VidraResource with the objects that are about to be created. It reports
// false, and changes nothing, if they are too many, or if the annotation would not count.
func SetFirstInventory(vr *v1alpha1.VidraResource, entries []v1alpha1.ManagedResourceStatus) bool {
	if !awaitsFirstInventory(&vr.Status) {
		return false
	}
	first := firstInventory{UID: vr.UID}
	for _, e := range entries {
		first.Objects = append(first.Objects, [4]string{e.APIVersion, e.Kind, e.Namespace, e.Name})
	}
	text, err := json.Marshal(first)
	if err != nil || len(text) > maxFirstInventory {
		return false
	}
	if vr.Annotations == nil {
		vr.Annotations = map[string]string{}
	}
	vr.Annotations[v1alpha1.FirstInventoryAnnotation] = string(text)
	return true
}

// awaitsFirstInventory reports whether the annotation of a VidraResource with a status counts: no operator has concluded a
// reconcile of it, of this installation or of another one, and the status has no inventory.
func awaitsFirstInventory(s *v1alpha1.VidraResourceStatus) bool {
	return s.ObservedGeneration == 0 && len(s.ManagedResources) == 0
}

// FirstInventory returns the entries in the annotation of a VidraResource whose status has no inventory yet; none of any
// other. Users can write the annotation: what is in it is removed only if Vidra has applied it for the VidraResource.
func FirstInventory(vr *v1alpha1.VidraResource) []v1alpha1.ManagedResourceStatus {
	text, found := vr.Annotations[v1alpha1.FirstInventoryAnnotation]
	if !found || len(text) > maxFirstInventory || !awaitsFirstInventory(&vr.Status) {
		return nil
	}
	var first firstInventory
	if json.Unmarshal([]byte(text), &first) != nil || first.UID != vr.UID {
		return nil
	}
	var entries []v1alpha1.ManagedResourceStatus
	for _, o := range first.Objects {
		gvk := schema.FromAPIVersionAndKind(o[0], o[1])
		if id := (object.Identity{GroupKind: gvk.GroupKind(), Namespace: o[2], Name: o[3]}); id.Name != "" && !gvk.Empty() {
			entries = append(entries, *object.NewEntry(id, gvk))
		}
	}
	return entries
}
