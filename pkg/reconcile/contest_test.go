package reconcile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// fielded is a Recorder that keeps the Events.
type fielded struct{ all []events.Event }

func (f *fielded) Record(all []events.Event) { f.all = append(f.all, all...) }

// TestContestAboutAnObject: who deletes an object again and again contends for no field,
// so no Event names one.
func TestContestAboutAnObject(t *testing.T) {
	l := newLab(t, colors("a"))
	vr := l.get(t)
	vr.Spec.Drift = &v1alpha1.DriftPolicy{HealsPerMinute: 2}
	require.NoError(t, l.client.Update(t.Context(), vr))
	l.mustPass(t)
	told := &fielded{}
	l.Recorder = told
	for range 3 {
		l.mustPass(t, "a")
	}
	contended := 0
	for _, e := range told.all {
		require.Empty(t, e.Fields, "%s: %s", e.Reason, e.Note)
		if e.Reason == events.ReasonDriftContended {
			contended++
			require.Contains(t, e.Note, "changes the object back again and again")
		}
	}
	require.Equal(t, 1, contended)
}
