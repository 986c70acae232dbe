package object

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// TestWorkOfManyFaults has the API server refuse an object of 1.5 MB with the most environment variables, all invalid. The message
// about it is made in seconds, and shows no value.
func TestWorkOfManyFaults(t *testing.T) {
	const variables = 19_000
	var env []any
	var causes []metav1.StatusCause
	var misfits strings.Builder
	for i := range variables {
		name, value := fmt.Sprintf("=%d", i), fmt.Sprintf("secret-%d", i)
		env = append(env, map[string]any{"name": name, "value": value})
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Message: fmt.Sprintf("Invalid value: %q: must not contain '=', as in %s", name, value),
			Field: fmt.Sprintf("spec.template.spec.containers[0].env[%d].name", i),
		})
		fmt.Fprintf(&misfits, "\n  .spec.field-%d: expected numeric (int or float), got %s", i, value)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "env": env}}}}},
	}}
	sensitive := obj.DeepCopy()
	sensitive.SetAnnotations(map[string]string{ownership.SensitiveAnnotation: "true"})
	invalid := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 422, Reason: metav1.StatusReasonInvalid, Message: fmt.Sprint(causes), Details: &metav1.StatusDetails{Causes: causes},
	}}
	misfit := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 500, Message: "failed to create typed patch object (/web; apps/v1, Kind=Deployment): errors:" + misfits.String(),
	}}
	cases := map[string]struct {
		reason string
		err    error
		obj    *unstructured.Unstructured
		want   string
	}{
		"Causes":    {"Each fault is a cause.", invalid, obj, "env[0].name"},
		"Sensitive": {"The fields are shown alone.", invalid, sensitive, "env[0].name"},
		"Text":      {"The faults are one text.", misfit, obj, "(withheld)"},
		"Fields":    {"The fields of the text are shown alone.", misfit, sensitive, "spec.field-0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			known := ownership.Disclose(false, false, false).With(tc.obj)
			var text string
			took := fixture.ProcessorTime(t, func() { text = Message(tc.err, known) })
			t.Logf("%s: %s", took, text)
			require.Less(t, took, 10*time.Second, tc.reason) // it takes 0.2 s, and the race detector 3 s
			require.Contains(t, text, tc.want, tc.reason)
			require.NotContains(t, text, "secret-")
			require.Less(t, len(text), 8*v1alpha1.MaxProblemMessage, tc.reason)
		})
	}
	require.Equal(t, [][]string{{"spec", "template", "spec", "containers", "env", "name"}}, FieldNames(invalid))
}
