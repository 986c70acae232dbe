package watchregistry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// schedules say how long is waited between two attempts at what fails. What
// only a person can mend (a role, a kind) backs off to minutes; what is likely
// to come back soon is asked for sooner.
var schedules = map[Reason]wait.Backoff{
	ReasonForbidden:   {Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 2 * time.Minute},
	ReasonNotFound:    {Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 2 * time.Minute},
	ReasonUnavailable: {Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 16, Cap: 15 * time.Second},
}

// shortLived is how long a stream must have lived for the next one to be asked
// for at once, and how long is waited otherwise. It is not less than what client-go
// takes for a WATCH that failed.
const shortLived = time.Second

// breaker spaces the attempts at what fails. It belongs to one informer, which
// sends one request at a time, and is not safe for concurrent use; wake is.
type breaker struct {
	reason  Reason
	backoff wait.Backoff
	// until is when the next attempt is due; floor is how early it may be made
	// if it is woken.
	until, floor time.Time
	// woken holds a token when the wait is to end early.
	woken chan struct{}
}

func newBreaker() *breaker { return &breaker{woken: make(chan struct{}, 1)} }

// trip notes a failure. retryAfter is what the API server asked for, or zero.
func (b *breaker) trip(reason Reason, retryAfter time.Duration) {
	if b.reason != reason {
		b.reason, b.backoff = reason, schedules[reason]
	}
	now := time.Now()
	b.until = now.Add(max(b.backoff.Step(), retryAfter))
	// What is woken at the same time is not sent at the same time.
	b.floor = now.Add(wait.Jitter(max(schedules[reason].Duration, retryAfter), schedules[reason].Jitter))
}

// hold has the next attempt wait for d.
func (b *breaker) hold(d time.Duration) {
	b.until = time.Now().Add(d)
	b.floor = b.until
}

// reset notes a success.
func (b *breaker) reset() {
	b.reason, b.until, b.floor = "", time.Time{}, time.Time{}
	select {
	case <-b.woken: // it was for what is over
	default:
	}
}

// wake has the next attempt made as early as may be.
func (b *breaker) wake() {
	select {
	case b.woken <- struct{}{}:
	default:
	}
}

// wait blocks until the next attempt is due. It fails when ctx ends.
func (b *breaker) wait(ctx context.Context) error {
	if err := sleep(ctx, time.Until(b.until), b.woken); err != nil {
		return err
	}
	return sleep(ctx, time.Until(b.floor), nil)
}

// sleep blocks for d, or until it is woken. It fails when ctx ends.
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
