package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReconcileRequest(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC))
	tests := map[string]struct {
		reason, annotation string
		at                 *metav1.Time
		want               string
	}{
		"none":       {reason: "nothing is requested"},
		"annotation": {reason: "any value counts", annotation: "now", want: "now"},
		"spec":       {reason: "as the first operator wrote it", at: &noon, want: "2026-01-02T12:00:00Z"},
		"earlier":    {reason: "the later request counts", annotation: "2026-01-02T11:00:00Z", at: &noon, want: "2026-01-02T12:00:00Z"},
		"later":      {reason: "the later request counts", annotation: "2026-01-02T13:00:00.5Z", at: &noon, want: "2026-01-02T13:00:00.5Z"},
		"no time":    {reason: "it cannot be compared", annotation: "again", at: &noon, want: "again"},
		"long":       {reason: "the status repeats it", annotation: strings.Repeat("x", 100), want: strings.Repeat("x", maxRequest)},
		"rune":       {reason: "the status in the cluster has no part of a rune", annotation: strings.Repeat("x", maxRequest-1) + "é", want: strings.Repeat("x", maxRequest-1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := &VidraResource{Spec: VidraResourceSpec{ReconciledAt: tt.at}}
			v.Annotations = map[string]string{ReconcileRequestedAtAnnotation: tt.annotation}
			require.Equal(t, tt.want, v.ReconcileRequest(), tt.reason)
			if tt.at == nil {
				is := &InfrahubSync{}
				is.Annotations = map[string]string{SyncRequestedAtAnnotation: tt.annotation}
				require.Equal(t, tt.want, is.SyncRequest(), tt.reason)
			}
		})
	}
}
