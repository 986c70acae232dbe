package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/events"
)

// ordered is a Recorder that notes among the requests when it is called.
type ordered struct{ *lab }

func (o ordered) Record(all []events.Event) {
	for _, e := range all {
		o.done = append(o.done, e.Reason)
	}
}

// unwritten makes a lab with a heal that neither status nor Event tells of: the status
// could not be written.
func unwritten(t *testing.T) *lab {
	t.Helper()
	l := newLab(t, colors("a"))
	l.mustPass(t)
	l.Reports.Recorder = ordered{l}
	l.states.all[faulty].plan.Schedule.Flush = time.Now()
	l.states.all[faulty].plan.Reports.Unreported.Heals = 1
	l.failWrites = 1
	_, err := l.pass(t, "a")
	require.Error(t, err)
	l.done = nil
	return l
}

// TestFlush tells what passes left behind, once: first the status, then the Events that
// speak of it.
func TestFlush(t *testing.T) {
	cases := map[string]struct {
		reason     string
		failWrites int
		failure    error
		flush      func(ctx context.Context, l *lab) error
		err        string
		done       []string
		heals      int64
	}{
		"leading": {
			reason: "The status is written before the Events tell of it.",
			flush:  func(ctx context.Context, l *lab) error { return l.Flush(ctx) },
			done:   []string{"status", events.ReasonDriftCorrected, events.ReasonChangeReverted}, heals: 2,
		},
		"away": {
			reason: "What was done is told, although the status cannot be.", failWrites: 1,
			flush: func(ctx context.Context, l *lab) error { return l.Flush(ctx) },
			err:   "write the last heals of VidraResource faulty: the API server is away",
			done:  []string{events.ReasonDriftCorrected, events.ReasonChangeReverted},
		},
		"refused": {
			reason: "A policy may quote the manifest.", failWrites: 1,
			failure: apierrors.NewForbidden(schema.GroupResource{Resource: "vidraresources"}, "faulty", errors.New("policy: hunter2")),
			flush:   func(ctx context.Context, l *lab) error { return l.Flush(ctx) },
			err: "write the last heals of VidraResource faulty: the API server answered Forbidden; its message is withheld because it may quote a " +
				"sensitive value",
			done: []string{events.ReasonDriftCorrected, events.ReasonChangeReverted},
		},
		"not leading": {
			reason: "The status is another one's by now.",
			flush:  func(ctx context.Context, l *lab) error { return l.FlushEvents(ctx) },
			err:    "the status of VidraResource faulty does not count its last heals: 2",
			done:   []string{events.ReasonDriftCorrected, events.ReasonChangeReverted},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := unwritten(t)
			l.failWrites, l.failure = tc.failWrites, tc.failure
			l.writing = func() {
				free := l.states.mu.TryLock()
				require.True(t, free, "events of VidraResources are handled meanwhile")
				l.states.mu.Unlock()
			}
			err := tc.flush(t.Context(), l)
			if tc.err == "" {
				require.NoError(t, err)
				require.NoError(t, l.FlushEvents(t.Context()), "nothing is left")
				require.NoError(t, l.Flush(t.Context()), "nothing is left")
			} else {
				require.EqualError(t, err, tc.err)
				require.Error(t, l.FlushEvents(t.Context()), "it still is not written")
			}
			require.Equal(t, tc.done, l.done, tc.reason)
			if tc.heals > 0 {
				require.Equal(t, tc.heals, l.get(t).Status.Drift.Heals)
			}
		})
	}
}

// TestFlushEndsTheReconciles: what a reconcile does while it is flushed is reported, and no reconcile
// begins after.
func TestFlushEndsTheReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := unwritten(t)
		require.True(t, l.states.begin(), "a pass is under way")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, l.FlushEvents(ctx), "reconciles still run")
		require.Empty(t, l.done, "what it works with is not read")

		flushed := make(chan error)
		go func() { flushed <- l.Flush(t.Context()) }()
		synctest.Wait()
		require.Empty(t, l.done)
		l.states.running.Done()
		require.NoError(t, <-flushed)
		require.Contains(t, l.done, events.ReasonDriftCorrected)

		done, err := l.pass(t, "a")
		require.NoError(t, err)
		require.Empty(t, done, "another pass does nothing")
		result, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: faulty})
		require.NoError(t, err)
		require.Zero(t, result)
	})
}

// TestFlushLeavesChangesToTheNextProcess: no status has the changes of a reconcile whose status could not be written. The next process finds them again.
func TestFlushLeavesChangesToTheNextProcess(t *testing.T) {
	l := newLab(t, colors("a"))
	l.applying = func(string) { l.failWrites = 1 }
	_, err := l.pass(t)
	require.Error(t, err)
	require.NoError(t, l.Flush(t.Context()))
	require.Empty(t, l.told)
	l.restart()
	l.applying = nil
	l.mustPass(t)
	require.Equal(t, []string{v1alpha1.ReasonApplied, v1alpha1.ConditionReady}, l.told)
}
