// Package parallel runs calls in goroutines, carries a panic of one to the caller, and has the signals between goroutines.
package parallel

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Do calls do for 0 to n-1, limit at a time, and begins the calls in this order. It panics after all of them as the first that does.
func Do(limit, n int, do func(i int)) {
	if n == 1 { // as in most heals: it need not wait until a goroutine is scheduled
		do(0)
		return
	}
	var group errgroup.Group
	group.SetLimit(limit)
	var caught Panic
	var begun atomic.Int64
	for range n {
		group.Go(func() error {
			defer caught.Catch()
			do(int(begun.Add(1) - 1)) // goroutines begin in any order
			return nil
		})
	}
	_ = group.Wait() // failures are in the results
	caught.Raise()
}

// DoByKey calls do for 0 to n-1, limit of each key at a time: a stalled key holds up no other one.
func DoByKey[K comparable](limit, n int, keyOf func(i int) K, do func(i int)) {
	var keys [][]int
	place := map[K]int{}
	for i := range n {
		key := keyOf(i)
		at, known := place[key]
		if !known {
			at, keys = len(keys), append(keys, nil)
			place[key] = at
		}
		keys[at] = append(keys[at], i)
	}
	Do(len(keys), len(keys), func(k int) {
		Do(limit, len(keys[k]), func(i int) { do(keys[k][i]) })
	})
}
