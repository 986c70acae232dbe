package limits

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// RetryMin is the least time between two attempts after a failure.
	RetryMin = 500 * time.Millisecond
	// RetryMax is the longest time between two attempts after a failure.
	RetryMax = 2 * time.Minute
	// maxSteps is how often the time between attempts doubles at most, before RetryMax.
	maxSteps = 10
	// ErrorRetryMin is the time until a reconcile that returned an error is repeated for the
	// first time: mostly because another client wrote the VidraResource at the same time.
	ErrorRetryMin = 5 * time.Millisecond
	// errorRetryRate is how many reconciles a second are repeated at most, of all VidraResources.
	errorRetryRate = 10
	// ErrorRetryBurst is how many are repeated at once.
	ErrorRetryBurst = 100
)

// RetryDelay returns the time until the next attempt after a number of failures in a row, without jitter.
func RetryDelay(failures int) time.Duration {
	return min(RetryMin<<min(max(failures-1, 0), maxSteps), RetryMax)
}

// NewRateLimiter returns the rate limiter for reconciles that return an error. It is the
// default one of controllers, with waits of RetryMax at most.
func NewRateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](ErrorRetryMin, RetryMax),
		&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(errorRetryRate, ErrorRetryBurst)},
	)
}
