package desired

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-openapi/jsonpointer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/vidra-operator/vidra/pkg/ownership"
)

// controllerField is a field that a controller writes by contract, while manifests have an empty value or a placeholder in it.
type controllerField struct {
	kind schema.GroupKind
	// path has the names of fields; "*" is every item of a list. A path that ends with "/" in its last name, such as
	// pv.kubernetes.io/, is every key that begins with it.
	path []string
	// yields reports that the value of a manifest is left to the controller.
	yields func(obj *unstructured.Unstructured, value any) bool
}

// anyKind are the fields of objects of every kind.
var anyKind = schema.GroupKind{Kind: "*"}

// controllerFields is the table of such fields, with the source of each rule.
var controllerFields = []controllerField{
	// "The control plane overwrites any values that you manually specify in the rules field of an aggregate ClusterRole":
	// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
	{schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, []string{"rules"}, isAggregated},
	// https://cert-manager.io/docs/concepts/ca-injector/, and the service CA of OpenShift:
	// they write the certificate of the CA into a field that manifests leave empty or with a placeholder.
	{schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}, []string{"webhooks", "*", "clientConfig", "caBundle"}, isInjected},
	{schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}, []string{"webhooks", "*", "clientConfig", "caBundle"}, isInjected},
	{schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}, []string{"spec", "caBundle"}, isInjected},
	{schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, []string{"spec", "conversion", "webhook", "clientConfig", "caBundle"}, isInjected},
	// The binder of volumes writes the reference: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding
	{schema.GroupKind{Kind: "PersistentVolumeClaim"}, []string{"spec", "volumeName"}, isEmpty},
	// The scheduler binds a Pod: https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/.
	// The controller that asked for a gate removes it: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
	{schema.GroupKind{Kind: "Pod"}, []string{"spec", "nodeName"}, isEmpty},
	{schema.GroupKind{Kind: "Pod"}, []string{"spec", "schedulingGates"}, always},
	// The endpoints controller writes the addresses of a Service: https://kubernetes.io/docs/concepts/services-networking/service/#endpoints
	{schema.GroupKind{Kind: "Endpoints"}, []string{"subsets"}, isEmpty},
	// The holder of a Lease renews it: https://kubernetes.io/docs/concepts/architecture/leases/
	{schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, []string{"spec", "holderIdentity"}, always},
	{schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, []string{"spec", "acquireTime"}, always},
	{schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, []string{"spec", "renewTime"}, always},
	{schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, []string{"spec", "leaseTransitions"}, always},
	// The publisher of the root CA writes this ConfigMap in each namespace, and the token controller fills the Secrets of tokens:
	// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
	{schema.GroupKind{Kind: "ConfigMap"}, []string{"data", "ca.crt"}, isNamed("kube-root-ca.crt")},
	{schema.GroupKind{Kind: "Secret"}, []string{"data", "ca.crt"}, isToken},
	{schema.GroupKind{Kind: "Secret"}, []string{"data", "namespace"}, isToken},
	{schema.GroupKind{Kind: "Secret"}, []string{"data", "token"}, func(obj *unstructured.Unstructured, value any) bool {
		return isToken(obj, value) && isEmpty(obj, value)
	}},
	// The token controller, and its counterpart in OpenShift, add the Secrets of an account:
	// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#token-controller
	{schema.GroupKind{Kind: "ServiceAccount"}, []string{"secrets"}, isEmpty},
	{schema.GroupKind{Kind: "ServiceAccount"}, []string{"imagePullSecrets"}, isEmpty},
	// Annotations that controllers own, which exported manifests have:
	// https://kubernetes.io/docs/reference/labels-annotations-taints/
	{anyKind, []string{"metadata", "annotations", "deployment.kubernetes.io/"}, always},
	{anyKind, []string{"metadata", "annotations", "pv.kubernetes.io/"}, always},
	{anyKind, []string{"metadata", "annotations", "volume.kubernetes.io/storage-provisioner"}, always},
	{anyKind, []string{"metadata", "annotations", "volume.beta.kubernetes.io/storage-provisioner"}, always},
	{anyKind, []string{"metadata", "annotations", "volume.kubernetes.io/selected-node"}, always},
	{anyKind, []string{"metadata", "annotations", "batch.kubernetes.io/job-tracking"}, always},
	{anyKind, []string{"metadata", "annotations", "control-plane.alpha.kubernetes.io/leader"}, always},
	{anyKind, []string{"metadata", "annotations", "deprecated.daemonset.template.generation"}, always},
	{anyKind, []string{"metadata", "annotations", "autoscaling.alpha.kubernetes.io/conditions"}, always},
	{anyKind, []string{"metadata", "annotations", "autoscaling.alpha.kubernetes.io/current-metrics"}, always},
	{anyKind, []string{"metadata", "annotations", "endpoints.kubernetes.io/"}, always},
	{anyKind, []string{"metadata", "annotations", "node.alpha.kubernetes.io/ttl"}, always},
	{anyKind, []string{"metadata", "annotations", "volumes.kubernetes.io/controller-managed-attach-detach"}, always},
	{anyKind, []string{"metadata", "annotations", "csi.volume.kubernetes.io/nodeid"}, always},
	// The controllers of container-native load balancing and of Ingresses in GKE report their results:
	// https://cloud.google.com/kubernetes-engine/docs/how-to/standalone-neg, https://github.com/kubernetes/ingress-gce
	{anyKind, []string{"metadata", "annotations", "cloud.google.com/neg-status"}, always},
	{anyKind, []string{"metadata", "annotations", "ingress.kubernetes.io/backends"}, always},
	// Rancher reports the addresses of workloads, Services and Ingresses: https://github.com/rancher/rancher
	{anyKind, []string{"metadata", "annotations", "field.cattle.io/publicEndpoints"}, always},
	// Labels that the control plane sets, and that the kubelet and the cloud controller set on their Node:
	// https://kubernetes.io/docs/reference/labels-annotations-taints/
	{schema.GroupKind{Kind: "Endpoints"}, []string{"metadata", "labels", "service.kubernetes.io/headless"}, always},
	{schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}, []string{"metadata", "labels", "service.kubernetes.io/headless"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "kubernetes.io/arch"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "kubernetes.io/os"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "kubernetes.io/hostname"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "node.kubernetes.io/instance-type"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "topology.kubernetes.io/"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "beta.kubernetes.io/"}, always},
	{schema.GroupKind{Kind: "Node"}, []string{"metadata", "labels", "failure-domain.beta.kubernetes.io/"}, always},
	// OpenShift writes certificates into ConfigMaps that ask for them:
	// https://docs.openshift.com/container-platform/4.16/networking/configuring-a-custom-pki.html
	{schema.GroupKind{Kind: "ConfigMap"}, []string{"data", "ca-bundle.crt"}, hasLabel("config.openshift.io/inject-trusted-cabundle")},
	{schema.GroupKind{Kind: "ConfigMap"}, []string{"data", "service-ca.crt"}, hasAnnotation("service.beta.openshift.io/inject-cabundle")},
	// "The .status block [...] is the most recently observed status of the object [...] written by controllers", in manifests that were exported:
	// https://github.com/kubernetes/community/blob/main/contributors/devel/sig-architecture/api-conventions.md#spec-and-status
	{anyKind, []string{"status"}, isCustomPlaceholder},
}

