package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestTaskWith: the success and end of an object after the plan completes its task, except for a changed manifest.
func TestTaskWith(t *testing.T) {
	t.Parallel()
	o := &Object{Desired: &desired.Object{}, Entry: &v1alpha1.ManagedResourceStatus{UID: "1"}}
	succeeded := trigger.Cause{Deleted: true, Succeeded: true}
	require.True(t, Task{Known: o, Why: WhyDrift}.With(succeeded).Completes)
	require.Equal(t, succeeded, Task{Known: o, Why: WhyDrift}.With(succeeded).Cause)
	require.False(t, Task{Known: o, Why: WhyDrift}.With(trigger.Cause{Deleted: true}).Completes)
	require.False(t, Task{Known: o, Why: WhyChanged}.With(succeeded).Completes)
}
