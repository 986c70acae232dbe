package reconcile

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// kindGone says whether an error means that the API server does not serve the
// kind, or not yet, or not any more.
func kindGone(err error, name string) bool {
	return meta.IsNoMatchError(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsNotFound(err) && !missingNamespace(err) && !isObject(err, name)
}

// missingNamespace says whether an error means that the namespace of the object
// does not exist.
func missingNamespace(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && apierrors.IsNotFound(err) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// explain turns the error of an apply into a reason and a message for people.
func explain(err error, gvk schema.GroupVersionKind, id identity) failure {
	switch {
	case kindGone(err, id.name):
		return failure{v1alpha1.ReasonKindUnavailable, errNotServed(gvk).Error()}
	case missingNamespace(err):
		return failure{
			v1alpha1.ReasonApplyFailed,
			fmt.Sprintf("namespace %s does not exist: create it, or add it to the manifest", id.namespace),
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return failure{v1alpha1.ReasonManifestInvalid, message(err, id)}
	default:
		return failure{v1alpha1.ReasonApplyFailed, message(err, id)}
	}
}

// message is the text of an error. The API server quotes values in its errors;
// those of a Secret are left out.
func message(err error, id identity) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok || id.GroupKind != (schema.GroupKind{Kind: "Secret"}) {
		return err.Error()
	}
	var fields []string
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			fields = append(fields, cause.Field)
		}
	}
	reason := status.Status().Reason
	if reason == metav1.StatusReasonUnknown {
		reason = "an error"
	}
	return fmt.Sprintf("the API server answered %s for the fields [%s]; its message is withheld because it may quote the Secret",
		reason, strings.Join(fields, ", "))
}

// maxNamed is how many failing objects a message names.
const maxNamed = 3

// severity orders the reasons: the first one that occurs is the reason of the
// whole.
var severity = []string{
	v1alpha1.ReasonManifestInvalid, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonPruneFailed,
	v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonProgressing,
}

// worst is the reason of several failures, and a message that names the first
// of them, those with that reason ahead. order is the objects' order.
func worst(failures map[identity]failure, order []identity) (reason, message string) {
	rank := func(id identity) int { return slices.Index(severity, failures[id].reason) }
	ids := make([]identity, 0, len(failures))
	for _, id := range order {
		if _, failed := failures[id]; failed {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b identity) int { return rank(a) - rank(b) })
	if len(ids) == 0 {
		return "", ""
	}
	var parts []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		parts = append(parts, fmt.Sprintf("%s: %s", id, failures[id].message))
	}
	if more := len(ids) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return failures[ids[0]].reason, strings.Join(parts, "; ")
}

// String names an object for people: kind, namespace and name.
func (id identity) String() string {
	if id.namespace == "" {
		return id.Kind + " " + id.name
	}
	return id.Kind + " " + id.namespace + "/" + id.name
}
