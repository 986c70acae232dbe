package recorder

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// healed is an Event about a field of an object.
func healed(name, field string) events.Event {
	return events.Event{
		Type: normal, Reason: events.ReasonDriftCorrected, Action: events.ActionRestore, Note: "reverted " + field, Regarding: owner,
		Related: &corev1.ObjectReference{Kind: "ConfigMap", Namespace: "shop", Name: name, FieldPath: field},
	}
}

// flushed writes what is due of a series, as the API server would accept it.
func flushed(t *testing.T, b *aggregator, s *series, now time.Time) *write {
	t.Helper()
	w, _ := b.due(s, now, false)
	require.NotNil(t, w)
	b.finishWrite(s, w, true, now)
	return w
}

func TestWhatIsOneSeries(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(e *events.Event)
		same   bool
	}{
		"same":     {"A recurrence.", func(*events.Event) {}, true},
		"version":  {"The owner's status was written in between.", func(e *events.Event) { e.Regarding.ResourceVersion = "2" }, true},
		"related":  {"The object was written in between.", func(e *events.Event) { e.Related.ResourceVersion = "2" }, true},
		"note":     {"The first note is kept.", func(e *events.Event) { e.Note = "reverted another value" }, true},
		"type":     {"A warning is something else.", func(e *events.Event) { e.Type = warning }, false},
		"reason":   {"Another reason.", func(e *events.Event) { e.Reason = v1alpha1.ReasonDriftDetected }, false},
		"action":   {"Another action.", func(e *events.Event) { e.Action = events.ActionDetect }, false},
		"object":   {"Another object.", func(e *events.Event) { e.Related.Name = "b" }, false},
		"field":    {"Another field.", func(e *events.Event) { e.Related.FieldPath = "data.b" }, false},
		"owner":    {"Another owner.", func(e *events.Event) { e.Regarding.UID = "o2" }, false},
		"variant":  {"Told to be something else.", func(e *events.Event) { e.Variant = "other" }, false},
		"recreate": {"The object is another one now.", func(e *events.Event) { e.Related.UID = "2" }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newAggregator("me")
			first, other := healed("a", "data.a"), healed("a", "data.a")
			tc.change(&other)
			s := b.add(first, noon)
			require.Equal(t, tc.same, s == b.add(other, noon), tc.reason)
			w, _ := b.due(s, noon, false)
			require.Equal(t, first.Note, w.event.Note)
			require.Empty(t, w.event.Regarding.ResourceVersion)
		})
	}
}

// TestWriteInterval writes a series at once, then no more often than it should, and
// loses no count.
func TestWriteInterval(t *testing.T) {
	b := newAggregator("me")
	s := b.add(healed("a", "data.a"), noon)
	first := flushed(t, b, s, noon)
	require.False(t, first.exists)
	require.Nil(t, first.event.Series)

	for i := range 5 {
		require.Same(t, s, b.add(healed("a", "data.a"), noon.Add(time.Duration(i)*time.Second)))
	}
	w, wait := b.due(s, noon.Add(4*time.Second), false)
	require.Nil(t, w)
	require.Equal(t, writeInterval-4*time.Second, wait)
	w, _ = b.due(s, noon.Add(4*time.Second), true)
	require.NotNil(t, w, "a hurry has no limit")
	again := flushed(t, b, s, noon.Add(writeInterval))
	require.True(t, again.exists)
	require.EqualValues(t, 6, again.event.Series.Count)
	require.Equal(t, noon.Add(4*time.Second), again.event.Series.LastObservedTime.Time)
	require.Equal(t, first.event.Name, again.event.Name)
	require.Zero(t, b.waiting())
}

// TestManySeriesAreWrittenLessOften: the recurrences of hundreds of series do not overload
// the API server.
func TestManySeriesAreWrittenLessOften(t *testing.T) {
	for many, interval := range map[int]time.Duration{1: writeInterval, 200: writeInterval, 1000: 50 * time.Second, 4000: longestInterval} {
		b := newAggregator("me")
		var all []*series
		for i := range many + 1 {
			all = append(all, b.add(healed(fmt.Sprint(i), "data.a"), noon))
		}
		flushed(t, b, all[0], noon)
		require.Equal(t, many, b.waiting())
		b.add(healed("0", "data.a"), noon)
		_, wait := b.due(all[0], noon, false)
		require.Equal(t, interval, wait.Truncate(time.Second), many)
	}
}

