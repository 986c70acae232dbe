package limits

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestWorkers: a reconcile that lasts long continues without its worker, and its result reaches the queue all the same.
func TestWorkers(t *testing.T) {
	owner, failed := trigger.Owner{Name: "a"}, errors.New("failed")
	later := reconcile.Result{RequeueAfter: time.Minute}
	cases := map[string]struct {
		reason string
		lasts  time.Duration
		do     func() (reconcile.Result, error)
		// others are the reconciles that continue without a worker, meanwhile those of the same owner while it waits.
		others, meanwhile int
		detached          bool
		again             bool
		result            reconcile.Result
		err               string
	}{
		"Short":    {reason: "It has its worker.", lasts: workerPatience - 1, result: later},
		"Failed":   {reason: "Its error is that of the worker.", do: func() (reconcile.Result, error) { return reconcile.Result{}, failed }, err: "failed"},
		"Panic":    {reason: "The operator goes on.", do: func() (reconcile.Result, error) { panic("oh") }, err: "panic: oh"},
		"Long":     {reason: "Others have the worker.", lasts: time.Minute, detached: true, result: later},
		"LongFail": {reason: "It is tried again.", lasts: time.Minute, detached: true, do: func() (reconcile.Result, error) { return reconcile.Result{}, failed }, err: "failed"},
		"Again":    {reason: "It waits for the end.", lasts: time.Minute, detached: true, meanwhile: 3, again: true, result: later},
		"TooMany":  {reason: "Their number is bounded.", lasts: time.Minute, others: maxDetached, result: later},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type end struct {
					again bool
					reconciled
				}
				ended := make(chan end, 1)
				w := &Workers{Ended: func(o trigger.Owner, again bool, result reconcile.Result, err error) {
					require.Equal(t, owner, o)
					ended <- end{again, reconciled{result, err}}
				}}
				runs, again := 0, false
				for n := range tc.others {
					require.True(t, w.detach(trigger.Owner{Name: strings.Repeat("b", n+1)}))
				}
				do := func(func()) (reconcile.Result, error) {
					time.Sleep(tc.lasts)
					if tc.do != nil {
						return tc.do()
					}
					return later, nil
				}
				result, err := w.Run(owner, do, nil)
				require.Empty(t, ended)
				w.mu.Lock()
				require.Equal(t, tc.detached, len(w.detached) == tc.others+1, tc.reason)
				w.mu.Unlock()
				for range tc.meanwhile {
					result, err = w.Run(owner, func(func()) (reconcile.Result, error) { panic("it overlaps") }, func() { runs++ })
				}
				require.Equal(t, tc.meanwhile, runs)
				if tc.detached {
					require.Zero(t, result, tc.reason)
					require.NoError(t, err)
					got := <-ended
					result, err, again = got.result, got.err, got.again
				}
				if tc.detached && tc.err != "" {
					require.Equal(t, ErrorRetryMin, result.RequeueAfter, "it has its backoff")
				} else {
					require.Equal(t, tc.result, result, tc.reason)
				}
				require.Equal(t, tc.again, again, tc.reason)
				require.Len(t, w.detached, tc.others)
				if tc.err == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, tc.err, tc.reason)
			})
		})
	}
	result, err := (*Workers)(nil).Run(owner, func(func()) (reconcile.Result, error) { return later, failed }, nil)
	require.Equal(t, later, result)
	require.ErrorIs(t, err, failed)
}

// TestBackoffWithoutWorker: each error of a reconcile without a worker doubles the time until the next one, and a success ends that.
func TestBackoffWithoutWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan reconcile.Result, 1)
		w := &Workers{Ended: func(_ trigger.Owner, _ bool, result reconcile.Result, _ error) { ended <- result }}
		run := func(err error) time.Duration {
			_, _ = w.Run(trigger.Owner{Name: "a"}, func(func()) (reconcile.Result, error) { time.Sleep(time.Minute); return reconcile.Result{}, err }, nil)
			return (<-ended).RequeueAfter
		}
		failed := errors.New("failed")
		require.Equal(t, ErrorRetryMin, run(failed))
		require.Equal(t, 2*ErrorRetryMin, run(failed))
		require.Equal(t, 4*ErrorRetryMin, run(failed))
		require.Zero(t, run(nil))
		require.Equal(t, ErrorRetryMin, run(failed))
	})
}
