package insight

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/insight/internal/eventtest"
)

func TestTimesOfEvents(t *testing.T) {
	micro := metav1.NewMicroTime
	tests := map[string]struct {
		reason      string
		event       eventsv1.Event
		first, last time.Time
		times       int32
	}{
		"single": {
			reason: "seen once", event: eventsv1.Event{EventTime: micro(eventtest.Noon)},
			first: eventtest.Noon, last: eventtest.Noon, times: 1,
		},
		"series": {
			reason: "seen last when it recurred last",
			event: eventsv1.Event{EventTime: micro(eventtest.Noon), Series: &eventsv1.EventSeries{
				Count: 3, LastObservedTime: micro(eventtest.Noon.Add(time.Minute)),
			}},
			first: eventtest.Noon, last: eventtest.Noon.Add(time.Minute), times: 3,
		},
		"core": {
			reason: "written through the core API",
			event: eventsv1.Event{
				DeprecatedFirstTimestamp: metav1.NewTime(eventtest.Noon), DeprecatedLastTimestamp: metav1.NewTime(eventtest.Noon.Add(time.Hour)),
				DeprecatedCount: 7,
			},
			first: eventtest.Noon, last: eventtest.Noon.Add(time.Hour), times: 7,
		},
		"bare": {
			reason: "there is always the time at which it was written",
			event:  eventsv1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(eventtest.Noon)}},
			first:  eventtest.Noon, last: eventtest.Noon, times: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.first, FirstSeen(&tt.event), tt.reason)
			require.Equal(t, tt.last, LastSeen(&tt.event), tt.reason)
			require.Equal(t, tt.times, TimesSeen(&tt.event), tt.reason)
		})
	}
}

func TestSortEvents(t *testing.T) {
	recurred := eventtest.New("recurred", "Applied", time.Hour, eventtest.Resource, nil)
	recurred.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(eventtest.Noon)}
	all := []*eventsv1.Event{recurred, eventtest.Reverted(), eventtest.Corrected()}
	sortEvents(all)
	require.Equal(t, []string{"corrected", "reverted", "recurred"}, []string{all[0].Name, all[1].Name, all[2].Name},
		"the newest last, and the same order each time where the times are the same")
}
