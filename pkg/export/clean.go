package export

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// droppedAnnotations are annotations that controllers and tools write about an object.
var droppedAnnotations = []string{
	corev1.LastAppliedConfigAnnotation, "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation", "kubernetes.io/change-cause",
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/provisioned-by", "volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner", "control-plane.alpha.kubernetes.io/leader",
	"batch.kubernetes.io/cronjob-scheduled-timestamp", "endpoints.kubernetes.io/last-change-trigger-time", "meta.helm.sh/release-name", "meta.helm.sh/release-namespace",
	v1alpha1.OwnerAnnotation, v1alpha1.BreakGlassUntilAnnotation, v1alpha1.BreakGlassReasonAnnotation, v1alpha1.BeforeMigrationAnnotation,
}

// droppedLabels are labels that name the owner of an object, or that the API server sets.
var droppedLabels = []string{
	"kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace", "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace", "kubernetes.io/metadata.name",
	"applyset.kubernetes.io/part-of",
}

// jobLabels are labels that the API server sets on the Pods of a Job.
var jobLabels = []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}

// injects are annotations by which a controller writes the caBundle of an object.
var injects = []string{"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca", "service.beta.openshift.io/inject-cabundle"}

// clean returns an object without the fields of the API server, controllers, Vidra and other tools.
func clean(live *unstructured.Unstructured) *unstructured.Unstructured {
	u := live.DeepCopy()
	delete(u.Object, "status")
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	maps.DeleteFunc(labels, func(key, value string) bool {
		return key == v1alpha1.ManagedByLabel && value == v1alpha1.ManagedByValue || slices.Contains(droppedLabels, key)
	})
	injected := slices.ContainsFunc(injects, func(key string) bool { return annotations[key] != "" })
	bound := annotations["pv.kubernetes.io/bound-by-controller"] != ""
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return v1alpha1.IsOwnerAnnotation(key) || slices.Contains(droppedAnnotations, key)
	})
	u.Object["metadata"] = map[string]any{"name": live.GetName()}
	u.SetNamespace(live.GetNamespace())
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	if len(annotations) > 0 {
		u.SetAnnotations(annotations)
	}
	cleanKind(u, injected, bound)
	eachMap(u.Object, func(m map[string]any) {
		if at, found := m["creationTimestamp"]; found && at == nil { // as templates have it
			delete(m, "creationTimestamp")
		}
	})
	return u
}

// cleanKind removes the fields that the API server or a controller assigns to an object of its kind.
func cleanKind(u *unstructured.Unstructured, injected, bound bool) {
	remove := func(fields ...string) { unstructured.RemoveNestedField(u.Object, fields...) }
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(u.Object, fields...)
		return value
	}
	switch u.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Namespace"}:
		remove("spec")
	case schema.GroupKind{Kind: "Service"}:
		if text("spec", "clusterIP") != corev1.ClusterIPNone {
			remove("spec", "clusterIP")
		}
		remove("spec", "clusterIPs")
		remove("spec", "healthCheckNodePort")
		if text("spec", "ipFamilyPolicy") == string(corev1.IPFamilyPolicySingleStack) { // the one of the cluster
			remove("spec", "ipFamilyPolicy")
			remove("spec", "ipFamilies")
		}
	case schema.GroupKind{Kind: "ServiceAccount"}:
		remove("secrets")
	case schema.GroupKind{Kind: "Pod"}:
		remove("spec", "nodeName")
		remove("spec", "serviceAccount")
		removeTokens(u)
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		if bound {
			remove("spec", "volumeName")
		}
	case schema.GroupKind{Kind: "PersistentVolume"}:
		if bound {
			remove("spec", "claimRef")
		}
		remove("spec", "claimRef", "uid")
		remove("spec", "claimRef", "resourceVersion")
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		if manual, _, _ := unstructured.NestedBool(u.Object, "spec", "manualSelector"); !manual {
			remove("spec", "selector")
			for _, key := range jobLabels {
				remove("spec", "template", "metadata", "labels", key)
				remove("metadata", "labels", key)
			}
			if left, _, _ := unstructured.NestedMap(u.Object, "spec", "template", "metadata", "labels"); len(left) == 0 {
				remove("spec", "template", "metadata")
			}
		}
	case schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:
		if _, aggregated, _ := unstructured.NestedMap(u.Object, "aggregationRule"); aggregated {
			remove("rules")
		}
	}
	if injected {
		eachMap(u.Object, func(m map[string]any) { delete(m, "caBundle") })
	}
}

// removeTokens removes the volume with the token of the ServiceAccount, which admission adds to each Pod.
func removeTokens(u *unstructured.Unstructured) {
	const added = "kube-api-access-"
	without := func(item any) bool {
		m, _ := item.(map[string]any)
		name, _ := m["name"].(string)
		return strings.HasPrefix(name, added)
	}
	if volumes, found, _ := unstructured.NestedSlice(u.Object, "spec", "volumes"); found {
		_ = unstructured.SetNestedSlice(u.Object, slices.DeleteFunc(volumes, without), "spec", "volumes") // spec is a map
	}
	for _, field := range []string{"containers", "initContainers"} {
		containers, found, _ := unstructured.NestedSlice(u.Object, "spec", field)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			mounts, _ := container["volumeMounts"].([]any)
			if mounts = slices.DeleteFunc(mounts, without); len(mounts) > 0 {
				container["volumeMounts"] = mounts
			} else {
				delete(container, "volumeMounts")
			}
		}
		if found {
			_ = unstructured.SetNestedSlice(u.Object, containers, "spec", field) // spec is a map
		}
	}
}

// eachMap calls change with the maps at all depths of a value, before those inside of them.
func eachMap(value any, change func(map[string]any)) {
	switch v := value.(type) {
	case map[string]any:
		change(v)
		for _, child := range v {
			eachMap(child, change)
		}
	case []any:
		for _, child := range v {
			eachMap(child, change)
		}
	}
}
