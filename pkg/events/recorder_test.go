package events

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// unstarted makes a Recorder that only takes Events.
func unstarted(t *testing.T, options Options) (*Recorder, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	r, err := NewRecorder(nil, registry, options)
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
				r.Record([]Event{healed("a", "data.a"), healed("b", "data.a")})
			}
		})
	}
	recording.Wait()
	require.Len(t, r.book.series, 2)
	for _, s := range r.book.series {
		require.EqualValues(t, many*each, s.pending)
	}
	require.Equal(t, 2*many*each, counted(t, registry, outcomeEmitted))
}

// TestDropsAreCounted: what finds no place is counted each time, and logged once.
func TestDropsAreCounted(t *testing.T) {
	logged := 0
	r, registry := unstarted(t, Options{Log: funcr.New(func(string, string) { logged++ }, funcr.Options{})})
	for i := range maxSeries + 3 {
		r.Record([]Event{healed(fmt.Sprintf("page-%d", i), "data.a")})
	}
	require.Equal(t, maxSeries+3, counted(t, registry, outcomeEmitted))
	require.Equal(t, 3, counted(t, registry, outcomeDropped))
	require.Equal(t, 1, logged)
}

// TestWithoutObjects: only what is told at a managed object can be left out.
func TestWithoutObjects(t *testing.T) {
	r, registry := unstarted(t, Options{WithoutObjects: true})
	kept := 0
	for _, tc := range transitions() {
		all := Transitions(owner, tc.before, tc.after, tc.changes)
		for _, e := range all {
			if e.Reason != ReasonChangeReverted {
				kept++
			}
		}
		r.Record(all)
	}
	require.Equal(t, kept, counted(t, registry, outcomeEmitted))
	for k := range r.book.series {
		require.Equal(t, owner.Kind, k.regarding.Kind)
	}
}
