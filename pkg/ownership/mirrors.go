package ownership

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// accountName and formerAccountName are the two names of the account of a template of Pods. The API server fills each from the other
// (Convert_v1_PodSpec_To_core_PodSpec of k8s.io/kubernetes/pkg/apis/core/v1), and no manager owns the one that it has filled: a manifest
// that drops the name which it applied leaves the account under the other one.
const accountName, formerAccountName = "serviceAccountName", "serviceAccount"

// templateGroups have the kinds with templates of Pods.
var templateGroups = map[string]bool{"": true, "apps": true, "batch": true}

// WithMirrors returns the managedFields of obj as if manager had applied the account of a template of Pods that configuration lacks under
// both names, and that no other manager owns: the next apply removes it. Owners that state no lasting wish lose it; tools are those of
// WithoutStaleOwners. changed is false without such an account. ReleaseFields describes the write of the result.
func WithMirrors(obj *unstructured.Unstructured, manager string, tools Tools, configuration map[string]any) (managedFields []any, changed bool) {
	if gvk := obj.GroupVersionKind(); !templateGroups[gvk.Group] || gvk.Kind == "Pod" { // each Pod gets an account by admission
		return nil, false
	}
	path := leftAccount(obj.Object, configuration)
	if path == nil {
		return nil, false
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	var ours fieldsV1
	for _, item := range list {
		m, _ := item.(map[string]any)
		switch r := record(m); {
		case r.text("manager") == manager && r.applies():
			ours = r.fields()
		case ownsAccount(r.fields(), path):
			if !r.staleOwner(tools) {
				return nil, false
			}
			disownAccount(r.fields(), path)
		}
	}
	if ours == nil {
		return nil, false
	}
	for _, name := range path {
		below, _ := ours["f:"+name].(map[string]any)
		if below == nil {
			below = map[string]any{}
			ours["f:"+name] = below
		}
		ours = below
	}
	ours["f:"+accountName], ours["f:"+formerAccountName] = map[string]any{}, map[string]any{}
	return list, true
}

// leftAccount returns the path of the parent of an account that the configuration has under no name; nil if there is none.
func leftAccount(live, configuration map[string]any) []string {
	if account, _ := live[formerAccountName].(string); account != "" && configuration[accountName] == nil && configuration[formerAccountName] == nil {
		return []string{}
	}
	for _, name := range []string{"spec", "template", "jobTemplate"} {
		below, _ := live[name].(map[string]any)
		if below == nil {
			continue
		}
		configured, _ := configuration[name].(map[string]any)
		if rest := leftAccount(below, configured); rest != nil {
			return append([]string{name}, rest...)
		}
	}
	return nil
}

// accountParent is the part of a tree with the fields beside the account; nil if there is none.
func accountParent(fields fieldsV1, path []string) fieldsV1 {
	for _, name := range path {
		fields, _ = fields["f:"+name].(map[string]any)
	}
	return fields
}

func ownsAccount(fields fieldsV1, path []string) bool {
	parent := accountParent(fields, path)
	return parent["f:"+accountName] != nil || parent["f:"+formerAccountName] != nil
}

func disownAccount(fields fieldsV1, path []string) {
	parent := accountParent(fields, path)
	delete(parent, "f:"+accountName)
	delete(parent, "f:"+formerAccountName)
}
