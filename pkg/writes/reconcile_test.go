package writes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestNewRequest: the operator has not carried out the request of the command before, and finds it before all others.
func TestNewRequest(t *testing.T) {
	now := time.Date(2026, 1, 31, 18, 0, 0, 5, time.UTC)
	future := now.AddDate(1, 0, 0).Truncate(time.Second)
	const first = "2027-01-31T18:00:00.000000001Z"
	tests := map[string]struct {
		reason, annotation, handled, want string
		spec                              time.Time
	}{
		"none":      {reason: "the present time", want: "2026-01-31T18:00:00.000000005Z"},
		"past":      {reason: "the present time is later", spec: now.AddDate(-1, 0, 0), annotation: "2026-01-31T17:00:00Z", handled: "2026-01-31T17:00:00Z", want: "2026-01-31T18:00:00.000000005Z"},
		"future":    {reason: "spec.reconciledAt is handled already", spec: future, handled: "2027-01-31T18:00:00Z", want: first},
		"again":     {reason: "so is the request of the last command", spec: future, annotation: first, handled: first, want: "2027-01-31T18:00:00.000000002Z"},
		"removed":   {reason: "a user removed the annotation", spec: future, handled: first, want: "2027-01-31T18:00:00.000000002Z"},
		"no time":   {reason: "a text of a user", annotation: "please", handled: "please", want: "2026-01-31T18:00:00.000000005Z"},
		"same time": {reason: "a clock that is coarse", annotation: "2026-01-31T18:00:00.000000005Z", want: "2026-01-31T18:00:00.000000006Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			vr := &v1alpha1.VidraResource{}
			vr.Status.LastHandledReconcileAt = tt.handled
			if !tt.spec.IsZero() {
				vr.Spec.ReconciledAt = &metav1.Time{Time: tt.spec}
			}
			if tt.annotation != "" {
				vr.Annotations = map[string]string{v1alpha1.ReconcileRequestedAtAnnotation: tt.annotation}
			}
			request := newRequest(vr, now)
			require.Equal(t, tt.want, request, tt.reason)
			vr.Annotations = map[string]string{v1alpha1.ReconcileRequestedAtAnnotation: request}
			require.Equal(t, request, vr.ReconcileRequest(), "it counts")
		})
	}
}
