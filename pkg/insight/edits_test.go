package insight

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestInHistory: the Event of an edit is recorded later than the time that its entry of the history has. It is not another edit.
func TestInHistory(t *testing.T) {
	began := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	const note = "ConfigMap shop/settings: reverted data.color to \"blue\"; \"kubectl-edit\" had set it to \"red\""
	entry := func(note string) v1alpha1.HistoryEntry {
		return v1alpha1.HistoryEntry{
			Object: v1alpha1.ProblemObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"},
			Reason: events.ReasonDriftCorrected, Message: events.HistoryMessage(note, ref), LastTime: metav1.NewTime(began), Count: 2,
		}
	}
	event := func(after time.Duration, times int32) *eventsv1.Event {
		return &eventsv1.Event{
			Regarding: corev1.ObjectReference{Kind: v1alpha1.Kind, Name: "shop"}, Related: &ref, Reason: events.ReasonDriftCorrected, Note: note,
			EventTime: metav1.NewMicroTime(began), Series: &eventsv1.EventSeries{Count: times, LastObservedTime: metav1.NewMicroTime(began.Add(after))},
		}
	}
	long := note + strings.Repeat(". Reverted data.other to \"blue\"", 20)
	tests := map[string]struct {
		reason string
		event  *eventsv1.Event
		change func(e *eventsv1.Event, h *v1alpha1.HistoryEntry)
		want   bool
	}{
		"same":         {reason: "the reconcile took 1.2 s", event: event(1200*time.Millisecond, 2), want: true},
		"once more":    {reason: "the status has not counted it yet", event: event(1200*time.Millisecond, 3)},
		"later":        {reason: "a new series of the same edit", event: event(time.Hour, 1)},
		"other value":  {reason: "another edit", event: event(time.Second, 1), change: func(e *eventsv1.Event, _ *v1alpha1.HistoryEntry) { e.Note += "!" }},
		"other result": {reason: "another edit", event: event(time.Second, 1), change: func(e *eventsv1.Event, _ *v1alpha1.HistoryEntry) { e.Reason = v1alpha1.ReasonDriftDetected }},
		"other object": {reason: "another edit", event: event(time.Second, 1), change: func(_ *eventsv1.Event, h *v1alpha1.HistoryEntry) { h.Object.Name = "other" }},
		"other owner":  {reason: "each has its own history", event: event(time.Second, 1), change: func(e *eventsv1.Event, _ *v1alpha1.HistoryEntry) { e.Regarding.Name = "other" }},
		"long": {reason: "the history has the begin of a long note", event: event(time.Second, 1), want: true,
			change: func(e *eventsv1.Event, h *v1alpha1.HistoryEntry) { e.Note, *h = long, entry(long) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := entry(note)
			if tt.change != nil {
				tt.change(tt.event, &h)
			}
			vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
			vr.Status.History = []v1alpha1.HistoryEntry{h}
			of := &subject{id: object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "settings"}, owners: []*v1alpha1.VidraResource{vr}}
			require.Equal(t, tt.want, of.inHistory(tt.event), tt.reason)
		})
	}
}

// TestIsRegardedBy: an Event about an edit of a VidraResource in a manifest regards either of two VidraResources.
func TestIsRegardedBy(t *testing.T) {
	inner := corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "inner"}
	outer := corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "outer"}
	of := &subject{id: object.Identity{GroupKind: schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.Kind}, Name: "inner"}}
	require.False(t, of.isRegardedBy(&eventsv1.Event{Regarding: outer, Related: &inner}))
	require.True(t, of.isRegardedBy(&eventsv1.Event{Regarding: inner, Related: &outer}))
	page := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}
	of = &subject{id: object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "shop", Name: "page"}}
	require.False(t, of.isRegardedBy(&eventsv1.Event{Regarding: outer, Related: &page}))
	require.True(t, of.isRegardedBy(&eventsv1.Event{Regarding: page, Related: &outer}))
}