func TestQuietSeriesEnds(t *testing.T) {
	b := newAggregator("me")
	s := b.add(healed("a", "data.a"), noon)
	require.Same(t, s, b.add(healed("a", "data.a"), noon.Add(seriesQuietTime)), "what is not written is not over")
	flushed(t, b, s, noon.Add(seriesQuietTime))
	w, wait := b.due(s, noon.Add(seriesQuietTime+time.Minute), false)
	require.Nil(t, w)
	require.Zero(t, wait, "nobody waits for it to end")
	b.expire(noon.Add(2*seriesQuietTime - 1))
	require.Len(t, b.series, 1)
	other := b.add(healed("a", "data.a"), noon.Add(2*seriesQuietTime))
	require.NotSame(t, s, other)
	require.Equal(t, 1, b.waiting())

	b.expire(noon.Add(9 * seriesQuietTime))
	require.Len(t, b.series, 1, "what is not written is not over")
	flushed(t, b, other, noon.Add(2*seriesQuietTime))
	b.expire(noon.Add(3 * seriesQuietTime))
	require.Empty(t, b.series)
	require.Empty(t, b.perObject)
	require.Zero(t, b.idle.Len())
}

// TestRefusedOccurrencesDoNotCount: what the API server refused is in no series.
func TestRefusedOccurrencesDoNotCount(t *testing.T) {
	b := newAggregator("me")
	s := b.add(healed("a", "data.a"), noon)
	b.add(healed("a", "data.a"), noon)
	w, _ := b.due(s, noon, false)
	b.finishWrite(s, w, false, noon)
	require.Zero(t, b.waiting())
	later := noon.Add(time.Minute)
	require.Same(t, s, b.add(healed("a", "data.a"), later), "it is not asked again each time")
	w = flushed(t, b, s, later)
	require.False(t, w.exists)
	require.Nil(t, w.event.Series)
	require.Equal(t, later, w.event.EventTime.Time)
}

// TestManyFieldsOfAnObject: who changes other fields each time makes no more than a
// few series.
func TestManyFieldsOfAnObject(t *testing.T) {
	b := newAggregator("me")
	written := map[*series]int32{}
	for i := range 100 {
		e := healed("a", fmt.Sprintf("data.%d", i))
		e.Note = strings.Repeat("x", events.MaxNote)
		written[b.add(e, noon)]++
	}
	require.Len(t, written, maxPerObject+1)
	rest := b.series[keyOf(healed("a", "")).object()]
	require.EqualValues(t, 100-maxPerObject, rest.pending)
	require.True(t, strings.HasSuffix(rest.event.Note, foldedSuffix))
	require.LessOrEqual(t, len(rest.event.Note), events.MaxNote)
	require.Empty(t, rest.event.Related.FieldPath)
	require.NotContains(t, written, b.add(healed("b", "data.0"), noon), "another object is told as ever")
}

// TestDeletionsOfAnObject: who deletes an object each time it is there again makes no
// more than a few series, although each is another object.
func TestDeletionsOfAnObject(t *testing.T) {
	b := newAggregator("me")
	object := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a"}
	for i := range 100 {
		object.UID = types.UID(fmt.Sprint(i))
		for _, e := range events.Transitions(owner, v1alpha1.VidraResourceStatus{}, v1alpha1.VidraResourceStatus{}, []events.Change{{Action: events.Recreated, Object: object}}) {
			require.NotNil(t, b.add(e, noon))
		}
	}
	require.Len(t, b.series, 2*(maxPerObject+1), "told to the owner, and at the object")
	told := int32(0)
	for k, s := range b.series {
		told += s.pending
		require.NotEmpty(t, s.event.Regarding.UID, "kubectl describe finds no Event without it: %s", s.event.Note)
		require.NotEmpty(t, s.event.Related.UID)
		require.Equal(t, k.regarding.UID == "", strings.HasSuffix(s.event.Note, foldedSuffix))
	}
	require.EqualValues(t, 2*100, told)
}

