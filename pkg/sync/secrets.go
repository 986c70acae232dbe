package sync

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// toApply returns an object as it is applied: without the fields that the API server sets.
func toApply(obj any) (map[string]any, error) {
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	if metadata, is := u["metadata"].(map[string]any); is {
		delete(metadata, "creationTimestamp")
	}
	return u, nil
}

// labelValue returns a name as the value of a label, which has at most 63 characters.
func labelValue(name string) string {
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	return name[:38] + "-" + digest(name)
}

// reasonOf returns the reason of an error of the API server without its message, which may quote a Secret.
func reasonOf(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		if apierrors.IsForbidden(err) {
			return "Vidra may not create and patch Secrets there: grant it these rights"
		}
		return "the API server answered " + string(apierrors.ReasonForError(err))
	}
	return "the API server did not answer"
}
