package ownership

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// accountName and formerAccountName are the two names of the account of a template of Pods. The API server fills each from the other
// (Convert_v1_PodSpec_To_core_PodSpec of k8s.io/kubernetes/pkg/apis/core/v1), and the name that it has filled is unowned. An apply
// without the name that it had removes that name alone, and the API server fills it from the other one again.
const accountName, formerAccountName = "serviceAccountName", "serviceAccount"

// templateKinds are the kinds with templates of Pods, and Pods.
var templateKinds = map[schema.GroupKind]bool{
	{Kind: "Pod"}: true, {Kind: "PodTemplate"}: true, {Kind: "ReplicationController"}: true,
	{Group: "apps", Kind: "DaemonSet"}: true, {Group: "apps", Kind: "Deployment"}: true, {Group: "apps", Kind: "ReplicaSet"}: true, {Group: "apps", Kind: "StatefulSet"}: true,
	{Group: "batch", Kind: "CronJob"}: true, {Group: "batch", Kind: "Job"}: true,
}

// HasPods reports whether objects of a kind have templates of Pods, or are Pods.
func HasPods(kind schema.GroupKind) bool { return templateKinds[kind] }

// HasAccount reports whether a configuration of an object with Pods has an account for them. See WithAlias.
func HasAccount(configuration map[string]any) bool {
	if configuration[accountName] != nil || configuration[formerAccountName] != nil {
		return true
	}
	return slices.ContainsFunc(aboveAccount, func(name string) bool {
		below, _ := configuration[name].(map[string]any)
		return below != nil && HasAccount(below)
	})
}

// aboveAccount are the names of the fields with the account of Pods in them.
var aboveAccount = []string{"spec", "template", "jobTemplate"}

// WithAlias returns the managedFields of obj as if manager had applied the account of a template of Pods under both its names, if it has applied
// one of them, configuration has none, and no other manager owns the other one: the next apply removes both. Owners that state no
// lasting wish lose it; tools are those of WithoutStaleOwners. path is the account under the name that was not applied; nil if
// there is nothing to change. ReleaseFields describes the write of the result.
func WithAlias(obj *unstructured.Unstructured, manager string, tools Tools, configuration map[string]any) (managedFields []any, path []string) {
	if !templateKinds[obj.GroupVersionKind().GroupKind()] {
		return nil, nil
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	parent, name, other := droppedAccount(applied(obj, manager), obj.Object, configuration)
	if other == "" {
		return nil, nil
	}
	for r := range recordsOf(list) {
		fields := fieldsAt(r.fields(), parent)
		switch _, owns := fields["f:"+other]; {
		case r.appliedBy(manager):
			if fields["f:"+name] != nil {
				fields["f:"+other] = map[string]any{}
			}
		case !owns:
		case !r.staleOwner(tools):
			return nil, nil
		default:
			delete(fields, "f:"+other)
		}
	}
	return list, append(parent, other)
}

// WithoutField returns the managedFields of obj without a field of manager, which names lead to. ReleaseFields describes the write of the
// result.
func WithoutField(obj *unstructured.Unstructured, manager string, path []string) (managedFields []any, changed bool) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "metadata", "managedFields") // a copy
	parent, name := path[:len(path)-1], "f:"+path[len(path)-1]
	for r := range recordsOf(list) {
		if fields := fieldsAt(r.fields(), parent); r.appliedBy(manager) && fields[name] != nil {
			delete(fields, name)
			changed = true
		}
	}
	return list, changed
}

// droppedAccount returns the parent of an account that fields have under one name, and configuration under none; no names without one.
func droppedAccount(fields fieldsV1, live, configuration map[string]any) (parent []string, applied, other string) {
	name, former := fields["f:"+accountName] != nil, fields["f:"+formerAccountName] != nil
	if account, _ := live[accountName].(string); name != former && account != "" && live[formerAccountName] == account &&
		configuration[accountName] == nil && configuration[formerAccountName] == nil {
		if name {
			return nil, accountName, formerAccountName
		}
		return nil, formerAccountName, accountName
	}
	for _, below := range aboveAccount {
		child, _ := live[below].(map[string]any)
		owned, _ := fields["f:"+below].(map[string]any)
		configured, _ := configuration[below].(map[string]any)
		if child == nil || owned == nil {
			continue
		}
		if parent, applied, other = droppedAccount(owned, child, configured); other != "" {
			return append([]string{below}, parent...), applied, other
		}
	}
	return nil, "", ""
}

// fieldsAt is the part of a tree below the names of fields, or nil.
func fieldsAt(fields fieldsV1, path []string) fieldsV1 {
	for _, name := range path {
		fields, _ = fields["f:"+name].(map[string]any)
	}
	return fields
}
