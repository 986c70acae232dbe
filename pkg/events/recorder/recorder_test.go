package recorder

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// accepting is an API server that accepts each Event. What a real one makes of them
// is tested in e2e.
type accepting struct {
	typedeventsv1.EventsV1Interface
	typedeventsv1.EventInterface
}

func (a accepting) Events(string) typedeventsv1.EventInterface { return a }

func (accepting) Create(_ context.Context, e *eventsv1.Event, _ metav1.CreateOptions) (*eventsv1.Event, error) {
	return e, nil
}

// unstarted makes a Recorder that only takes Events.
func unstarted(t *testing.T, options Options) (*Recorder, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	r, err := New(accepting{}, registry, options)
	require.NoError(t, err)
	t.Cleanup(r.queue.ShutDown)
	return r, registry
}

// counted is how many Events had an outcome.
func counted(t *testing.T, registry *prometheus.Registry, outcome string) int {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	n := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if strings.Contains(metric.String(), fmt.Sprintf("%q", outcome)) {
				n += int(metric.GetCounter().GetValue())
			}
		}
	}
	return n
}

// TestRecordAtTheSameTime: what many tell at once is one series, and none is lost.
func TestRecordAtTheSameTime(t *testing.T) {
	const many, each = 8, 200
	r, registry := unstarted(t, Options{})
	var recording sync.WaitGroup
	for range many {
		recording.Go(func() {
			for range each {
				r.Record([]events.Event{healed("a", "data.a"), healed("b", "data.a")})
			}
		})
	}
	recording.Wait()
	require.Len(t, r.aggregator.series, 2)
	for _, s := range r.aggregator.series {
		require.EqualValues(t, many*each, s.pending)
	}
	require.Equal(t, 2*many*each, counted(t, registry, outcomeEmitted))
}

// TestDropsAreCounted: what finds no place is counted each time, and logged once.
func TestDropsAreCounted(t *testing.T) {
	logged := 0
	r, registry := unstarted(t, Options{Log: funcr.New(func(string, string) { logged++ }, funcr.Options{})})
	for i := range maxSeries + 3 {
		r.Record([]events.Event{healed(fmt.Sprintf("page-%d", i), "data.a")})
	}
	require.Equal(t, maxSeries+3, counted(t, registry, outcomeEmitted))
	require.Equal(t, 3, counted(t, registry, outcomeDropped))
	require.Equal(t, 1, logged)
}

// TestWithoutObjects: only the Events that regard managed objects can be left out.
func TestWithoutObjects(t *testing.T) {
	r, registry := unstarted(t, Options{WithoutObjects: true})
	onObject := healed("a", "data.a")
	onObject.Regarding, onObject.Related = *onObject.Related, &onObject.Regarding
	onObject.OnObject = true
	onVidraResource := onObject // a VidraResource of a manifest is a managed object, too
	onVidraResource.Regarding = owner
	onVidraResource.Regarding.Name = "inner"
	ofSync := events.Event{Regarding: corev1.ObjectReference{Kind: v1alpha1.SyncKind, Name: "shop"}}
	r.Record([]events.Event{healed("a", "data.a"), onObject, onVidraResource, ofSync, healed("b", "data.a")})
	require.Equal(t, 3, counted(t, registry, outcomeEmitted))
	require.Len(t, r.aggregator.series, 3)
	for k := range r.aggregator.series {
		require.Contains(t, []string{owner.Name, ofSync.Regarding.Name}, k.regarding.Name)
	}
}

// TestMemoryIsBounded: of more series than there is room for, none is kept besides
// those in the aggregator, and those not for longer than they run.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, registry := unstarted(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Start(ctx) }()
		var made []weak.Pointer[series]
		kept := func() int {
			runtime.GC()
			n := 0
			for _, s := range made {
				if s.Value() != nil {
					n++
				}
			}
			return n
		}
		const rounds = 4
		for round := range rounds {
			for i := range maxSeries / 2 {
				e := healed(fmt.Sprintf("page-%d-%d", round, i), "data.a")
				r.Record([]events.Event{e})
				r.mu.Lock()
				made = append(made, weak.Make(r.aggregator.series[keyOf(e)]))
				r.mu.Unlock()
			}
			time.Sleep(writeInterval + time.Second) // when each may be looked at once more
			synctest.Wait()
			require.LessOrEqual(t, kept(), maxSeries)
		}
		require.Equal(t, rounds*maxSeries/2, counted(t, registry, outcomeRecorded))
		require.Equal(t, maxSeries, kept())
		time.Sleep(seriesQuietTime + expireInterval)
		synctest.Wait()
		require.Zero(t, kept())
		cancel()
		require.NoError(t, <-ended)
	})
}
