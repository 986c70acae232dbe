// Package ending reports the end of an object: its success, after which its own controller removes it, as a Job with
// ttlSecondsAfterFinished, or its deletion, with the obstacles. It is pure.
package ending

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// removed are kinds whose objects are removed after their end by a controller that has its settings elsewhere: the
// pruner of Tekton, the defaults of Argo Workflows, the controllers of cert-manager, Velero and KubeVirt, and a cleaner of Kubernetes.
var removed = map[schema.GroupKind]bool{
	{Group: "tekton.dev", Kind: "PipelineRun"}:         true,
	{Group: "tekton.dev", Kind: "TaskRun"}:             true,
	{Group: "tekton.dev", Kind: "CustomRun"}:           true,
	{Group: "argoproj.io", Kind: "Workflow"}:           true,
	{Group: "acme.cert-manager.io", Kind: "Challenge"}: true,
	{Group: "acme.cert-manager.io", Kind: "Order"}:     true,
	{Group: "velero.io", Kind: "Backup"}:               true,
	{Group: "cdi.kubevirt.io", Kind: "DataVolume"}:     true,
	signingRequest: true,
}

// signingRequest are requests for a certificate: the cleaner of Kubernetes removes them an hour after their end.
var signingRequest = schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}

// lifetimes are fields of the spec through which an object asks its controller to remove it after its end.
var lifetimes = [][]string{
	{"spec", "ttlSecondsAfterFinished"},              // Job, JobSet, RayJob, Volcano Job
	{"spec", "ttlStrategy"},                          // Argo Workflow
	{"spec", "runPolicy", "ttlSecondsAfterFinished"}, // Kubeflow
	{"spec", "timeToLiveSeconds"},                    // SparkApplication
}

// Conditions, phases and states that report a successful end.
var (
	conditions = []string{"Complete", "Completed", "Succeeded"}
	phases     = []string{"Succeeded", "Completed", "COMPLETED", "SUCCEEDED", "valid"}
	phaseAt    = [][]string{
		{"status", "phase"}, {"status", "state"}, {"status", "jobStatus"},
		{"status", "state", "phase"}, {"status", "applicationState", "state"},
	}
)

// RemovesItself reports whether the controller of an object removes it after its end, as far as the object or its kind
// shows. The annotation RunOnce decides if it is set.
func RemovesItself(u *unstructured.Unstructured) bool {
	switch {
	case RunsOnce(u):
		return true
	case u.GetAnnotations()[v1alpha1.RunOnceAnnotation] == "false":
		return false
	}
	return removed[u.GroupVersionKind().GroupKind()] || endsAsPod(u) || slices.ContainsFunc(lifetimes, func(path []string) bool {
		value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
		return err == nil && found && value != nil
	})
}

// RunsOnce reports whether a manifest says that an object is never created again after it was created once, whatever
// its status was.
func RunsOnce(u *unstructured.Unstructured) bool {
	annotations := u.GetAnnotations()
	once := annotations[v1alpha1.RunOnceAnnotation]
	return once == "true" || once != "false" && annotations[v1alpha1.ApplyAnnotation] == string(v1alpha1.ApplyCreateOnly)
}

// Succeeded reports whether an object has ended successfully, as its status shows, and its controller removes it then.
func Succeeded(u *unstructured.Unstructured) bool {
	if _, reports := u.Object["status"]; !reports || !RemovesItself(u) {
		return false
	}
	for _, path := range phaseAt {
		if phase, found, err := unstructured.NestedString(u.Object, path...); err == nil && found && slices.Contains(phases, phase) {
			return true
		}
	}
	if certificate, _, _ := unstructured.NestedString(u.Object, "status", "certificate"); certificate != "" && u.GroupVersionKind().GroupKind() == signingRequest {
		return true
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(c any) bool {
		condition, _ := c.(map[string]any)
		name, _ := condition["type"].(string)
		return condition["status"] == "True" && slices.Contains(conditions, name)
	})
}

// endsAsPod reports whether an object is a Pod that ends, and that the garbage collector of Pods may remove then. Other Pods
// are restarted without end.
func endsAsPod(u *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(u.Object, "spec", "restartPolicy")
	return u.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Pod"} && (policy == "Never" || policy == "OnFailure")
}
