package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
)

// ProblemObject is how problems name an object.
func ProblemObject(gvk schema.GroupVersionKind, id Identity) *v1alpha1.ProblemObject {
	return &v1alpha1.ProblemObject{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: id.Namespace, Name: id.Name}
}

// InProgress reports whether a problem with a reason ends by itself.
func InProgress(reason string) bool {
	return reason == v1alpha1.ReasonProgressing || reason == v1alpha1.ReasonStarting || reason == v1alpha1.ReasonDeleting
}

// ProblemOf returns a problem that is part of conditions. The problem belongs to
// the first of them.
func ProblemOf(object *v1alpha1.ProblemObject, reason, message string, conditions ...string) v1alpha1.Problem {
	return v1alpha1.Problem{
		Conditions: conditions, Object: object, Reason: reason, Transient: InProgress(reason),
		Message: ProblemMessage(message),
	}
}

// ProblemMessage returns a text as the message of a problem has it.
func ProblemMessage(text string) string {
	return display.Truncate(display.Line(strings.Join(strings.Fields(text), " ")), v1alpha1.MaxProblemMessage)
}
