package insight

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/insight/internal/eventtest"
)

// TestFollower tells a follower what a reflector tells its store.
func TestFollower(t *testing.T) {
	var told []string
	f := &eventFollower{seen: map[types.UID]eventState{}, print: func(all []*eventsv1.Event) error {
		for _, e := range all {
			told = append(told, fmt.Sprintf("%s %d", e.Name, TimesSeen(e)))
		}
		return nil
	}}
	tells := func(reason string, want ...string) {
		t.Helper()
		require.Equal(t, want, told, reason)
		told = nil
	}
	at := func(count int32) *eventsv1.Event {
		e := eventtest.Corrected()
		if count > 1 {
			e.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(eventtest.Noon.Add(time.Duration(count) * time.Second))}
		}
		return e
	}

	require.NoError(t, f.Replace([]any{at(1), eventtest.Reverted()}, "1"))
	tells("the list", "corrected 1", "reverted 1")
	require.NoError(t, f.Add(at(1)))
	tells("the same once more says nothing")
	require.NoError(t, f.Update(at(2)))
	tells("the series grew", "corrected 2")
	labelled := at(2)
	labelled.Labels = map[string]string{"seen": "true"}
	require.NoError(t, f.Update(labelled))
	tells("somebody touched the Event, and it says what it said")
	require.NoError(t, f.Replace([]any{eventtest.New("missed", "Applied", time.Second, eventtest.Resource, nil), at(4)}, "9"))
	tells("what was missed while the watch was broken, in order", "missed 1", "corrected 4")
	require.NoError(t, f.Add(eventtest.Reverted()))
	tells("the list was older than what is known")
	require.NoError(t, f.Delete(at(4)))
	require.NotContains(t, f.seen, types.UID("corrected"), "what expires is forgotten")
	require.NoError(t, f.Add(at(1)))
	tells("a new one of the same name", "corrected 1")
	require.NoError(t, f.Resync())
	tells("nothing happened")
	for _, call := range []func(any) error{f.Add, f.Update, f.Delete, func(o any) error { return f.Replace([]any{o}, "") }} {
		require.ErrorContains(t, call(&metav1.Status{}), "Status instead of an Event")
	}
}

func TestFollowerFilters(t *testing.T) {
	told := 0
	f := &eventFollower{
		seen:   map[types.UID]eventState{},
		filter: eventFilter{since: eventtest.Noon.Add(-time.Second)},
		print:  func(all []*eventsv1.Event) error { told += len(all); return nil },
	}
	old := eventtest.Corrected()
	require.NoError(t, f.Replace([]any{old}, "1"))
	require.Equal(t, 0, told)
	recurred := old.DeepCopy()
	recurred.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(eventtest.Noon)}
	require.NoError(t, f.Update(recurred))
	require.Equal(t, 1, told, "it was too old, and is no longer")
}

// errFull is the error of a disk that is full.
var errFull = errors.New("no space left")

func TestFollowerStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	f := &eventFollower{seen: map[types.UID]eventState{}, stop: stop, print: func([]*eventsv1.Event) error { return errFull }}
	require.NoError(t, f.Add(eventtest.Corrected()))
	require.ErrorIs(t, context.Cause(ctx), errFull)
}
