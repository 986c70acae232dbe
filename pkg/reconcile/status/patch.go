package status

import (
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// MergePatch returns the JSON merge patch (RFC 7386) of a VidraResource from one status to another. With a
// resourceVersion, the API server refuses the patch if another client wrote meanwhile. The inventory, which may have
// thousands of entries, is not compared as JSON: a merge patch has all of a list that differs.
func MergePatch(before, after v1alpha1.VidraResourceStatus, resourceVersion string) ([]byte, error) {
	entries, changed := after.ManagedResources, !equality.Semantic.DeepEqual(before.ManagedResources, after.ManagedResources)
	before.ManagedResources, after.ManagedResources = nil, nil
	was, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encode the status before: %w", err)
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	text, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, fmt.Errorf("compare the statuses: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("read the patch of the status: %w", err)
	}
	switch {
	case changed && len(entries) == 0:
		fields["managedResources"] = json.RawMessage("null")
	case changed:
		if fields["managedResources"], err = json.Marshal(entries); err != nil {
			return nil, fmt.Errorf("encode the inventory: %w", err)
		}
	}
	patch := map[string]any{"status": fields}
	if resourceVersion != "" {
		patch["metadata"] = map[string]any{"resourceVersion": resourceVersion}
	}
	return json.Marshal(patch)
}