func TestBookIsBounded(t *testing.T) {
	b := newAggregator("me")
	name := func(i int) string { return fmt.Sprintf("page-%d", i) }
	series := func(i int) *series { return b.series[keyOf(healed(name(i), "data.a"))] }
	for i := range maxSeries {
		require.NotNil(t, b.add(healed(name(i), "data.a"), noon))
	}
	require.Nil(t, b.add(healed("more", "data.a"), noon), "all of them wait")
	require.NotNil(t, b.add(healed(name(7), "data.a"), noon), "recurrences are counted")
	for _, i := range []int{8, 9, 10} {
		flushed(t, b, series(i), noon)
	}
	b.add(healed(name(8), "data.a"), noon.Add(longestInterval))
	flushed(t, b, series(8), noon.Add(longestInterval))
	require.NotNil(t, b.add(healed("more", "data.a"), noon), "one that is written makes room")
	require.Len(t, b.series, maxSeries)
	require.Nil(t, series(9), "the oldest one")
	require.NotNil(t, series(8), "which had gone on")
	require.NotNil(t, series(10), "and no other")
}

// TestNamesAreUnique: the clock does not move, or stands still.
func TestNamesAreUnique(t *testing.T) {
	b := newAggregator("me")
	names := map[string]bool{}
	for i := range 100 {
		e := healed(fmt.Sprintf("page-%d", i), "data.a")
		s := b.add(e, noon.Add(-time.Duration(i)))
		require.False(t, names[s.event.Name])
		names[s.event.Name] = true
		require.Equal(t, "default", s.event.Namespace, "a VidraResource has no namespace")
	}
}

func TestRetriable(t *testing.T) {
	resource := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	forbidden := apierrors.NewForbidden(resource, "a", errors.New("no"))
	terminating := apierrors.NewForbidden(resource, "a", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	away := errors.New("connection refused")
	times := func(n int, err error) []error { return slices.Repeat([]error{err}, n) }
	cases := map[string]struct {
		reason string
		errs   []error // one try after the other
		want   bool    // after the last
	}{
		"no answer":       {"The API server is away.", times(100, away), true},
		"internal":        {"It is not well.", times(100, apierrors.NewInternalError(errors.New("no"))), true},
		"unavailable":     {"It starts.", times(100, apierrors.NewServiceUnavailable("no")), true},
		"throttled":       {"It is busy.", times(100, apierrors.NewTooManyRequests("no", 1)), true},
		"unauthorized":    {"A token is renewed.", times(100, apierrors.NewUnauthorized("no")), true},
		"forbidden":       {"It has not read its roles.", times(forbiddenTries-1, forbidden), true},
		"still forbidden": {"It has, and they do not allow it.", times(forbiddenTries, forbidden), false},
		"after an outage": {"What was not answered says nothing about roles.", append(times(100, away), times(forbiddenTries-1, forbidden)...), true},
		"restarts":        {"Nor does what was forbidden before it restarted.", slices.Concat(times(3, forbidden), times(1, away), times(forbiddenTries-1, forbidden)), true},
		"for good":        {"In the end it has.", append(times(100, away), times(forbiddenTries, forbidden)...), false},
		"terminating":     {"The namespace does not come back.", times(1, terminating), false},
		"not found":       {"The namespace is gone.", times(1, apierrors.NewNotFound(resource, "a")), false},
		"invalid":         {"It never will be valid.", times(1, apierrors.NewInvalid(schema.GroupKind{}, "a", nil)), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &series{}
			for _, err := range tc.errs[:len(tc.errs)-1] {
				require.True(t, s.shouldRetry(err), tc.reason)
			}
			require.Equal(t, tc.want, s.shouldRetry(tc.errs[len(tc.errs)-1]), tc.reason)
		})
	}
}
