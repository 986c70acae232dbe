package watchregistry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/internal/parallel"
)

// retrySchedules are the backoffs between two attempts of a failing request. Failures that
// a user has to fix (a role, a kind) back off to minutes; failures that are likely to end by
// themselves are retried sooner.
var retrySchedules = map[Reason]wait.Backoff{
	ReasonForbidden:   {Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 2 * time.Minute},
	ReasonNotFound:    {Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 2 * time.Minute},
	ReasonUnavailable: {Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 15 * time.Second},
}

// minStreamLife is the least duration of a stream after which the next one is requested at once, and the delay of the next
// request otherwise. It is at least the duration at which client-go treats a WATCH as failed.
const minStreamLife = time.Second

// overflowDelay is the time after a list with too many objects until the next one.
const overflowDelay = 2 * time.Minute

// requestBackoff spaces the attempts of failing requests. It belongs to one informer, which
// sends one request at a time. Only retryNow is safe for concurrent use.
type requestBackoff struct {
	reason  Reason
	backoff wait.Backoff
	// until is when the next attempt is due, earliest when it may be made after retryNow.
	until, earliest time.Time
	// woken holds a token after retryNow.
	woken parallel.Signal
}

func newRequestBackoff() *requestBackoff { return &requestBackoff{woken: parallel.NewSignal()} }

// failed records a failure. retryAfter is the wait that the API server asked for, or zero.
func (b *requestBackoff) failed(reason Reason, retryAfter time.Duration) {
	retryAfter = min(retryAfter, cluster.MaxRetryAfter) // an event of a WATCH has one, too
	if b.reason != reason {
		b.reason, b.backoff = reason, retrySchedules[reason]
	}
	now := time.Now()
	b.until = now.Add(max(b.backoff.Step(), retryAfter))
	// Requests that are retried together are sent at different moments.
	b.earliest = now.Add(wait.Jitter(max(retrySchedules[reason].Duration, retryAfter), retrySchedules[reason].Jitter))
}

// delay makes the next attempt wait for d, also after retryNow.
func (b *requestBackoff) delay(d time.Duration) {
	b.until = time.Now().Add(d)
	b.earliest = b.until
}

// reset records a success.
func (b *requestBackoff) reset() {
	b.reason, b.until, b.earliest = "", time.Time{}, time.Time{}
	select {
	case <-b.woken: // it was for an earlier failure
	default:
	}
}

// retryNow ends the wait of the next attempt as early as earliest allows.
func (b *requestBackoff) retryNow() {
	b.woken.Send()
}

// wait blocks until the next attempt is due. It returns an error when ctx ends.
func (b *requestBackoff) wait(ctx context.Context) error {
	if err := sleep(ctx, time.Until(b.until), b.woken); err != nil {
		return err
	}
	return sleep(ctx, time.Until(b.earliest), nil)
}

// sleep blocks for d, or until woken. It returns an error when ctx ends.
func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-woken:
	case <-timer.C:
	}
	return nil
}
