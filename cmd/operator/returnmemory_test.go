package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReturnMemory requires that memory is returned once after a burst of work, and not during it.
func TestReturnMemory(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		// allocated is what each second allocates, in MiB, and returned are the seconds after which memory is returned.
		allocated []uint64
		returned  []int
	}{
		"Rest":       {"There is nothing to return.", []uint64{0, 0, 0}, nil},
		"Burst":      {"It is returned once.", []uint64{70, 0, 0, 0}, []int{2}},
		"Work":       {"Each collection of garbage would delay it.", []uint64{70, 70, 5, 70, 0}, []int{5}},
		"Little":     {"It is not worth a collection of garbage.", []uint64{15, 0, 15, 0}, nil},
		"Two bursts": {"Each is followed by rest.", []uint64{70, 0, 70, 0}, []int{2, 4}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var total atomic.Uint64
				began, returned := time.Now(), []int(nil)
				r := returnMemory{read: total.Load, free: func() {
					returned = append(returned, int(time.Since(began)/returnInterval))
				}}
				go r.Start(ctx) //nolint:errcheck // it returns nil
				synctest.Wait()
				for _, mib := range tc.allocated {
					total.Add(mib << 20)
					time.Sleep(returnInterval)
					synctest.Wait()
				}
				cancel()
				synctest.Wait()
				require.Equal(t, tc.returned, returned, tc.reason)
			})
		})
	}
	require.NotZero(t, newReturnMemory().read(), "the metric exists")
}