// bindings is the table of fields that bind an object to another one as it was when the manifest was exported. They are left to their controllers,
// too, and the manifest is applied without them: with the UID of an object that is gone, a controller deletes the new object.
var bindings = []controllerField{
	// A volume whose claim has another UID is released, which deletes it and its data where its reclaim policy says so:
	// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming
	{schema.GroupKind{Kind: "PersistentVolume"}, []string{"spec", "claimRef", "uid"}, always},
	{schema.GroupKind{Kind: "PersistentVolume"}, []string{"spec", "claimRef", "resourceVersion"}, always},
	// A claim that says that it is bound, to a volume that does not say so, is lost:
	// https://kubernetes.io/docs/reference/labels-annotations-taints/#pv-kubernetes-io-bind-completed
	{schema.GroupKind{Kind: "PersistentVolumeClaim"}, []string{"metadata", "annotations", "pv.kubernetes.io/bind-completed"}, always},
	{schema.GroupKind{Kind: "PersistentVolumeClaim"}, []string{"metadata", "annotations", "pv.kubernetes.io/bound-by-controller"}, always},
	{schema.GroupKind{Kind: "PersistentVolume"}, []string{"metadata", "annotations", "pv.kubernetes.io/bound-by-controller"}, always},
	// The token controller deletes the token of a ServiceAccount with another UID:
	// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-service-account-uid
	{schema.GroupKind{Kind: "Secret"}, []string{"metadata", "annotations", "kubernetes.io/service-account.uid"}, isToken},
}

// withoutBindings removes the fields of bindings from an object of the manifest.
func withoutBindings(obj *unstructured.Unstructured) {
	for _, f := range bindings {
		if value, found, err := unstructured.NestedFieldNoCopy(obj.Object, f.path...); f.kind == obj.GroupVersionKind().GroupKind() && found && err == nil && f.yields(obj, value) {
			unstructured.RemoveNestedField(obj.Object, f.path...)
		}
	}
}

// MayRelease reports whether managedFields of the live object may have to be edited before an apply of another configuration: for bindings, and
// for an account of Pods that the manifest has dropped.
func (d *Object) MayRelease() bool {
	return slices.ContainsFunc(bindings, func(f controllerField) bool {
		return f.kind == d.GVK.GroupKind() && d.Rules.Exemptions.Controlled(f.path)
	}) ||
		ownership.HasPods(d.ID.GroupKind) && !ownership.HasAccount(d.Unstructured().Object)
}

