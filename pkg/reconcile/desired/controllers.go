package desired

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-openapi/jsonpointer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
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
	// The binder of volumes writes both references, and their UIDs, which an exported manifest has:
	// https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding
	{schema.GroupKind{Kind: "PersistentVolume"}, []string{"spec", "claimRef", "uid"}, always},
	{schema.GroupKind{Kind: "PersistentVolume"}, []string{"spec", "claimRef", "resourceVersion"}, always},
	{schema.GroupKind{Kind: "PersistentVolumeClaim"}, []string{"spec", "volumeName"}, isEmpty},
	// The token controller, and that of OpenShift, add the Secrets of an account:
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
	// The controllers of container-native load balancing and of Ingresses in GKE report what they made:
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

func always(*unstructured.Unstructured, any) bool { return true }

func hasLabel(key string) func(*unstructured.Unstructured, any) bool {
	return func(obj *unstructured.Unstructured, _ any) bool { return obj.GetLabels()[key] == "true" }
}

func hasAnnotation(key string) func(*unstructured.Unstructured, any) bool {
	return func(obj *unstructured.Unstructured, _ any) bool { return obj.GetAnnotations()[key] == "true" }
}

// isCustomPlaceholder reports whether a status without values is of a kind that is none of Kubernetes itself: those have the subresource status,
// so that the API server ignores a status in an apply. Those of CustomResourceDefinitions may lack it; a status with values is then a field like
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

// isInjected reports whether another program writes the certificate: an annotation asks for that, or the value has none.
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
	for _, f := range controllerFields {
		if f.kind == kind || f.kind == anyKind {
			find(obj.Object, f.path, "", func(pointer string, value any) {
				if f.yields(obj, value) {
					pointers = append(pointers, pointer)
				}
			})
		}
	}
	slices.Sort(pointers) // the configuration of the object has them
	return pointers
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

// controllerRule returns the ignore rule for the fields of an object that its controllers write; nil if there are none.
func controllerRule(obj *unstructured.Unstructured) *rule {
	r := &rule{selector: labels.Everything(), matched: true, controllers: true}
	for _, path := range controllerFieldsIn(obj) {
		if pointer, err := jsonpointer.New(path); err == nil {
			r.pointers, r.spec.Paths = append(r.pointers, ignorePath(pointer.DecodedTokens())), append(r.spec.Paths, path)
		}
	}
	if len(r.pointers) == 0 {
		return nil
	}
	return r
}

// yieldsToControllers reports whether the fields that controllers write are left to them.
func yieldsToControllers(vr *v1alpha1.VidraResource) bool {
	return vr.Spec.Drift == nil || vr.Spec.Drift.ControllerFields != v1alpha1.ControllerFieldsRevert
}
