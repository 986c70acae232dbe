package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// TestResyncDuringAnOutage: a resync that is due while the destination is unreachable is made after that, and not an interval later. Without events,
// nothing else compares the objects.
func TestResyncDuringAnOutage(t *testing.T) {
	t.Parallel()
	l := newLab(t, colors("a"))
	l.kept = map[string]*unstructured.Unstructured{}
	vr := l.get(t)
	vr.Spec.Destination.ReconcileOnEvents = ptr.To(false)
	require.NoError(t, l.client.Update(t.Context(), vr))
	require.Contains(t, l.mustPass(t), "a")
	require.NotContains(t, l.mustPass(t), "a", "a resync is not due")

	delete(l.kept, "a") // another user deletes it
	l.states.of(faulty).plan.Schedule.Resync = time.Now()
	l.away = errors.New("connection refused")
	l.mustPass(t)
	l.mustPass(t)
	l.away = nil
	l.Watching.Trigger.EnqueueRetry(faulty) // as DestinationChanged does
	require.Contains(t, l.mustPass(t), "a")
	require.NotContains(t, l.mustPass(t), "a", "it is made once")
}
