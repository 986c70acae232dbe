package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
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
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsNotFound(err) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// misfit says whether an error means that an applied configuration does not fit
// the schema, as one with an unknown field or with text that is not base64 does
// not. The API server answers that with code 500 and no reason; its text is in
// k8s.io/apimachinery/pkg/util/managedfields/internal.
func misfit(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object") ||
		strings.Contains(err.Error(), "failed to convert new object")
}

// explain turns the error of an apply into a reason and a message for people.
func explain(err error, gvk schema.GroupVersionKind, id identity) failure {
	refused := new(refusal)
	switch {
	case errors.As(err, &refused):
		return failure{v1alpha1.ReasonAdoptionRefused, err.Error()}
	case kindGone(err, id.name):
		return *notServed(gvk)
	case missingNamespace(err):
		return failure{
			v1alpha1.ReasonApplyFailed,
			fmt.Sprintf("namespace %s does not exist: create it, or add it to the manifest", id.namespace),
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), misfit(err):
		return failure{v1alpha1.ReasonManifestInvalid, message(err, id)}
	default:
		return failure{v1alpha1.ReasonApplyFailed, message(err, id)}
	}
}

// message is the text of an error. The API server quotes values in its errors;
// those of a Secret are left out.
func message(err error, id identity) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || id.GroupKind != secretKind {
		return events.Truncate(err.Error(), maxMessage)
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

const (
	// maxNamed is how many failing objects a message names.
	maxNamed = 3
	// maxMessage is how many bytes are kept of one message: the API server quotes
	// values in full, and refuses a status with too long a message.
	maxMessage = 1024
)

// severity orders the reasons: the first one that occurs is the reason of the
// whole.
var severity = []string{
	v1alpha1.ReasonManifestInvalid, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonAdoptionRefused, v1alpha1.ReasonPruneFailed,
	v1alpha1.ReasonKindUnavailable, v1alpha1.ReasonDriftContended, v1alpha1.ReasonDriftDetected,
	v1alpha1.ReasonSuspended, v1alpha1.ReasonNamespaceTerminating, v1alpha1.ReasonProgressing,
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
	parts := make([]string, 0, len(ids))
	for _, id := range ids {
		parts = append(parts, fmt.Sprintf("%s: %s", id, failures[id].message))
	}
	return failures[ids[0]].reason, few(parts)
}

// String names an object for people: kind, namespace and name.
func (id identity) String() string {
	if id.namespace == "" {
		return id.Kind + " " + id.name
	}
	return id.Kind + " " + id.namespace + "/" + id.name
}
