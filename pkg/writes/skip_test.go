package writes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestAnsweredBy: the end of an accepted exemption is printed, so an answer without one is awaited further.
func TestAnsweredBy(t *testing.T) {
	skip := Skipped{request: "one"}
	until := &metav1.Time{Time: time.Now()}
	require.True(t, skip.answeredBy(&v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Until: until, Request: "one"}))
	require.True(t, skip.answeredBy(&v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassIgnored, Request: "one"}))
	require.False(t, skip.answeredBy(&v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Until: until, Request: "two"}), "an earlier request")
	require.False(t, skip.answeredBy(&v1alpha1.BreakGlassStatus{State: v1alpha1.BreakGlassAccepted, Request: "one"}), "another client wrote the status")
}
