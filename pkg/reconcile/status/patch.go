package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// Patch returns the JSON patch (RFC 6902) of a VidraResource from one status to another. The API server refuses it for another VidraResource of the same
// name, whose inventory it would become: it ignores a UID in a merge patch of a status. With a resourceVersion, it refuses the patch if another
// client wrote meanwhile. The inventory, which may have thousands of entries, is not compared as JSON.
func Patch(before, after v1alpha1.VidraResourceStatus, uid types.UID, resourceVersion string) ([]byte, error) {
	entries, changed := after.ManagedResources, !equality.Semantic.DeepEqual(before.ManagedResources, after.ManagedResources)
	known := len(before.ManagedResources) > 0
	before.ManagedResources, after.ManagedResources = nil, nil
	was, err := fieldsOf(before)
	if err != nil {
		return nil, fmt.Errorf("encode the status before: %w", err)
	}
	is, err := fieldsOf(after)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	if changed && len(entries) > 0 {
		if is[inventoryField], err = json.Marshal(entries); err != nil {
			return nil, fmt.Errorf("encode the inventory: %w", err)
		}
	}
	patch := []ownership.PatchOp{{Op: "test", Path: "/metadata/uid", Value: uid}}
	if resourceVersion != "" {
		patch = append(patch, ownership.PatchOp{Op: "replace", Path: "/metadata/resourceVersion", Value: resourceVersion})
	}
	if len(was) == 0 && !known {
		return json.Marshal(append(patch, ownership.PatchOp{Op: "add", Path: "/status", Value: is}))
	}
	if known && changed {
		was[inventoryField] = nil
	}
	for _, field := range slices.Sorted(maps.Keys(is)) {
		if !bytes.Equal(was[field], is[field]) {
			patch = append(patch, ownership.PatchOp{Op: "add", Path: "/status/" + field, Value: is[field]})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(was)) {
		if _, stays := is[field]; !stays { // another client may have removed it, which an addition allows for
			patch = append(patch, ownership.PatchOp{Op: "add", Path: "/status/" + field, Value: ""}, ownership.PatchOp{Op: "remove", Path: "/status/" + field})
		}
	}
	return json.Marshal(patch)
}

// inventoryField is the name of the inventory in a status.
const inventoryField = "managedResources"

// fieldsOf returns the fields of a status as JSON.
func fieldsOf(status v1alpha1.VidraResourceStatus) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	return fields, json.Unmarshal(text, &fields)
}