// Bound returns the configuration of the object with the bindings in live that the manifest has, and that are left to their controllers;
// else nil.
func (d *Object) Bound(live *unstructured.Unstructured) map[string]any {
	var bound map[string]any
	for _, f := range bindings {
		if f.kind != d.GVK.GroupKind() || !d.Rules.Exemptions.Controlled(f.path) {
			continue
		}
		value, found, err := unstructured.NestedFieldNoCopy(live.Object, f.path...)
		if !found || err != nil {
			continue
		}
		if bound == nil {
			bound = d.Unstructured().Object
		}
		_ = unstructured.SetNestedField(bound, value, f.path...) // the manifest has its parent
	}
	return bound
}

func always(*unstructured.Unstructured, any) bool { return true }

func isNamed(name string) func(*unstructured.Unstructured, any) bool {
	return func(obj *unstructured.Unstructured, _ any) bool { return obj.GetName() == name }
}

// isToken reports whether a Secret holds the token of a ServiceAccount.
func isToken(obj *unstructured.Unstructured, _ any) bool {
	kind, _, _ := unstructured.NestedString(obj.Object, "type")
	return kind == string(corev1.SecretTypeServiceAccountToken)
}

func hasLabel(key string) func(*unstructured.Unstructured, any) bool {
	return func(obj *unstructured.Unstructured, _ any) bool { return obj.GetLabels()[key] == "true" }
}

func hasAnnotation(key string) func(*unstructured.Unstructured, any) bool {
	return func(obj *unstructured.Unstructured, _ any) bool { return obj.GetAnnotations()[key] == "true" }
}

// isCustomPlaceholder reports whether a status without values is of a custom kind: the kinds of Kubernetes itself have the subresource status,
// so that the API server ignores a status in an apply. Kinds of CustomResourceDefinitions may lack it; a status with values is then a field like
// others.
func isCustomPlaceholder(obj *unstructured.Unstructured, value any) bool {
	group := obj.GroupVersionKind().Group
	return !scheme.Scheme.IsGroupRegistered(group) && group != "apiextensions.k8s.io" && group != "apiregistration.k8s.io" && hasNoValue(value)
}

// hasNoValue reports whether a value is empty, with all values in it.
func hasNoValue(value any) bool {
	fields, is := value.(map[string]any)
	if !is {
		return isEmpty(nil, value)
	}
	for _, v := range fields {
		if !hasNoValue(v) {
			return false
		}
	}
	return true
}

func isAggregated(obj *unstructured.Unstructured, _ any) bool {
	_, aggregated := obj.Object["aggregationRule"].(map[string]any)
	return aggregated
}

// isInjected reports whether another program writes the certificate: an annotation asks for that, or the value lacks it.
func isInjected(obj *unstructured.Unstructured, value any) bool {
	for key := range obj.GetAnnotations() {
		if strings.HasPrefix(key, "cert-manager.io/inject-") || key == "service.beta.openshift.io/inject-cabundle" {
			return true
		}
	}
	text, _ := value.(string)
	decoded, err := base64.StdEncoding.DecodeString(text)
	return value == nil || err == nil && !strings.Contains(string(decoded), "-----BEGIN")
}

// isEmpty reports whether a value is null, an empty text or an empty list.
func isEmpty(_ *unstructured.Unstructured, value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return false
}

// controllerFieldsIn returns the pointers (RFC 6901) to the fields of an object of the manifest that its controllers write.
func controllerFieldsIn(obj *unstructured.Unstructured) []string {
	var pointers []string
	kind := obj.GroupVersionKind().GroupKind()
	for _, f := range slices.Concat(controllerFields, bindings) {
		if f.kind == kind || f.kind == anyKind {
			find(obj.Object, f.path, "", func(pointer string, value any) {
				if f.yields(obj, value) {
					pointers = append(pointers, pointer)
				}
			})
		}
	}
	slices.Sort(pointers) // the configuration of the object has them
	return slices.Compact(pointers)
}

// find calls found with each field below value that a path of controllerFields means.
func find(value any, path []string, at string, found func(pointer string, value any)) {
	if len(path) == 0 {
		found(at, value)
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if child, has := v[path[0]]; has {
			find(child, path[1:], at+"/"+jsonpointer.Escape(path[0]), found)
		}
		if len(path) > 1 || !strings.HasSuffix(path[0], "/") {
			return
		}
		for key, child := range v {
			if key != path[0] && strings.HasPrefix(key, path[0]) {
				found(at+"/"+jsonpointer.Escape(key), child)
			}
		}
	case []any:
		for i, child := range v {
			if path[0] == "*" {
				find(child, path[1:], fmt.Sprintf("%s/%d", at, i), found)
			}
		}
	}
}

// controllerRule returns the ignore rule for the fields of an object that its controllers write, or nil.
func controllerRule(obj *unstructured.Unstructured) *rule {
	r := &rule{selector: labels.Everything(), found: map[int]bool{}, controllers: true}
	for _, path := range controllerFieldsIn(obj) {
		r.pointers, r.spec.Paths = append(r.pointers, ownership.PointerNames(path)), append(r.spec.Paths, path)
	}
	if len(r.pointers) == 0 {
		return nil
	}
	return r
}
